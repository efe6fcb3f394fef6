"""The folders of a training: the first, and those of `--more`, each with its own weight and licence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from handlens.errors import DataError, HandlensError
from handlens.types import Case, Truth

LabelT = TypeVar("LabelT")

MOST_WEIGHT = 1e6


class MoreFolder:
    """One `--more FOLDER[=WEIGHT][,LICENCE]`, as text on a command line and in a manifest.

    `weight` is how often examples of the folder are drawn, all together, compared with those of the first one.

    >>> more = MoreFolder("/data/pad=0.5,CC-BY-4.0")
    >>> str(more.folder), more.weight, more.licence
    ('/data/pad', 0.5, 'CC-BY-4.0')
    >>> str(MoreFolder("/data/pad"))
    '/data/pad=1'
    """

    def __init__(self, text: str) -> None:
        folder, weight, licence = _parts(str(text))
        self.folder = Path(folder).absolute()  # a run that is resumed from elsewhere must find it
        self.weight = _read_weight(weight, str(text))
        self.licence = licence

    def __str__(self) -> str:
        return f"{self.folder}={self.weight:g}{f',{self.licence}' if self.licence else ''}"

    def __repr__(self) -> str:
        return f"MoreFolder({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MoreFolder) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


def _parts(text: str) -> tuple[str, str, str]:
    """Folder, weight and licence; a folder whose name has `=` in it is taken as it is where it exists."""
    if Path(text).exists() or "=" not in text:
        return text, "1", ""
    folder, _, rest = text.rpartition("=")
    weight, _, licence = rest.partition(",")
    return folder, weight or "1", licence


def _read_weight(text: str, whole: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight <= MOST_WEIGHT:
        raise HandlensError(f"--more {whole}: weight {text!r}; expected FOLDER, or FOLDER=WEIGHT with a number above 0")
    return weight


@dataclass(frozen=True, slots=True)
class Source:
    """A folder, the name that its examples carry, and how much it counts."""

    folder: Path
    name: str
    weight: float = 1.0
    licence: str = ""


def list_sources(folder: Path, more: Sequence[MoreFolder], *, licence: str = "") -> tuple[Source, ...]:
    """The first folder and the others; refused where one is absent, or lies in another: nothing may count twice."""
    found = [Source(folder, folder.resolve().name, licence=licence)]
    for each in more:
        if not each.folder.is_dir():
            raise DataError("no such folder", file=each.folder)
        for other in found:
            one, two = each.folder.resolve(), other.folder.resolve()
            if one.is_relative_to(two) or two.is_relative_to(one):
                what = f"this is {other.folder}, or one lies in the other: no example may count twice"
                raise DataError(what, file=each.folder)
        taken = {source.name for source in found}
        name = each.folder.resolve().name
        number = next(number for number in range(1, len(taken) + 2) if _numbered(name, number) not in taken)
        found.append(Source(each.folder, _numbered(name, number), each.weight, each.licence))
    return tuple(found)


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


@dataclass(frozen=True, slots=True)
class Pool(Generic[LabelT]):
    """The labelled cases of all sources; `source_of` is the number of each case's source.

    Cases of the first source keep their ids; those of another begin with its name. So do groups, unless the same group
    may occur in several folders.
    """

    sources: tuple[Source, ...]
    truth: Truth[LabelT]
    source_of: tuple[int, ...]

    def draws(self, own: Sequence[float] | None = None, source_of: Sequence[int] | None = None) -> tuple[float, ...]:
        """How often each example is drawn: `own` within its source, sources together as their weights say.

        `source_of` is needed where examples are parts of cases. The first source keeps its own weights, so that a
        training without more folders is what it was.
        """
        place = self.source_of if source_of is None else tuple(source_of)
        each = [1.0] * len(place) if own is None else list(own)
        totals = [math.fsum(value for value, at in zip(each, place, strict=True) if at == source) for source in
                  range(len(self.sources))]  # fmt: skip
        scale = [source.weight * totals[0] / total if total else 0.0
                 for source, total in zip(self.sources, totals, strict=True)]  # fmt: skip
        scale[0] = 1.0
        return tuple(value * scale[at] for value, at in zip(each, place, strict=True))

    def described(self) -> tuple[dict[str, Any], ...]:
        """Every source with its count, weight and licence, for the plan and the card."""
        counts = Counter(self.source_of)
        return tuple(
            {"name": source.name, "cases": counts[number], "weight": source.weight, "licence": source.licence}
            for number, source in enumerate(self.sources)
        )


def pool(
    sources: Sequence[Source], open_truth: Callable[[Path], Truth[LabelT]], *, same_groups: bool = False
) -> Pool[LabelT]:
    """The cases of all sources under ids of their own; `same_groups` where one group may lie in several folders."""
    cases: list[Case] = []
    origin: dict[str, tuple[Truth[LabelT], Case]] = {}
    source_of: list[int] = []
    for number, source in enumerate(sources):
        truth = open_truth(source.folder)
        prefix = f"{source.name}/" if number else ""
        for case in truth.cases:
            group = case.group or case.id
            named = replace(case, id=f"{prefix}{case.id}", group=group if same_groups else f"{prefix}{group}")
            cases.append(named)
            origin[named.id] = (truth, case)
            source_of.append(number)

    def read(case: Case) -> LabelT:
        truth, original = origin[case.id]
        return truth.read(original)

    return Pool(tuple(sources), Truth(tuple(cases), read), tuple(source_of))
