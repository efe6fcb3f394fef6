"""Age, gender and body site that a user gives for photographs whose table lacks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handlens.challenges.lesions.data import MAX_AGE, read_demographics
from handlens.challenges.lesions.options import LesionsSettings
from handlens.errors import HandlensError


def given_facts(settings: LesionsSettings) -> dict[str, Any]:
    """Age, gender and location as the options give them; those that are not given are absent."""
    return read_facts(settings.age, settings.gender, settings.site)


def read_facts(age: float | None = None, gender: str | None = None, site: str | int | None = None) -> dict[str, Any]:
    """The same of values; HandlensError where one is out of range."""
    if age is not None and not 0 <= age <= MAX_AGE:
        raise HandlensError(f"age is {age:g}; expected 0 to {MAX_AGE}")
    try:
        facts = read_demographics({"gender": gender or "", "location": str(site or "")})
    except ValueError as error:
        raise HandlensError(str(error)) from None
    return {name: value for name, value in (facts | {"age": age}).items() if value is not None}


def with_facts(details: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """A case's own details, and the facts where it has none.

    >>> with_facts({"age": 40.0, "gender": None}, {"age": 60.0, "gender": "f"})
    {'age': 40.0, 'gender': 'f'}
    """
    own = {name: value for name, value in details.items() if value is not None}
    return {**details, **facts, **own}
