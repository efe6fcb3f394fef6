"""What a page shows of a case and of a run, before it is a page: layers of a picture, reasons, charts, tables.

A challenge makes these values (`Challenge.report`); `handlens.report` turns them into files, JSON and HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

Colour = tuple[int, int, int]

ANSWER: Colour = (230, 159, 0)
TRUTH: Colour = (0, 158, 115)
MISSED: Colour = (0, 114, 178)
EXTRA: Colour = (213, 94, 0)
"""Okabe and Ito's orange, green, blue and vermilion, which colour-blind people can tell apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A picture, or marks over one, all of one size.

    `read(top, bottom)` gives rows: (rows, W) or (rows, W, 3) uint8 of a picture; of marks (rows, W), 0 where nothing
    is and n where the n-th colour of `palette` is. A layer that is not `on` waits to be switched on.
    """

    name: str
    shape: tuple[int, int]
    read: Callable[[int, int], npt.NDArray[Any]]
    palette: tuple[Colour, ...] = ()
    on: bool = True


@dataclass(frozen=True, slots=True)
class Line:
    """A line over a picture, x and y in pixels of it, and the group that it belongs to."""

    start: tuple[float, float]
    end: tuple[float, float]
    colour: Colour = ANSWER


@dataclass(frozen=True, slots=True)
class Name:
    """A word over a picture, its middle at x and y in pixels of it."""

    text: str
    place: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a case lost points: a kind such as `missed`, a sentence, the points, and where (top, left, bottom, right).

    `count` are the errors that it stands for: small ones of a kind are one reason together.
    """

    kind: str
    text: str
    lost: float = 0.0
    box: tuple[int, int, int, int] | None = None
    count: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """A small picture with a caption, such as two regions side by side; (H, W, 3) uint8."""

    title: str
    caption: str
    pixels: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class CaseView:
    """What is shown of one case. The first layer is the picture itself, the others lie over it.

    `slide` names pictures that a slider goes through, from the first to the last. `words` say in short what became of
    the case, where the reasons do not; `facts` are shown beside the picture; `tags` are words to filter by.
    """

    layers: tuple[Layer, ...] = ()
    reasons: tuple[Reason, ...] = ()
    lines: tuple[Line, ...] = ()
    names: tuple[Name, ...] = ()
    strips: tuple[Strip, ...] = ()
    slide: tuple[str, ...] = ()
    words: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """Named series of points (x, y), as lines or as points; `chosen` is an x that was decided for.

    `names` has a word for each point of a series, where points are things, such as models.
    """

    title: str
    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    points: bool = False
    chosen: float | None = None
    diagonal: bool = False
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Matrix:
    """Counts of what is (rows) against what was said (columns)."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    counts: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of words and numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: a heading, a sentence, and what is drawn."""

    title: str
    text: str = ""
    items: Sequence[Chart | Matrix | Table] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """A score that is known from elsewhere, to compare with."""

    name: str
    value: float
