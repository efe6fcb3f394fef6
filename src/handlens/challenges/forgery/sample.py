"""A synthetic data set in the contest's own layout: forged figures, their twins, honest look-alikes, their masks."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from handlens.challenges.forgery.forger.made import FigureRequest, MadeFigure, make_figure, make_lookalike
from handlens.challenges.forgery.forger.sources import open_sources
from handlens.challenges.forgery.forger.textures import BoolArray, ByteArray
from handlens.challenges.forgery.options import ForgerySettings
from handlens.errors import HandlensError
from handlens.io.images import Array, write_png
from handlens.masks import rle
from handlens.work import Each, one_by_one

AUTHENTIC = "authentic"
AUTHENTIC_SHARE = 0.4
"""Share of the test that is authentic: a third to a half in the contest."""

FORGED_ONLY = 7
"""One forged training picture in so many has no authentic twin, as in the contest (374 of 2,751)."""

LOOKALIKE_TRAINING = 1
"""For so many forged training pictures there is one look-alike among the authentic ones: they are hardest to tell."""

FIRST_ID = 1_000
SIZES = (1.0, 0.7, 0.45, 0.3)
"""Longer sides of the figures, of the one asked for, in turn: a data set of one size would hide what others need."""

SMALLEST_FIGURE = 128
"""Longer side in pixels below which a figure is not made smaller than asked for."""


def write_sample(
    folder: Path,
    /,
    *,
    seed: int,
    cases: int,
    size: int,
    settings: ForgerySettings | None = None,
    each: Each = one_by_one,
) -> None:
    """Write train pictures with masks, `cases` test pictures, and the truth of the test under `truth`.

    `size` is the longer side of a figure in pixels, at most. The same seed writes the same bytes. `settings` may name
    a folder of clean pictures as `sources`, the one `kind` of forgery that is wanted, and whether figures have one or
    several `panels`.
    """
    usual = _wanted(size, settings or ForgerySettings())
    pairs = max(2, round(cases * FORGED_ONLY / (2 * FORGED_ONLY - 1)))  # twins counted, about `cases`
    each(partial(_write_pair, seed, usual), range(pairs), folder)
    names = [(number, FIRST_ID + pairs + cases + number) for number in range(pairs // LOOKALIKE_TRAINING)]
    each(partial(_write_lookalike, seed, usual), names, folder)
    rows = each(partial(_write_test, seed, cases, pairs, usual), range(cases), folder)
    _write_csv(folder / "sample_submission.csv", ("case_id", "annotation"), [(row[0], AUTHENTIC) for row in rows])
    _write_csv(folder / "truth" / "solution.csv", ("case_id", "annotation", "shape"), rows)


def _wanted(size: int, settings: ForgerySettings) -> FigureRequest:
    """What the settings say of a figure."""
    sources = open_sources(Path(settings.sources)) if settings.sources else None
    kind, panels = settings.kind, settings.panels
    if (kind, panels) == ("panel reuse", "one"):
        raise HandlensError("panel reuse in figures of one panel: it needs two; leave out --panels, or say several")
    return FigureRequest(size, sources, compound={None: None, "one": False, "several": True}[panels], plan=kind)


# --- files --------------------------------------------------------------------------------------------------


def _write_pair(seed: int, usual: FigureRequest, folder: Path, number: int) -> None:
    """A forged training picture, most with its authentic twin."""
    twin = number % FORGED_ONLY != FORGED_ONLY // 2
    made = make_figure(seed, number, replace(usual, size=_size(usual.size, number)))
    _write_training(folder, str(FIRST_ID + number), made, twin=twin, mode=_mode(seed, number))


def _write_lookalike(seed: int, usual: FigureRequest, folder: Path, named: tuple[int, int]) -> None:
    number, name = named
    made = make_lookalike(seed, number, replace(usual, size=_size(usual.size, number), plan=None))
    write_png(folder / "train_images" / "authentic" / f"{name}.png", _stored(made.honest, _mode(seed, number)))


def _write_test(
    seed: int, cases: int, first: int, wanted: FigureRequest, folder: Path, number: int
) -> tuple[str, str, str]:
    """A test picture and its row of the solution: of the authentic ones half are twins, half look-alikes."""
    order = [int(each) for each in np.random.default_rng([seed]).permutation(cases)]
    authentic = order[: round(AUTHENTIC_SHARE * cases)]
    name, mode = str(FIRST_ID + first + number), _mode(seed, first + number)
    own = replace(wanted, size=_size(wanted.size, number))
    if number in authentic[::2]:
        made = make_lookalike(seed, first + number, replace(own, plan=None))
    else:
        made = make_figure(seed, first + number, own)
    honest = number in authentic
    write_png(folder / "test_images" / f"{name}.png", _stored(made.honest if honest else made.forged, mode))
    return name, *_solution(() if honest else made.masks, made.honest.shape)


def _size(largest: int, number: int) -> int:
    """The longer side of one of the figures."""
    return max(min(largest, SMALLEST_FIGURE), round(largest * SIZES[number % len(SIZES)]))


def _mode(seed: int, number: int) -> str:
    rng = np.random.default_rng([seed, number, 0, 0])
    return str(rng.choice(["RGB", "RGB", "RGB", "RGB", "RGB", "RGB", "grey", "grey", "RGBA", "16 bits"]))


def _stored(picture: ByteArray, mode: str) -> Array:
    """The picture as files have it: in colour, grey of 8 or 16 bits, or with an opaque alpha."""
    if mode == "RGBA":
        return np.dstack([picture, np.full(picture.shape[:2], 255, np.uint8)])
    if mode == "RGB":
        return picture
    grey = np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.uint8)
    return grey.astype(np.uint16) * 257 if mode == "16 bits" else grey


def _write_training(folder: Path, name: str, made: MadeFigure, *, twin: bool, mode: str) -> None:
    write_png(folder / "train_images" / "forged" / f"{name}.png", _stored(made.forged, mode))
    authentic = folder / "train_images" / "authentic"
    authentic.mkdir(parents=True, exist_ok=True)
    if twin:
        write_png(authentic / f"{name}.png", _stored(made.honest, mode))
    masks = folder / "train_masks"
    masks.mkdir(exist_ok=True)
    np.save(masks / f"{name}.npy", np.stack(made.masks).astype(np.uint8))


def _solution(masks: Sequence[BoolArray], shape: tuple[int, ...]) -> tuple[str, str]:
    """Annotation and shape of one row of the solution."""
    if not masks:
        return AUTHENTIC, AUTHENTIC
    instances = [rle.encode(mask, order="columns") for mask in masks]
    return rle.format_lists(instances), str(list(shape[:2]))


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
