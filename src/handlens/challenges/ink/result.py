"""What a notebook gets for a fragment of papyrus: probability map, mask, a picture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from handlens.challenges.ink.files import overlay_bands
from handlens.challenges.ink.maps import enlarge
from handlens.challenges.ink.score import ORDER
from handlens.challenges.ink.window import Surface
from handlens.masks.rle import Rle, decode
from handlens.results import picture_html


@dataclass(frozen=True, eq=False, repr=False)
class InkResult:
    """Ink of one fragment. Full-size arrays are made when they are asked for."""

    coarse: npt.NDArray[np.float32]
    """Probability of every square of 4 x 4 pixels."""
    inside: npt.NDArray[np.bool_]
    """The fragment's mask, (H, W)."""
    rle: Rle
    """The ink as run lengths, pixels numbered along rows."""
    surface: Surface
    """The flattened sheet."""
    threshold: float
    """Probability above which a pixel is ink."""
    warnings: tuple[str, ...] = ()
    """Why the scan may not be what the model was made for: sentences."""

    @cached_property
    def probability_map(self) -> npt.NDArray[np.float32]:
        """(H, W) from 0 to 1; 0 outside the fragment's mask."""
        rows = [band for _, band in enlarge(self.coarse, (self.inside.shape[0], self.inside.shape[1]))]
        found: npt.NDArray[np.float32] = np.concatenate(rows) * self.inside
        return found

    @cached_property
    def mask(self) -> npt.NDArray[np.bool_]:
        """(H, W), True where ink is."""
        return decode(self.rle, (self.inside.shape[0], self.inside.shape[1]), order=ORDER)

    def overlay(self) -> npt.NDArray[np.uint8]:
        """(H, W, 3): ink dark on the flattened sheet, as an infrared photograph shows it."""
        shown = np.concatenate(list(overlay_bands(self.surface, self.coarse, self.threshold)))
        return np.repeat(shown[:, :, None], 3, axis=2)

    def __repr__(self) -> str:
        height, width = self.inside.shape
        return f"<InkResult {height}x{width}: {self.rle.area / max(1, int(self.inside.sum())):.1%} ink>"

    def _repr_html_(self) -> str:
        share = self.rle.area / max(1, int(self.inside.sum()))
        return picture_html(self.overlay(), ". ".join([f"ink on {share:.1%} of the sheet", *self.warnings]))
