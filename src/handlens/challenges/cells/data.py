"""Where the cells challenge keeps its files: `im/NN.png`, `mask/NN.png`, alone or under `train/` and `test/`.

In place of `mask/` there may be `labels/NAME.png`, in which every nucleus has a number, as other collections have it.
One's own pictures need no such folders: a single picture, or a folder of pictures, is a test part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError, Problem, inside
from handlens.io.gate import is_there
from handlens.io.images import list_images, picture_case, read_header, read_image, read_mask, shown, skipped
from handlens.io.submissions import open_pairs
from handlens.masks.rle import Rle, encode
from handlens.types import Case, Inventory, Part, Shape, Truth

if TYPE_CHECKING:
    from handlens.challenges.cells.options import CellsSettings

MASKS, LABELS = "mask", "labels"
"""Folders of what is true: black and white, or a number for every nucleus."""

CONTEST_SHAPE: Shape = (1000, 1000)
"""Every image of the contest; the solution file gives no shape of its own."""


def case_id(path: Path) -> str:
    """The number in the file name: `00.png` is case `0`; any other name stands for itself.

    >>> case_id(Path("im/07.png"))
    '7'
    """
    stem = path.stem
    return str(int(stem)) if stem.isascii() and stem.isdigit() else stem


def is_contest(path: Path) -> bool:
    """Whether an image is named and placed as the contest's are: by a number, in a folder `im`.

    >>> is_contest(Path("train/im/07.png")), is_contest(Path("im/slide.png")), is_contest(Path("07.png"))
    (True, False, False)
    """
    return path.parent.name == "im" and path.stem.isascii() and path.stem.isdigit()


def read_cases(folder: Path, part: Part) -> list[Case]:
    """The images of one part, in the order of their names; the shape of a damaged one is unknown."""
    root = _part_folder(folder, part)
    images = list_images(root / "im") if root else _loose_images(folder) if part == "test" else []
    return [picture_case(case_id(path), path) for path in images]


def _loose_images(path: Path) -> list[Path]:
    """A picture, or those that lie in a folder without any of the contest's folders."""
    if is_there(path):
        return [path]
    return [] if any((path / name / "im").is_dir() for name in (".", "train", "test")) else list_images(path)


def open_truth(path: Path, settings: CellsSettings) -> Truth[Rle]:
    """Masks of a folder (`mask/`, `train/mask/`, or `labels/`) or a solution file `img,pixels`."""
    if is_there(path):
        return open_pairs(path, id_column="img", answer_column="pixels", shape=CONTEST_SHAPE)
    root = next((place for place in (path, path / "train") if _label_folder(place)), None)
    folder = _label_folder(root) if root else None
    if root is None or folder is None:
        raise DataError(
            "no mask/ folder: expected mask/NN.png beside im/NN.png, or a solution file img,pixels", file=path
        )
    images, masks = _by_id(root / "im"), _by_id(folder)
    if not masks:
        raise DataError("no pictures in it: expected NN.png", file=folder)

    def read(case: Case) -> Rle:
        mask = read_mask(masks[case.id]) if folder.name == MASKS else read_numbers(masks[case.id]) > 0
        if mask.shape != case.shape:
            raise DataError(
                f"the mask is {shown(mask.shape)}, its image {shown(case.shape or ())}: they must be equal",
                file=masks[case.id],
            )
        return encode(mask, order=settings.order)

    paths = [(id, images.get(id, mask)) for id, mask in masks.items()]
    return Truth(tuple(Case(id, path, read_header(path).shape, group=path.stem) for id, path in paths), read)


def read_numbers(path: Path) -> npt.NDArray[np.uint16]:
    """A label image: the number of the nucleus at every pixel, 0 outside; 8 or 16 bits."""
    picture = read_image(path)
    if picture.ndim != 2:
        raise DataError("a picture in colours; expected one number for each pixel", file=path)
    return picture.astype(np.uint16)


def survey(folder: Path) -> Inventory:
    """Counts, sizes, and what is wrong, from headers alone."""
    facts: dict[str, str] = {}
    problems: list[Problem] = []
    parts: tuple[Part, ...] = ("train", "test")
    roots = {part: root for part in parts if (root := _part_folder(folder, part))}
    for part, root in roots.items():
        labels = _label_folder(root)
        images, masks = list_images(root / "im"), list_images(labels) if labels else []
        sizes = _read_shapes(folder, images, problems)
        facts[f"{part} images"] = f"{len(images):,} ({_listed_sizes(sizes)})" if images else "none"
        if not images:
            problems.append(Problem("no pictures in it: expected NN.png", file=inside(root / "im", folder)))
        if masks:
            _compare_masks(folder, masks, set(map(case_id, images)), sizes, problems)
            facts[f"{part} masks"] = f"{len(masks):,}"
        if part == "train":
            known = set(map(case_id, masks))
            problems += [
                Problem("an image without a mask: add mask/ for it or move it to test", file=inside(path, folder))
                for path in images
                if case_id(path) not in known
            ]
    if not facts:
        _survey_loose(folder, facts, problems)
    return Inventory(facts, tuple(problems), _skipped(folder, roots.values()))


def _skipped(folder: Path, roots: Iterable[Path]) -> tuple[Problem, ...]:
    """Files that are not read, of the folders that images and masks are read from."""
    places = [place for root in roots for place in (root / "im", root / MASKS, root / LABELS) if place.is_dir()] or [
        folder
    ]
    return tuple(note for place in places for note in skipped(place, within=folder))


def _survey_loose(folder: Path, facts: dict[str, str], problems: list[Problem]) -> None:
    """A folder without the contest's folders: its pictures, or that there are none."""
    if images := list_images(folder):
        sizes = _read_shapes(folder, images, problems)
        facts["test images"] = f"{len(images):,} ({_listed_sizes(sizes)})"
    else:
        what = "no im/ folder here or under train/ or test/, and no pictures: expected im/NN.png"
        problems.append(Problem(what, file=str(folder)))


def _part_folder(folder: Path, part: Part) -> Path | None:
    if (folder / part / "im").is_dir():
        return folder / part
    if (folder / "im").is_dir() and (part == "train") == (_label_folder(folder) is not None):
        return folder
    return None


def _label_folder(root: Path) -> Path | None:
    """The masks of a folder, or its label images; None where there are neither."""
    return next((root / name for name in (MASKS, LABELS) if (root / name).is_dir()), None)


def _by_id(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in list_images(folder):
        if (id := case_id(path)) in found:
            raise DataError(f"{found[id].name} and {path.name} both have id {id}: rename one of them", file=folder)
        found[id] = path
    return found


def _read_shapes(folder: Path, images: list[Path], problems: list[Problem]) -> dict[str, Shape]:
    problems += _find_twins(folder, images, "image")
    sizes: dict[str, Shape] = {}
    for path in images:
        try:
            sizes.setdefault(case_id(path), read_header(path).shape)
        except DataError as error:
            problems.append(error.problem(folder))
    return sizes


def _find_twins(folder: Path, pictures: list[Path], noun: str) -> list[Problem]:
    first = {case_id(path): path for path in reversed(pictures)}
    return [
        Problem(f"a second {noun} with id {id}, beside {first[id].name}: rename one of them", file=inside(path, folder))
        for path in pictures
        if first[id := case_id(path)] != path
    ]


def _compare_masks(
    folder: Path, masks: list[Path], known: set[str], sizes: dict[str, Shape], problems: list[Problem]
) -> None:
    """`known` are the ids of all images, `sizes` those of the readable ones."""
    problems += _find_twins(folder, masks, "mask")
    for path in masks:
        id, name = case_id(path), inside(path, folder)
        if id not in known:
            problems.append(Problem("a mask without an image: add im/ for it or remove the mask", file=name))
        try:
            shape = read_header(path).shape
        except DataError as error:
            problems.append(error.problem(folder))
            continue
        if shape != sizes.get(id, shape):
            problems.append(
                Problem(f"the mask is {shown(shape)}, its image {shown(sizes[id])}: they must be equal", file=name)
            )


def _listed_sizes(sizes: dict[str, Shape]) -> str:
    common = Counter(sizes.values()).most_common(4)
    return ", ".join(f"{count} of {shown(shape)}" if len(common) > 1 else shown(shape) for shape, count in common)
