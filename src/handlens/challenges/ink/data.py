"""Where the ink challenge keeps its fragments: under `train/` and `test/`, side by side, or one alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from handlens.challenges.ink.layout import LABEL, MASK, VOLUME, find_files, is_picture
from handlens.challenges.ink.score import ORDER
from handlens.errors import DataError, Problem, counted, inside
from handlens.io import volumes
from handlens.io.gate import is_there
from handlens.io.images import list_images, read_header, read_mask, shown
from handlens.io.submissions import open_pairs
from handlens.masks.rle import Rle, encode
from handlens.types import Case, Inventory, Part, Shape, Truth

if TYPE_CHECKING:
    from handlens.challenges.ink.options import InkSettings


def read_cases(folder: Path, part: Part) -> list[Case]:
    """The fragments of one part, in the order of their names; the shape of a damaged one is unknown."""
    return [_case(fragment) for fragment in _fragments(folder, part)]


def open_truth(path: Path, settings: InkSettings) -> Truth[Rle]:
    """Labels of a folder (`<id>/inklabels.png`, also under `train/`) or a solution file `Id,Predicted`."""
    if is_there(path):
        return open_pairs(path, id_column="Id", answer_column="Predicted", shape=None)
    found = [find_files(fragment) for fragment in _fragments(path, "train")]
    fragments = {files.name: files for files in found if files.label is not None}
    if not fragments:
        raise DataError(
            f"no <fragment>/{LABEL} here or under train/: expected those, or a file Id,Predicted", file=path
        )

    def read(case: Case) -> Rle:
        label = fragments[case.id].label or path
        mask = read_mask(label)
        if mask.shape != case.shape:
            raise DataError(f"the label is {shown(mask.shape)}, its fragment {shown(case.shape or ())}", file=label)
        return encode(mask, order=ORDER)

    cases = (Case(name, files.folder, files.read_shape(), group=name) for name, files in fragments.items())
    return Truth(tuple(cases), read)


def survey(folder: Path) -> Inventory:
    """Fragments, slices, sizes, and what is wrong, from headers alone."""
    facts: dict[str, str] = {}
    problems: list[Problem] = []
    parts: tuple[Part, ...] = ("train", "test")
    for part in parts:
        for fragment in _fragments(folder, part):
            facts[f"{part} {find_files(fragment).name}"] = _survey_fragment(folder, fragment, part, problems)
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
    if is_picture(folder):
        return [folder] if part == "test" else []
    if not folder.is_dir():
        what = "neither a folder of fragments nor a picture" if folder.exists() else "no such folder"
        raise DataError(what, file=folder)
    found = [folder] if _is_fragment(folder) else list(filter(_is_fragment, _subfolders(folder)))
    return [fragment for fragment in found if (find_files(fragment).label is not None) == (part == "train")]


def _subfolders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _is_fragment(folder: Path) -> bool:
    files = find_files(folder)
    return any(path is not None for path in (files.volume, files.mask, files.label))


def _case(fragment: Path) -> Case:
    files = find_files(fragment)
    try:
        return Case(files.name, fragment, files.read_shape(), group=files.name)
    except DataError as error:
        return Case(files.name, fragment, group=files.name, fault=str(error))


def _survey_fragment(folder: Path, fragment: Path, part: Part, problems: list[Problem]) -> str:
    words = []
    shapes: dict[str, Shape] = {}
    files = find_files(fragment)
    if (volume := files.volume) and volume.is_dir():
        found = volumes.problems(volume, from_zero=files.contest)
        problems += [Problem(problem.what, file=inside(volume / problem.file, folder)) for problem in found]
        if not found:
            stack = files.open_stack()
            shapes["the slices"] = stack.shape
            words.append(f"{counted(stack.depth, 'slice')} of {shown(stack.shape)}, {stack.dtype}")
        elif commonest := _commonest_shape(volume):
            shapes["the slices"] = commonest
    elif volume is not None:
        words.append("one picture")
    else:
        problems.append(Problem(f"no {VOLUME}/: add the slices", file=inside(fragment, folder)))
    wanted = {MASK: files.mask, **({LABEL: files.label} if part == "train" else {})}
    for name, path in wanted.items():
        if path is None and not files.contest and volume is not None:
            continue  # the mask is where the scan is not 0
        picture = path or files.folder / name
        try:
            shapes[name] = read_header(picture).shape
        except DataError as error:
            missing = Problem("not there: add it", file=inside(picture, folder))
            problems.append(error.problem(folder) if picture.exists() else missing)
            continue
        words.append(picture.name)
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
