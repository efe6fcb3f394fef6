"""Licences of what comes with a challenge: fitted parameters that are no model folder; which ones restrict use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FittedFile:
    """Fitted parameters: their file, SPDX licence, and what they were fitted to."""

    file: Path
    licence: str
    note: str


def is_non_commercial(licence: str) -> bool:
    """Whether an SPDX identifier or expression names a licence for non-commercial use only.

    >>> is_non_commercial("Apache-2.0 AND CC-BY-NC-4.0"), is_non_commercial("CC-BY-4.0")
    (True, False)
    """
    return "NC" in licence.split("-")
