"""Where the forgery challenge keeps its files, and what a case is called when two folders use the same number."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from handlens.challenges.forgery.score import ORDER, Instances, parse_annotations
from handlens.errors import DataError, Problem, inside
from handlens.io.gate import is_there
from handlens.io.images import list_images, picture_case, read_header, shown, skipped
from handlens.io.npy import read_npy, read_npy_header
from handlens.io.submissions import read_solutions
from handlens.masks.rle import MAX_INSTANCES, encode
from handlens.types import Case, Inventory, Part, Shape, Truth

if TYPE_CHECKING:
    from handlens.challenges.forgery.options import ForgerySettings

SOLUTION = "solution.csv"


@dataclass(frozen=True, slots=True)
class _Source:
    """A folder of labelled images; `masks` is None where all are authentic."""

    kind: str
    images: Path
    masks: Path | None


def read_cases(folder: Path, part: Part) -> list[Case]:
    """The images of one part; a single image, or a folder of images alone, is a test part."""
    if is_there(folder):
        return [picture_case(folder.stem, folder)] if part == "test" else []
    if part == "train":
        return [case for case, _ in _labelled(folder)]
    return [
        picture_case(path.stem, path)
        for source in _sources(folder)
        if source.kind == "test"
        for path in list_images(source.images)
    ]


def open_truth(path: Path, settings: ForgerySettings) -> Truth[Instances]:
    """`train_images/` with `train_masks/`, or a solution file `case_id,annotation,shape`."""
    if is_there(path):
        return _open_solution(path)
    labelled = _labelled(path)
    if not labelled and is_there(path / SOLUTION):
        return _open_solution(path / SOLUTION)
    if not labelled:
        raise DataError(
            f"no labelled images: expected train_images/authentic, train_images/forged and train_masks, or {SOLUTION}",
            file=path,
        )
    masks = {case.id: mask for case, mask in labelled}

    def read(case: Case) -> Instances:
        mask = masks[case.id]
        if case.fault:
            raise DataError(case.fault)
        return _read_instances(mask, case) if mask else ()

    return Truth(tuple(case for case, _ in labelled), read)


def survey(folder: Path) -> Inventory:
    """Counts, sizes, instances, and what is wrong, from headers alone."""
    facts: dict[str, str] = {}
    problems: list[Problem] = []
    sizes: Counter[str] = Counter()
    instances: Counter[int] = Counter()
    for source in _sources(folder):
        images = list_images(source.images)
        facts[source.kind] = f"{len(images):,} images"
        shapes: dict[str, Shape | None] = {}
        for path in images:
            if (stem := path.stem) in shapes:
                problems.append(Problem(f"a second image with case_id {stem}: rename one", file=inside(path, folder)))
            shapes.setdefault(stem, None)
            try:
                shape = read_header(path).shape
            except DataError as error:
                problems.append(error.problem(folder))
                continue
            shapes[stem] = shapes[stem] or shape
            sizes[shown(shape)] += 1
        if source.masks:
            instances += _survey_masks(folder, source.masks, shapes, problems)
    if not sizes and not problems:
        what = "no pictures: expected them here, or in train_images/authentic/, train_images/forged/ or test_images/"
        problems.append(Problem(what, file=str(folder)))
    if sizes:
        facts["commonest sizes (height x width)"] = ", ".join(f"{size}: {n:,}" for size, n in sizes.most_common(5))
    if instances:
        facts["instances in an image"] = ", ".join(f"{n}: {count:,}" for n, count in sorted(instances.items()))
    places = [source.images for source in _sources(folder) if source.images.is_dir()]
    return Inventory(facts, tuple(problems), tuple(note for place in places for note in skipped(place, within=folder)))


def _sources(folder: Path) -> list[_Source]:
    """The folders that are there; without any of them the folder itself, as pictures to be answered."""
    places = [
        _Source("authentic", folder / "train_images" / "authentic", None),
        _Source("forged", folder / "train_images" / "forged", folder / "train_masks"),
        _Source("supplemental", folder / "supplemental_images", folder / "supplemental_masks"),
        _Source("test", folder / "test_images", None),
    ]
    found = [place for place in places if place.images.is_dir() or (place.masks and place.masks.is_dir())]
    return found or [_Source("test", folder, None)]


def _labelled(folder: Path) -> list[tuple[Case, Path | None]]:
    """Training images and their masks. A number used by two folders is told apart as `forged/12` and `authentic/12`."""
    found = [
        (source.kind, path, source.masks / f"{path.stem}.npy" if source.masks else None)
        for source in _sources(folder)
        if source.kind != "test"
        for path in list_images(source.images)
    ]
    uses = Counter(path.stem for _, path, _ in found)
    return [
        (picture_case(path.stem if uses[path.stem] == 1 else f"{kind}/{path.stem}", path), mask)
        for kind, path, mask in found
    ]


def _read_instances(path: Path, case: Case) -> Instances:
    if not is_there(path):
        raise DataError(f"no mask for the forged image {case.path.name}: add it, or move the image", file=path)
    _refuse_wrong_mask(path, *read_npy_header(path), case.shape)
    masks = read_npy(path)
    if masks.size and masks.max() > 1:
        raise DataError(f"values up to {masks.max()}; a mask holds 0 and 1 alone", file=path)
    return tuple(encode(mask.astype(bool), order=ORDER) for mask in masks)


def _refuse_wrong_mask(
    path: Path, shape: tuple[int, ...], dtype: np.dtype[np.generic], expected: tuple[int, ...] | None
) -> None:
    if len(shape) != 3 or dtype not in (np.uint8, np.bool_):
        raise DataError(f"{shown(shape)} {dtype}; a mask is uint8 of (instances, height, width)", file=path)
    if shape[1:] != expected:
        raise DataError(
            f"the mask is {shown(shape[1:])}, its image {shown(expected or ())}: they must be equal", file=path
        )
    if shape[0] > MAX_INSTANCES:
        raise DataError(f"{shape[0]:,} instances; the most is {MAX_INSTANCES:,}", file=path)
    if not shape[0]:
        raise DataError("a mask without instances: an image without forgery belongs in authentic/", file=path)


def _survey_masks(folder: Path, masks: Path, shapes: dict[str, Shape | None], problems: list[Problem]) -> Counter[int]:
    instances: Counter[int] = Counter()
    files = {path.stem: path for path in sorted(masks.glob("*.npy")) if not path.name.startswith(".")}
    problems += [
        Problem(f"image {stem} has no mask: add it", file=inside(masks / f"{stem}.npy", folder))
        for stem in sorted(set(shapes) - set(files))
    ]
    for stem, path in files.items():
        if stem not in shapes:
            problems.append(Problem("a mask without an image: add the image or remove it", file=inside(path, folder)))
            continue
        try:
            shape, dtype = read_npy_header(path)
            if shapes[stem]:
                _refuse_wrong_mask(path, shape, dtype, shapes[stem])
            instances[shape[0]] += 1
        except DataError as error:
            problems.append(error.problem(folder))
    return instances


def _open_solution(path: Path) -> Truth[Instances]:
    solutions = read_solutions(path, id_column="case_id", answer_column="annotation")
    cases = tuple(Case(s.id, path, s.shape, group=s.id) for s in solutions)

    @cache
    def labels() -> dict[str, Instances]:
        """All of them at the first call: together they are parsed several times as fast."""
        found = {}
        for solution, label in zip(solutions, parse_annotations([(s.text,) for s in solutions], cases), strict=True):
            if isinstance(label, ValueError):
                raise DataError(f"line {solution.line}, case_id {solution.id}: {label}", file=path)
            found[solution.id] = label
        return found

    return Truth(cases, lambda case: labels()[case.id])
