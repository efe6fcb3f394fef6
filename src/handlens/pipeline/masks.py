"""Mask pictures to a submission and back: for people who have a network of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.errors import DataError, HandlensError, Problem, describe
from handlens.io.files import new_folder, replacing
from handlens.io.gate import is_there
from handlens.io.images import SUFFIXES, read_image, shown
from handlens.io.npy import read_npy
from handlens.io.submissions import require_submission, write_cells
from handlens.pipeline.folders import read_cases
from handlens.settings import SettingsT
from handlens.types import Case, Challenge, MaskFormat, Part

BoolArray = npt.NDArray[np.bool_]
ENDINGS = (*SUFFIXES, ".npy")
STEMS = ("{}", "{}.mask", "{}.labels", "{}_mask", "{}/inklabels", "{}/mask")
"""What a case's mask may be called, for its id and for the name of its image."""

BRIGHT = 127
"""Grey above which a pixel of an 8-bit picture is part of the mask, as the contests read theirs."""


def encode_masks(
    challenge: Challenge[Any, Any, SettingsT],
    masks: Path,
    data: Path,
    file: Path,
    settings: SettingsT,
    part: Part | None = None,
) -> int:
    """Write a valid submission from the mask images in a folder; gives the number of cases.

    DataError lists every case whose mask is missing, unreadable or of another size.
    """
    how = _format_of(challenge)
    if not masks.is_dir():
        raise DataError("no such folder", file=masks)
    cases, codec = read_cases(challenge, data, part), challenge.codec(settings)
    rows, problems = [], []
    for case in cases:
        try:
            found = _read_masks(masks, case, how)
            rows.append((case.id, *codec.format(how.encode(found, settings), case)))
        except DataError as error:
            problems.append(error.problem(masks) if error.file else Problem(error.what, id=case.id))
    if problems:
        raise DataError(describe(f"{masks} makes no submission", problems))
    write_cells(file, codec, rows)
    require_submission(file, codec, cases)
    return len(cases)


def decode_masks(
    challenge: Challenge[Any, Any, SettingsT],
    file: Path,
    data: Path,
    folder: Path,
    settings: SettingsT,
    part: Part | None = None,
) -> int:
    """Write what a submission says as mask images, one for each case; gives the number of cases.

    Masks are PNG of 0 and 255; where a case has several instances, an array (N, H, W) of 0 and 1.
    """
    how = _format_of(challenge)
    cases = read_cases(challenge, data, part)
    answers: Mapping[str, Any] = require_submission(file, challenge.codec(settings), cases)
    with new_folder(folder) as temporary:
        for case in cases:
            if case.shape is None:
                raise DataError(case.fault or "its size is unknown", file=case.path)
            found = how.decode(answers[case.id], case.shape, settings)
            _write_masks(temporary / case.path.stem if "/" in case.id else temporary / case.id, found, case, how)
    return len(cases)


def _format_of(challenge: Challenge[Any, Any, SettingsT]) -> MaskFormat[Any, SettingsT]:
    if challenge.masks is None:
        raise HandlensError(f"{challenge.name} has no masks: its answers are no pictures")
    return challenge.masks


def _read_masks(folder: Path, case: Case, how: MaskFormat[Any, Any]) -> list[BoolArray]:
    """The masks of a case, checked against the size of its image."""
    files = _find_files(folder, case, how)
    if not files:
        names = ", ".join(f"{case.id}{ending}" for ending in (".png", ".tif", ".npy"))
        raise DataError(f"no mask; expected one of {names}")
    found = [mask for file in files for mask in _split(_read(file), how, file)]
    for mask in found:
        if case.shape is not None and mask.shape != case.shape:
            what = f"the mask is {shown(mask.shape)}, its image {shown(case.shape)}: they must be equal"
            raise DataError(what, file=files[0])
    return found


def _find_files(folder: Path, case: Case, how: MaskFormat[Any, Any]) -> list[Path]:
    """The file of a case; where it may have several instances also `ID_1.png`, `ID_2.png` and so on, or a folder."""
    names = list(dict.fromkeys([case.id, case.path.stem]))
    for name in names:
        for stem in STEMS:
            for ending in ENDINGS:
                if is_there(path := folder / f"{stem.format(name)}{ending}"):
                    return [path]
        if how.several:
            places = [*folder.glob(f"{_plain(name)}_*"), *(folder / name).glob("*")]
            if found := sorted(path for path in places if path.suffix.lower() in ENDINGS and is_there(path)):
                return found
    return []


def _plain(name: str) -> str:
    """A name in which glob's own letters stand for themselves."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _read(path: Path) -> npt.NDArray[Any]:
    return read_npy(path) if path.suffix.lower() == ".npy" else read_image(path)


def _split(array: npt.NDArray[Any], how: MaskFormat[Any, Any], path: Path) -> list[BoolArray]:
    """One mask, or with several instances one for each value of a label image, or for each plane of an array."""
    if array.dtype.kind not in "bui":
        raise DataError(f"numbers of type {array.dtype}; expected whole numbers, such as 0 and 255", file=path)
    if array.ndim == 3 and path.suffix.lower() != ".npy":
        array = array[:, :, :3].max(axis=2)  # grey stored as colours
    if array.ndim == 3 and how.several:
        return [plane > 0 for plane in array]
    if array.ndim != 2:
        raise DataError(f"shape {array.shape}; expected (H, W)", file=path)
    values = np.unique(array)
    if how.several and len(values) > 2:
        return [array == value for value in values if value]
    binary = array.dtype == np.uint8 and int(values[-1]) > 1 and not how.several and path.suffix.lower() != ".npy"
    mask: BoolArray = array > (BRIGHT if binary else 0)
    return [mask] if mask.any() or not how.several else []


def _write_masks(stem: Path, masks: Sequence[BoolArray], case: Case, how: MaskFormat[Any, Any]) -> None:
    from handlens.io.images import write_png

    if not how.several:
        write_png(stem.with_name(f"{stem.name}.png"), masks[0])
        return
    shape = case.shape or (0, 0)
    with replacing(stem.with_name(f"{stem.name}.npy")) as temporary:
        np.save(temporary, np.array(masks, np.uint8).reshape(len(masks), *shape))
