"""Name to challenge: the built-in ones, then plug-ins of the entry-point group `handlens.challenges`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from handlens.errors import HandlensError, did_you_mean
from handlens.types import AnyChallenge, Challenge

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BUILT_IN = ("forgery", "ink", "cells", "lesions")
GROUP = "handlens.challenges"


def names() -> list[str]:
    """All challenges, built-in ones first."""
    return [*BUILT_IN, *(name for name in sorted(_plug_ins()) if name not in BUILT_IN)]


def challenge(name: str) -> AnyChallenge:
    """The challenge of this name.

    >>> challenge("ink").metric
    'F0.5, mean over fragments'
    """
    if name in BUILT_IN:
        found = import_module(f"handlens.challenges.{name}").CHALLENGE
    else:
        plug_ins = _plug_ins()
        if name not in plug_ins:
            raise HandlensError(unknown(name))
        try:
            found = plug_ins[name].load()
        except Exception as error:  # someone else's code
            raise HandlensError(f"the plug-in for {name} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, Challenge):
        raise HandlensError(f"the plug-in for {name} is no Challenge but {type(found).__name__}")
    return found


def unknown(name: str) -> str:
    """What to say of a name that no challenge has.

    >>> unknown("cell")
    "'cell' is not a challenge; there are forgery, ink, cells, lesions. Did you mean cells?"
    """
    return f"{name!r} is not a challenge; there are {', '.join(names())}{did_you_mean(name, names())}"


def _plug_ins() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}
