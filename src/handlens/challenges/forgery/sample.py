"""A made-up data set in the contest's own layout: figures with copied regions, their twins, their masks."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from handlens import runs
from handlens.challenges.forgery.copies import forge
from handlens.challenges.forgery.figures import BoolArray, ByteArray, draw_figure
from handlens.images import Array, write_png

AUTHENTIC = "authentic"
AUTHENTIC_SHARE = 0.4
"""Share of the test that is authentic: a third to a half in the contest."""

FORGED_ONLY = 7
"""One forged training picture in so many has no authentic twin, as in the contest (374 of 2,751)."""

FIRST_ID = 1_000


@dataclass(frozen=True, slots=True)
class Pair:
    """A figure before and after the forgery, as stored, and the masks of what was done."""

    honest: Array
    forged: Array
    masks: tuple[BoolArray, ...]


def write_sample(folder: Path, *, seed: int, cases: int, size: int) -> None:
    """Write train pictures with masks, `cases` test pictures, and the truth of the test under `truth`.

    `size` is the longer side of a figure in pixels. The same seed writes the same bytes.
    """
    pairs = max(2, round(cases * FORGED_ONLY / (2 * FORGED_ONLY - 1)))  # twins counted, about `cases`
    for number in range(pairs):
        twin = number % FORGED_ONLY != FORGED_ONLY // 2
        _write_training(folder, str(FIRST_ID + number), make_pair(seed, number, size=size), twin=twin)
    order = np.random.default_rng([seed]).permutation(cases)
    authentic = {int(number) for number in order[: round(AUTHENTIC_SHARE * cases)]}
    rows = []
    for number in range(cases):
        name = str(FIRST_ID + pairs + number)
        pair = make_pair(seed, pairs + number, size=size)
        honest = number in authentic
        write_png(folder / "test_images" / f"{name}.png", pair.honest if honest else pair.forged)
        rows.append((name, *_solution(() if honest else pair.masks, pair.honest.shape)))
    _write_csv(folder / "sample_submission.csv", ("case_id", "annotation"), [(row[0], AUTHENTIC) for row in rows])
    _write_csv(folder / "truth" / "solution.csv", ("case_id", "annotation", "shape"), rows)


def make_pair(seed: int, number: int, *, size: int) -> Pair:
    """One figure and its forgery; drawn anew where the figure had no room for one."""
    for attempt in range(100):
        rng = np.random.default_rng([seed, number, attempt])
        figure = draw_figure(rng, size=size)
        picture, masks = forge(figure, rng)
        if masks:
            break
    else:
        raise ValueError(f"no room for a forgery in a figure of {size} pixels; take a larger size")
    quality = int(rng.integers(70, 96)) if rng.uniform() < 0.5 else 0
    mode = str(rng.choice(["RGB", "RGB", "RGB", "grey", "RGBA"]))
    honest, forged = (_stored(each, quality, mode) for each in (figure.picture, picture))
    return Pair(honest, forged, tuple(masks))


def _stored(picture: ByteArray, quality: int, mode: str) -> Array:
    """The picture as it reached the contest: perhaps once a JPEG, in colour, grey or with an opaque alpha."""
    import cv2

    if mode == "grey":
        picture = np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.uint8)
    if quality:
        packed = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
        picture = np.asarray(cv2.imdecode(packed, cv2.IMREAD_UNCHANGED), np.uint8)
    if mode == "RGBA":
        picture = np.dstack([picture, np.full(picture.shape[:2], 255, np.uint8)])
    return picture


def _write_training(folder: Path, name: str, pair: Pair, *, twin: bool) -> None:
    write_png(folder / "train_images" / "forged" / f"{name}.png", pair.forged)
    authentic = folder / "train_images" / "authentic"
    authentic.mkdir(parents=True, exist_ok=True)
    if twin:
        write_png(authentic / f"{name}.png", pair.honest)
    masks = folder / "train_masks"
    masks.mkdir(exist_ok=True)
    np.save(masks / f"{name}.npy", np.stack(pair.masks).astype(np.uint8))


def _solution(masks: Sequence[BoolArray], shape: tuple[int, ...]) -> tuple[str, str]:
    """Annotation and shape of one row of the solution."""
    if not masks:
        return AUTHENTIC, AUTHENTIC
    instances = [runs.encode(mask, order="columns") for mask in masks]
    return runs.format_lists(instances), str(list(shape[:2]))


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
