"""From probabilities to a mask of nuclei: fitted by training, applied by prediction, here alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from handlens.challenges.cells.offsets import MAX_OFFSET, Offset, fade_margin, move_bands
from handlens.challenges.cells.score import ORDER
from handlens.masks.components import drop_small, fill_holes, join
from handlens.masks.rle import Rle, encode
from handlens.settings import Settings, setting
from handlens.types import Shape

Rows = tuple[int, npt.NDArray[np.float32]]
"""First row and (rows, width) probabilities of a band."""


class CellsDecision(Settings, frozen=True, kw_only=True):
    """A cell is where the probability exceeds `threshold`, after moving to where labels lie."""

    threshold: Annotated[float, setting("probability above which a pixel is a cell", ge=0, le=1)]
    smallest: Annotated[int, setting("pixels; smaller objects are dropped", ge=0, le=100_000)] = 0
    largest_hole: Annotated[int, setting("pixels; holes up to it are filled", ge=0, le=100_000)] = 0
    turns: Annotated[Literal[1, 8], setting("orientations of test-time augmentation")] = 8
    down: Annotated[float, setting("pixels that labels lie below what they show", ge=-MAX_OFFSET, le=MAX_OFFSET)] = 0.0
    right: Annotated[
        float, setting("pixels that labels lie right of what they show", ge=-MAX_OFFSET, le=MAX_OFFSET)
    ] = 0.0
    margin: Annotated[int, setting("pixels along the border in which labels get rarer", ge=0, le=100)] = 0

    def place(self, bands: Iterable[Rows], shape: Shape) -> Iterator[Rows]:
        """Probabilities where labels lie, fading towards the border; bands are changed in place."""
        for top, rows in move_bands(bands, shape, Offset(self.down, self.right)):
            fade_margin(rows, shape, top=top, margin=self.margin)
            yield top, rows

    def apply(
        self, bands: Iterable[Rows], shape: Shape, seen: Callable[[int, npt.NDArray[np.float32]], None] | None = None
    ) -> Rle:
        """The mask of a picture whose probabilities come in bands from its top; how high they are changes nothing.

        `seen` is called with each band as it is compared with the threshold.
        """
        masks = []
        for top, rows in self.place(bands, shape):
            band = encode(rows > self.threshold, order=ORDER)
            masks.append(Rle(band.starts + top * shape[1], band.lengths))
            if seen is not None:
                seen(top, rows)
        filled = fill_holes(join(masks), shape, largest=self.largest_hole)
        return drop_small(filled, shape, smallest=self.smallest)
