"""Tensors in files that are written atomically."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from handlens.errors import DataError
from handlens.io.files import replacing


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a file of tensors and plain values; killed at any moment, the old one stays."""
    with replacing(path) as temporary:
        torch.save(state, temporary)


def load(path: Path) -> dict[str, Any] | None:
    """What was saved; None where nothing was."""
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises what its readers raise
        raise DataError(f"damaged ({type(error).__name__}): remove it, and the stage starts over", file=path) from None
    return state
