"""What a finished training of ink says of itself: scans by folder and slices, letters read, calibration, the worst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from handlens.challenges.ink.reading import read_letters
from handlens.challenges.ink.score import BETA, EMPTY_F, ORDER
from handlens.challenges.ink.tiles import STRIDE, Map
from handlens.masks.metrics import compare, fbeta
from handlens.masks.rle import Rle, decode, encode

BINS = 10
"""Of the reliability table."""

WORST = 3
"""Parts that are named."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutScan:
    """A part that the network did not see, its ink (0 or 1), and what was said of it; `what` it was predicted from."""

    id: str
    source: str
    what: str
    mask: npt.NDArray[np.bool_]
    ink: npt.NDArray[np.uint8]
    coarse: Map
    answer: Rle

    @property
    def value(self) -> float:
        return fbeta(compare(self.answer, encode(self.ink > 0, order=ORDER)), beta=BETA, empty=EMPTY_F)


def card_lines(scans: Sequence[HeldOutScan], whole: Sequence[HeldOutScan]) -> list[str]:
    """Markdown: a row for each folder and kind of stack; calibration and the worst of scans predicted as they are."""
    lines = ["", "| folder | predicted from | parts | mean F0.5, out of fold | letters read |", "|---|---|---|---|---|"]
    for source, what in sorted({(scan.source, scan.what) for scan in scans}):
        own = [scan for scan in scans if (scan.source, scan.what) == (source, what)]
        found = [read_letters(decode(scan.answer, scan.mask.shape, order=ORDER), scan.ink > 0) for scan in own]
        letters = f"{sum(each.read for each in found)} of {sum(each.letters for each in found)}"
        lines.append(f"| {source} | {what} | {len(own)} | {np.mean([scan.value for scan in own]):.4f} | {letters} |")
    if not whole:
        return lines
    worst = sorted(whole, key=lambda scan: scan.value)[:WORST]
    lines += ["", "Worst: " + ", ".join(f"{scan.id} {scan.value:.3f} ({scan.what})" for scan in worst) + "."]
    return [*lines, *_calibration(whole)]


def _calibration(scans: Sequence[HeldOutScan]) -> list[str]:
    """Squares by the probability of ink, and how much of them is ink."""
    said = np.concatenate([scan.coarse[scan.mask[::STRIDE, ::STRIDE]] for scan in scans])
    true = np.concatenate([scan.ink[::STRIDE, ::STRIDE][scan.mask[::STRIDE, ::STRIDE]] for scan in scans])
    bins = np.minimum((said * BINS).astype(int), BINS - 1)
    counts, sums, hits = (np.bincount(bins, each, BINS) for each in (np.ones(len(bins)), said, true))
    error = np.abs(sums - hits).sum() / max(1, len(bins))
    lines = ["", f"Squares of {STRIDE}x{STRIDE} pixels; calibration error {error:.3f} ({BINS} bins).", ""]
    lines += ["| probability of ink | share of squares | mean probability | ink |", "|---|---|---|---|"]
    for number in np.flatnonzero(counts):
        count = counts[number]
        row = f"{count / len(bins):.3f} | {sums[number] / count:.3f} | {hits[number] / count:.3f}"
        lines.append(f"| {number / BINS:.1f} to {(number + 1) / BINS:.1f} | {row} |")
    return lines
