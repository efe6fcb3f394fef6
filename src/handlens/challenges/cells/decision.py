"""From probabilities to a mask of nuclei: fitted by training, applied by prediction, here alone."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
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

Seen = Callable[[int, npt.NDArray[np.float32]], None]
"""Called with each band as it is compared with a threshold."""

LOWEST, HIGHEST = 0.06, 0.6
"""Between these lies the per-slide threshold. Below 0.06 Dice falls on every second slide of CPM17."""

LEAST_SHARE = 1e-4
"""Share of a slide below which hardly anything is found: less says nothing more about it."""


class SlideThreshold(Settings, frozen=True, kw_only=True):
    """The threshold of each slide, of any laboratory, from the share of it that a first threshold finds.

    Where stain or focus hide nuclei from the network, it finds little, and its probabilities are low all over.
    """

    offset: Annotated[float, setting("logit of the threshold where all of the slide is found", ge=-20, le=20)]
    slope: Annotated[float, setting("change of that logit by the logarithm of the share found", ge=-20, le=20)]

    def threshold(self, share: float) -> float:
        """For the share of the slide that exceeds `CellsDecision.threshold`.

        >>> rule = SlideThreshold(offset=0.5, slope=1.0)
        >>> [round(rule.threshold(share), 2) for share in (0.0, 0.1, 0.3, 1.0)]
        [0.06, 0.14, 0.33, 0.6]
        """
        logit = self.offset + self.slope * math.log(max(share, LEAST_SHARE))
        return min(max(1 / (1 + math.exp(-logit)), LOWEST), HIGHEST)


class CellsDecision(Settings, frozen=True, kw_only=True):
    """A cell is where the probability exceeds a threshold.

    Images of the contest have one threshold for all, and answers are moved and fade as the contest's labels do. Other
    images get answers where the nuclei are, each with a threshold of its own where `slide` says how.
    """

    threshold: Annotated[float, setting("probability above which a pixel is a cell", ge=0, le=1)]
    smallest: Annotated[int, setting("pixels; smaller objects are dropped", ge=0, le=100_000)] = 0
    largest_hole: Annotated[int, setting("pixels; holes up to it are filled", ge=0, le=100_000)] = 0
    turns: Annotated[Literal[1, 2, 4, 8], setting("orientations of test-time augmentation")] = 8
    down: Annotated[float, setting("pixels that labels lie below what they show", ge=-MAX_OFFSET, le=MAX_OFFSET)] = 0.0
    right: Annotated[
        float, setting("pixels that labels lie right of what they show", ge=-MAX_OFFSET, le=MAX_OFFSET)
    ] = 0.0
    margin: Annotated[int, setting("pixels along the border in which labels get rarer", ge=0, le=100)] = 0
    slide: Annotated[
        SlideThreshold | None, setting("how other images than the contest's find their threshold; null: the same")
    ] = None
    sizes: Annotated[
        tuple[tuple[int, int], ...],
        setting("height and width of the contest's images; an image of another size is none of them; empty: any"),
    ] = ()

    def place(self, bands: Iterable[Rows], shape: Shape) -> Iterator[Rows]:
        """Probabilities where labels lie, fading towards the border; bands are changed in place."""
        for top, rows in move_bands(bands, shape, Offset(self.down, self.right)):
            fade_margin(rows, shape, top=top, margin=self.margin)
            yield top, rows

    def resized(self, factor: float) -> CellsDecision:
        """The same for pictures whose sides are `factor` times as long."""
        return self.replace(
            smallest=round(self.smallest * factor**2), largest_hole=round(self.largest_hole * factor**2)
        )

    def follows_labels(self, shape: Shape, *, contest: bool) -> bool:
        """Whether an image is one of the contest's: of its layout, and of a size that its images have."""
        return contest and (not self.sizes or shape in self.sizes)

    def apply(self, bands: Iterable[Rows], shape: Shape, seen: Seen | None = None, *, contest: bool) -> Rle:
        """The mask of a picture whose probabilities come in bands from its top; how high they are changes nothing.

        `contest` says that it lies in the contest's layout.
        """
        if self.follows_labels(shape, contest=contest):
            bands = self.place(bands, shape)
        elif self.slide is not None:
            return self._clean(self._two_passes(bands, shape, self.slide, seen), shape)
        return self._clean(self._one_pass(bands, shape, seen), shape)

    def _one_pass(self, bands: Iterable[Rows], shape: Shape, seen: Seen | None) -> Iterator[Rle]:
        for top, rows in bands:
            yield _encode_band(rows > self.threshold, top, shape)
            if seen is not None:
                seen(top, rows)

    def _two_passes(
        self, bands: Iterable[Rows], shape: Shape, rule: SlideThreshold, seen: Seen | None
    ) -> Iterator[Rle]:
        """All bands are kept, packed, until the slide's threshold is known."""
        packed = _PackedLevels()
        for top, rows in bands:
            packed.add(top, rows)
            if seen is not None:
                seen(top, rows)
        level = 255 * rule.threshold(packed.share_above(self.threshold))
        for top, levels in packed.unpack():
            yield _encode_band(levels > level, top, shape)

    def _clean(self, masks: Iterable[Rle], shape: Shape) -> Rle:
        filled = fill_holes(join(list(masks)), shape, largest=self.largest_hole)
        return drop_small(filled, shape, smallest=self.smallest)


@dataclass(slots=True)
class _PackedLevels:
    """Probabilities of a picture in 255 steps, compressed: about a tenth of a byte for each pixel of a slide."""

    bands: list[tuple[int, int, bytes]] = field(default_factory=list)
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(256, np.int64))

    def add(self, top: int, rows: npt.NDArray[np.float32]) -> None:
        levels = np.rint(rows * 255).astype(np.uint8)
        self.counts += np.bincount(levels.ravel(), minlength=256)
        self.bands.append((top, levels.shape[1], zlib.compress(levels.tobytes(), 1)))

    def share_above(self, threshold: float) -> float:
        return float(self.counts[math.floor(threshold * 255) + 1 :].sum() / max(1, self.counts.sum()))

    def unpack(self) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        for top, width, content in self.bands:
            yield top, np.frombuffer(zlib.decompress(content), np.uint8).reshape(-1, width)


def _encode_band(mask: npt.NDArray[np.bool_], top: int, shape: Shape) -> Rle:
    band = encode(mask, order=ORDER)
    return Rle(band.starts + top * shape[1], band.lengths)
