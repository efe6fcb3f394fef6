"""The built-in challenges, one package each; called, it gives the names of all challenges, plug-ins too."""

from __future__ import annotations

import sys
from types import ModuleType

from handlens.lazy import lazy


class _Challenges(ModuleType):
    """Python puts this package in the place of the function `handlens.challenges` when it is imported."""

    def __call__(self) -> list[str]:
        names: list[str] = lazy("handlens.registry:names")()
        return names


sys.modules[__name__].__class__ = _Challenges
