"""From the coarse ink map to a mask: fitted by training, applied by prediction, here alone."""

from __future__ import annotations

from typing import Annotated, Literal

from handlens.challenges.ink.maps import enlarge
from handlens.challenges.ink.score import ORDER
from handlens.challenges.ink.tiles import Map
from handlens.challenges.ink.window import FEW, Mask
from handlens.masks.components import drop_small, join
from handlens.masks.rle import Rle, encode
from handlens.settings import Settings, setting


class FewSlices(Settings, frozen=True, kw_only=True):
    """What is decided otherwise about stacks too thin to show a sheet between air and air (`window.FEW`)."""

    threshold: Annotated[float, setting("probability above which a pixel is ink", ge=0, le=1)]
    smallest: Annotated[int, setting("pixels; smaller spots are dropped", ge=0, le=10_000_000)] = 0


class InkDecision(Settings, frozen=True, kw_only=True):
    """Ink is where the enlarged map exceeds `threshold`, inside the fragment's mask.

    `few` has the values for stacks of fewer than `window.FEW` slices; None where training saw none.
    """

    threshold: Annotated[float, setting("probability above which a pixel is ink", ge=0, le=1)]
    smallest: Annotated[int, setting("pixels; smaller spots are dropped", ge=0, le=10_000_000)] = 0
    turns: Annotated[Literal[1, 4], setting("quarter turns of test-time augmentation")] = 4
    few: Annotated[FewSlices | None, setting("for stacks of few slices")] = None

    def for_slices(self, slices: int) -> FewSlices | InkDecision:
        """Threshold and smallest spot for a stack of so many slices."""
        return self.few if self.few is not None and slices < FEW else self

    def apply(self, coarse: Map, mask: Mask, *, slices: int) -> Rle:
        used = self.for_slices(slices)
        shape = (mask.shape[0], mask.shape[1])
        bands = []
        for top, rows in enlarge(coarse, shape):
            band = encode((rows > used.threshold) & mask[top : top + len(rows)], order=ORDER)
            bands.append(Rle(band.starts + top * shape[1], band.lengths))
        return drop_small(join(bands), shape, smallest=used.smallest)
