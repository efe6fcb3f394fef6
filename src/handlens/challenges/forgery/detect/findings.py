"""What the detector says about a figure: which region is a copy of which, by what transform, how sure, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from handlens.types import Shape

FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]
ByteArray = npt.NDArray[np.uint8]
IntArray = npt.NDArray[np.int64]
Matrix = npt.NDArray[np.float64]


class TierName(StrEnum):
    """The kinds of candidates; the values are the names in decision files and in records of an inspection."""

    PANELS = "panels"
    KEYPOINTS = "key points"
    BLOTS = "blots"
    SHIFTS = "shifts"
    OBJECTS = "objects"


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """A region of the figure: its pixels as a mask, and the row and column of the mask's upper left corner."""

    top: int
    left: int
    mask: BoolArray

    @property
    def area(self) -> int:
        return int(self.mask.sum())

    @property
    def window(self) -> tuple[slice, slice]:
        """The rectangle of the figure that the mask covers."""
        height, width = self.mask.shape
        return slice(self.top, self.top + height), slice(self.left, self.left + width)

    @property
    def centre(self) -> tuple[float, float]:
        """The middle of its pixels as x, y."""
        rows, columns = np.nonzero(self.mask)
        return self.left + float(columns.mean()), self.top + float(rows.mean())

    def overlap(self, other: Patch) -> int:
        """Pixels that two regions share."""
        top, left = max(self.top, other.top), max(self.left, other.left)
        bottom = min(self.top + self.mask.shape[0], other.top + other.mask.shape[0])
        right = min(self.left + self.mask.shape[1], other.left + other.mask.shape[1])
        if bottom <= top or right <= left:
            return 0
        first = self.mask[top - self.top : bottom - self.top, left - self.left : right - self.left]
        second = other.mask[top - other.top : bottom - other.top, left - other.left : right - other.left]
        return int((first & second).sum())

    def paint(self, canvas: BoolArray) -> None:
        """Set its pixels in a mask of the whole figure."""
        canvas[self.window] |= self.mask


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """A region and its copy.

    `matrix` (2, 3) brings x, y of the source to x, y of the copy. `evidence` names what was measured; `tier` is a
    `TierName`, `probability` what the verifier makes of the evidence.
    Which of the two is the original nobody can tell: `source` is the one that was looked at first.
    """

    source: Patch
    copy: Patch
    matrix: Matrix
    tier: str
    evidence: Mapping[str, float] = field(default_factory=dict)
    probability: float = 0.0

    @property
    def mirrored(self) -> bool:
        return bool(np.linalg.det(self.matrix[:, :2]) < 0)

    @property
    def scale(self) -> float:
        """Size of the copy relative to the source."""
        return float(np.sqrt(abs(np.linalg.det(self.matrix[:, :2]))))

    @property
    def turn(self) -> float:
        """Degrees, from -180 to 180, clockwise as seen; of a mirrored copy: after mirroring left and right."""
        side = -1.0 if self.mirrored else 1.0
        return float(np.rad2deg(np.arctan2(side * self.matrix[1, 0], side * self.matrix[0, 0])))


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Matches that share regions or were made in one go: one instance of the answer."""

    matches: tuple[Match, ...]
    probability: float

    def mask(self, shape: Shape) -> BoolArray:
        """Source and copies together, over the whole figure."""
        canvas = np.zeros(shape, np.bool_)
        for patch in self.patches():
            patch.paint(canvas)
        return canvas

    def patches(self) -> Iterator[Patch]:
        """The regions of its matches, source before copy; a region may come twice."""
        for match in self.matches:
            yield match.source
            yield match.copy


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of a compound figure: its rectangle, and what it shows: `picture`, `plot` or `text`."""

    top: int
    left: int
    bottom: int
    right: int
    kind: str

    @property
    def window(self) -> tuple[slice, slice]:
        return slice(self.top, self.bottom), slice(self.left, self.right)

    @property
    def shape(self) -> Shape:
        return self.bottom - self.top, self.right - self.left

    def scaled(self, down: float, across: float) -> Panel:
        """The same in pixels of a picture so much higher and wider."""
        top, bottom = round(self.top * down), round(self.bottom * down)
        return Panel(top, round(self.left * across), bottom, round(self.right * across), self.kind)


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything about one figure: the surest group first; `forged` is the verdict.

    `doubtful` groups are those that a person might look at but that the answer leaves out. `cut` names the tiers that
    ran out of time. `searched` is the share of the pixels that were searched: gutters, charts, drawings and letters
    are not. `candidates` are the groups that may be the answer, the surest first: at any sensitivity it is the
    first of them, at another more or fewer. `fields` are shown twice, as channels beside their merge: no copies.
    """

    shape: Shape
    panels: tuple[Panel, ...]
    groups: tuple[Group, ...]
    doubtful: tuple[Group, ...]
    probability: float
    cut: tuple[str, ...] = ()
    searched: float = 1.0
    candidates: tuple[Group, ...] = ()
    fields: tuple[Group, ...] = ()

    @property
    def forged(self) -> bool:
        return bool(self.groups)
