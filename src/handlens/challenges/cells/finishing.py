"""What a finished training of cells says of itself: sources, calibration, worst slides, and a picture of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.cells.score import ORDER
from handlens.io.images import write_jpeg
from handlens.masks.metrics import Counts, compare, precision, recall
from handlens.masks.rle import Rle, decode

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

FAILURES = "failures.jpg"
"""The picture's file in the folder of a training."""

BINS = 10
"""Of the reliability table."""

WORST = 3
"""Slides of each source that are named; the first two are drawn."""

WINDOW = 320
"""Side of what is drawn of a slide, in pixels: where most is wrong."""

MISSED, FALSE, TRUE = (220, 30, 30), (30, 60, 230), (20, 160, 60)
"""Colours: of nuclei that were missed, of what was taken for one, of outlines as annotated."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutSlide:
    """A slide, its label (0 or 255 as pixels), what was predicted of it out of fold, and how good that is."""

    id: str
    source: str
    image: Bytes
    mask: Bytes
    label: Rle
    answer: Rle
    dice: float
    probability: npt.NDArray[np.float32]

    @property
    def counts(self) -> Counts:
        return compare(self.answer, self.label)


def card_lines(slides: Sequence[HeldOutSlide]) -> list[str]:
    """Markdown: a row for each source, pixels by how probable a nucleus is said to be, the worst slides."""
    found = _by_source(slides)
    levels = {source: sum((_count_levels(each) for each in own), np.zeros((2, 256), np.int64)) for source, own in
              found.items()}  # fmt: skip
    lines = ["", "| source | slides | Dice | precision | recall | calibration error |", "|---|---|---|---|---|---|"]
    for source, own in found.items():
        means = [np.mean(values) for values in zip(*map(_quality, own), strict=True)]
        cells = " | ".join(f"{value:.3f}" for value in (*means, calibration_error(levels[source])))
        lines.append(f"| {source} | {len(own)} | {cells} |")
    together = sum(levels.values(), np.zeros((2, 256), np.int64))
    lines += ["", f"Pixels out of fold; calibration error {calibration_error(together):.3f} ({BINS} bins).", ""]
    lines += ["| probability of a nucleus | share of pixels | mean probability | nuclei |", "|---|---|---|---|"]
    for number, (count, said, true) in enumerate(_bins(together)):
        if count:
            share = count / together.sum()
            lines.append(
                f"| {number / BINS:.1f} to {(number + 1) / BINS:.1f} | {share:.3f} | {said:.3f} | {true:.3f} |"
            )
    lines += ["", "| worst slides | Dice | precision | recall |", "|---|---|---|---|"]
    for own in found.values():
        lines += [
            f"| {each.id} | " + " | ".join(f"{value:.3f}" for value in _quality(each)) + " |" for each in own[:WORST]
        ]
    return lines


def calibration_error(levels: Numbers) -> float:
    """Mean difference between probability and share of nuclei, over pixels in bins.

    >>> sure = np.zeros((2, 256), np.int64)
    >>> sure[0, 51], sure[1, 51] = 60, 40  # said to be nuclei with 0.2, and 0.4 are
    >>> round(calibration_error(sure), 2)
    0.2
    """
    rows = list(_bins(levels))
    total = sum(count for count, _, _ in rows)
    return sum(count * abs(said - true) for count, said, true in rows) / max(1, total)


def draw_failures(slides: Sequence[HeldOutSlide], path: Path) -> None:
    """The places of the two worst slides of each source where most is wrong, side by side."""
    shown = [_draw(each) for own in _by_source(slides).values() for each in own[:2]]
    height = max(each.shape[0] for each in shown)
    padded = [np.pad(each, ((0, height - each.shape[0]), (0, 8), (0, 0)), constant_values=255) for each in shown]
    write_jpeg(path, np.concatenate(padded, axis=1), quality=85)


def _by_source(slides: Sequence[HeldOutSlide]) -> Mapping[str, list[HeldOutSlide]]:
    """Slides of each source, the worst first."""
    found: dict[str, list[HeldOutSlide]] = {}
    for each in sorted(slides, key=lambda slide: slide.dice):
        found.setdefault(each.source, []).append(each)
    return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))


def _quality(slide: HeldOutSlide) -> tuple[float, float, float]:
    counts = slide.counts
    return slide.dice, precision(counts), recall(counts)


def _count_levels(slide: HeldOutSlide) -> Numbers:
    """Pixels outside and inside of nuclei at each of 256 levels of probability."""
    levels = np.rint(slide.probability * 255).astype(np.uint8)
    return np.stack([np.bincount(levels[where], minlength=256) for where in (slide.mask == 0, slide.mask > 0)])


def _bins(levels: Numbers) -> Iterator[tuple[int, float, float]]:
    """Pixels of each bin, their mean probability, and the share of them that are nuclei."""
    values = np.arange(256) / 255
    places = np.minimum((values * BINS).astype(int), BINS - 1)
    both = levels.sum(axis=0)
    for number in range(BINS):
        mine = places == number
        count = int(both[mine].sum())
        yield count, float((both * values)[mine].sum() / max(1, count)), float(levels[1][mine].sum() / max(1, count))


def _draw(slide: HeldOutSlide) -> Bytes:
    """The window with most wrong pixels: missed and false ones tinted, true outlines drawn."""
    shape = slide.mask.shape
    said, true = decode(slide.answer, (shape[0], shape[1]), order=ORDER), slide.mask > 0
    side = min(WINDOW, *shape)
    wrong = np.pad((said != true).astype(np.float32).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    sums = wrong[side:, side:] - wrong[:-side, side:] - wrong[side:, :-side] + wrong[:-side, :-side]
    top, left = (int(place) for place in np.unravel_index(int(sums.argmax()), sums.shape))
    here = slice(top, top + side), slice(left, left + side)
    picture = slide.image[here].astype(np.float32)
    for colour, where in ((MISSED, true & ~said), (FALSE, said & ~true)):
        picture[where[here]] = 0.5 * picture[where[here]] + 0.5 * np.array(colour)
    outline = cv2.morphologyEx(slide.mask[here], cv2.MORPH_GRADIENT, np.ones((2, 2), np.uint8)) > 0
    picture[outline] = TRUE
    return picture.astype(np.uint8)
