"""The training engine: plan, folds, loop, export. It knows no challenge; it needs the extra `handlens[train]`."""

from __future__ import annotations

from typing import Any

from handlens.errors import HandlensError


def require_engine() -> Any:
    """The module `training.engine`; HandlensError says what to install where it cannot be imported."""
    try:
        from handlens.training import engine
    except ModuleNotFoundError as error:
        what = f"training needs {error.name}, which is not installed"
        raise HandlensError(f"{what}: pip install 'handlens[train]'") from None
    return engine
