"""The settings of forgery."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from handlens.settings import Settings, setting

SECONDS = 13.0
"""Time for one figure: what the contest's limit leaves for each."""

Sensitivity = Literal["low", "normal", "high"]
"""How easily a figure is called forged."""


class ForgerySettings(Settings, frozen=True, kw_only=True):
    """Options of the commands for forgery."""

    sources: Annotated[Path | None, setting("Folder of images to cut from, instead of generated ones.", "sample")] = (
        None
    )
    kind: Annotated[
        Literal["object clone", "region copy", "cover-up", "panel reuse", "lane reuse", "cut-out"] | None,
        setting("Only this kind of forgery; otherwise the first five, as often as in the contest.", "sample"),
    ] = None
    panels: Annotated[
        Literal["one", "several"] | None,
        setting("Figures of one panel or of several; otherwise both, as often as in the contest.", "sample"),
    ] = None
    more: Annotated[Path | None, setting("An additional folder of labelled figures.", "train")] = None
    write: Annotated[
        str | None,
        setting("Files for every forged figure: some of overlay,table, or all, or none  [default: all]", "solve"),
    ] = None
    sensitivity: Annotated[
        Sensitivity,
        setting("How easily a figure is called forged: about 0.2, 1 or 5 % of honest ones are.", "solve"),
    ] = "normal"
    seconds: Annotated[float, setting("Time limit for one image.", "solve", "train", ge=0)] = SECONDS
