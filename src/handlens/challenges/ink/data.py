"""Where the ink challenge keeps its files: a folder for each fragment, under `train/` and `test/` or alone."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from handlens.challenges.ink.score import ORDER
from handlens.errors import DataError, Problem, inside
from handlens.io import volumes
from handlens.io.gate import is_there
from handlens.io.images import list_images, read_header, read_mask, shown
from handlens.io.submissions import open_pairs
from handlens.masks.rle import Rle, encode
from handlens.types import Case, Inventory, Part, Shape, Truth

if TYPE_CHECKING:
    from handlens.challenges.ink.options import InkSettings

VOLUME = "surface_volume"
LABEL = "inklabels.png"
MASK = "mask.png"


def read_cases(folder: Path, part: Part) -> list[Case]:
    """The fragments of one part, in the order of their names; the shape of a damaged one is unknown."""
    return [_case(fragment) for fragment in _fragments(folder, part)]


def open_truth(path: Path, settings: InkSettings) -> Truth[Rle]:
    """Labels of a folder (`<id>/inklabels.png`, also under `train/`) or a solution file `Id,Predicted`."""
    if is_there(path):
        return open_pairs(path, id_column="Id", answer_column="Predicted", shape=None)
    fragments = {_name(fragment): fragment for fragment in _fragments(path, "train") if is_there(fragment / LABEL)}
    if not fragments:
        raise DataError(
            f"no <fragment>/{LABEL} here or under train/: expected those, or a file Id,Predicted", file=path
        )

    def read(case: Case) -> Rle:
        label = fragments[case.id] / LABEL
        mask = read_mask(label)
        if mask.shape != case.shape:
            raise DataError(f"the label is {shown(mask.shape)}, its fragment {shown(case.shape or ())}", file=label)
        return encode(mask, order=ORDER)

    cases = (Case(name, fragment, _read_shape(fragment), group=name) for name, fragment in fragments.items())
    return Truth(tuple(cases), read)


def survey(folder: Path) -> Inventory:
    """Fragments, slices, sizes, and what is wrong, from headers alone."""
    facts: dict[str, str] = {}
    problems: list[Problem] = []
    parts: tuple[Part, ...] = ("train", "test")
    for part in parts:
        for fragment in _fragments(folder, part):
            facts[f"{part} {_name(fragment)}"] = _survey_fragment(folder, fragment, part, problems)
    if not facts:
        what = f"no fragments: expected train/<id>/{VOLUME}/00.tif and test/<id>/{VOLUME}/00.tif"
        problems.append(Problem(what, file=str(folder)))
    return Inventory(facts, tuple(problems))


def _fragments(folder: Path, part: Part) -> list[Path]:
    """Fragment folders of a part: every one under `train/` or `test/`, also where it lacks its files.

    Without `train/` and `test/`, those with a label are training fragments.
    """
    if any((folder / name).is_dir() for name in ("train", "test")):
        inside = folder / part
        return _subfolders(inside) if inside.is_dir() else []
    if not folder.is_dir():
        raise DataError("no such folder", file=folder)
    found = [folder] if _is_fragment(folder) else list(filter(_is_fragment, _subfolders(folder)))
    return [fragment for fragment in found if is_there(fragment / LABEL) == (part == "train")]


def _subfolders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _is_fragment(folder: Path) -> bool:
    stack = volumes.find_volume(folder / VOLUME)
    return stack is not None or is_there(folder / LABEL) or is_there(folder / MASK)


def _name(fragment: Path) -> str:
    """The folder's name as it is written; `.` has one too, and a link keeps its own."""
    return Path(os.path.abspath(fragment)).name


def _case(fragment: Path) -> Case:
    name = _name(fragment)
    try:
        return Case(name, fragment, _read_shape(fragment), group=name)
    except DataError as error:
        return Case(name, fragment, group=name, fault=str(error))


def _read_shape(fragment: Path) -> Shape:
    """From the mask's header, else the label's, else the first slice's."""
    for name in (MASK, LABEL):
        if is_there(fragment / name):
            return read_header(fragment / name).shape
    return volumes.open_stack(fragment / VOLUME).shape


def _survey_fragment(folder: Path, fragment: Path, part: Part, problems: list[Problem]) -> str:
    words = []
    shapes: dict[str, Shape] = {}
    if volume := volumes.find_volume(fragment / VOLUME):
        found = volumes.problems(volume)
        problems += [Problem(problem.what, file=str((volume / problem.file).relative_to(folder))) for problem in found]
        if not found:
            stack = volumes.open_stack(volume)
            shapes["the slices"] = stack.shape
            words.append(f"{stack.depth} slices of {shown(stack.shape)}, {stack.dtype}")
        elif commonest := _commonest_shape(volume):
            shapes["the slices"] = commonest
    else:
        problems.append(Problem(f"no {VOLUME}/: add the slices", file=inside(fragment, folder)))
    for name in [MASK, LABEL] if part == "train" else [MASK]:
        picture = fragment / name
        try:
            shapes[name] = read_header(picture).shape
        except DataError as error:
            missing = Problem("not there: add it", file=inside(picture, folder))
            problems.append(error.problem(folder) if picture.exists() else missing)
            continue
        words.append(name)
        model, expected = next(iter(shapes.items()))
        if shapes[name] != expected:
            what = f"{shown(shapes[name])}, but {model} {'are' if model != MASK else 'is'} {shown(expected)}"
            problems.append(Problem(f"{what}: they must be equal", file=inside(picture, folder)))
    return ", ".join(words) or "nothing readable"


def _commonest_shape(volume: Path) -> Shape | None:
    """What masks are compared with where the stack has problems of its own."""
    shapes: Counter[Shape] = Counter()
    for path in list_images(volume):
        try:
            shapes[read_header(path).shape] += 1
        except DataError:
            continue  # named already
    return shapes.most_common(1)[0][0] if shapes else None
