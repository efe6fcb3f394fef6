"""Functions that are imported when they are first called, so that naming a challenge loads nothing heavy."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class lazy:  # noqa: N801 - it stands for a function
    """A function by the path `package.module:name`; picklable.

    >>> lazy("math:hypot")(3.0, 4.0)
    5.0
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, *args: Any, **options: Any) -> Any:
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)(*args, **options)

    def __repr__(self) -> str:
        return f"lazy({self.path!r})"
