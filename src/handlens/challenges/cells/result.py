"""What a notebook gets for an image of cells: mask, label image, table, overlay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from handlens.challenges.cells.instances import COLUMNS, objects_table, paint_labels, split_cells
from handlens.challenges.cells.score import ORDER
from handlens.challenges.cells.splitting import Watershed
from handlens.masks.components import Components
from handlens.masks.rle import Rle, decode
from handlens.results import outline, picture_html

ByteImage = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False, repr=False)
class CellsResult:
    """Cells of one image. Arrays are made when they are asked for."""

    image: ByteImage
    rle: Rle
    """The mask as run lengths, pixels numbered along rows."""
    certainty: ByteImage
    """Probability of every pixel in 255 steps, (H, W)."""
    watershed: Watershed = field(default_factory=Watershed)
    """How touching nuclei are split."""
    warnings: tuple[str, ...] = ()
    """What is odd about the image, such as that it is no H&E."""

    @cached_property
    def mask(self) -> npt.NDArray[np.bool_]:
        """(H, W), True where a cell is."""
        return decode(self.rle, (self.image.shape[0], self.image.shape[1]), order=ORDER)

    @cached_property
    def labels(self) -> npt.NDArray[np.int32]:
        """(H, W): 0 outside, 1 and so on for each nucleus; touching nuclei are split by a watershed."""
        return paint_labels(self._objects).astype(np.int32)

    @cached_property
    def table(self) -> Mapping[str, list[float]]:
        """A column for each measurement, a row for each nucleus, numbered as in `labels`; for `pandas.DataFrame`."""
        rows = list(objects_table(self._objects))
        return {name: [row[place] for row in rows] for place, name in enumerate(COLUMNS)}

    @property
    def probability(self) -> npt.NDArray[np.float32]:
        """(H, W) from 0 to 1, in steps of 1 / 255, as it was compared with the threshold."""
        return self.certainty.astype(np.float32) / np.float32(255)

    def overlay(self) -> ByteImage:
        """The image with the cells outlined."""
        return outline(self.image, [self.mask], thickness=1)

    @cached_property
    def _objects(self) -> Components:
        return split_cells(self.rle, self.certainty, self.watershed)

    def __repr__(self) -> str:
        height, width = self.image.shape[:2]
        return f"<CellsResult {height}x{width}: {self.rle.area / max(1, height * width):.1%} cells>"

    def _repr_html_(self) -> str:
        return picture_html(self.overlay(), f"{len(self.table['object']):,} cells, {self.mask.mean():.1%} of the image")
