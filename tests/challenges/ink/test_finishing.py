"""The card of a finished training: letters read, calibration, the worst."""

import numpy as np
import pytest

from handlens.challenges.ink.finishing import HeldOutScan, card_lines
from handlens.masks.rle import encode

INK = np.zeros((80, 120), np.uint8)
INK[10:70, 10:22] = INK[10:22, 10:50] = INK[36:48, 70:110] = INK[10:70, 84:96] = 1


def scan(id: str, answer: np.ndarray, coarse: np.ndarray) -> HeldOutScan:
    mask = np.ones(INK.shape, bool)
    return HeldOutScan(id, "data", "24 slices", mask, INK, coarse, encode(answer, order="rows"))


def test_the_card_counts_letters_names_the_worst_and_compares_probability_with_ink() -> None:
    squares = INK[::4, ::4].astype(np.float32)
    good = scan("good", INK > 0, 0.85 * squares + 0.05)  # 0.9 where ink is, 0.05 elsewhere
    poor = scan("poor", np.zeros(INK.shape, bool), 0.85 * squares + 0.05)
    lines = card_lines([good, poor], [good, poor])
    assert "| data | 24 slices | 2 | 0.5000 | 2 of 4 |" in lines
    assert "Worst: poor 0.000 (24 slices), good 1.000 (24 slices)." in lines
    share = float(squares.mean())
    rows = [line for line in lines if line.startswith(("| 0.0", "| 0.9"))]
    assert rows == [
        f"| 0.0 to 0.1 | {1 - share:.3f} | 0.050 | 0.000 |",
        f"| 0.9 to 1.0 | {share:.3f} | 0.900 | 1.000 |",
    ]
    error = next(line for line in lines if "calibration error" in line)
    assert float(error.split("calibration error ")[1].split()[0]) == pytest.approx(
        0.05 * (1 - share) + 0.1 * share, abs=1e-3
    )


def test_parts_that_are_only_seen_cut_down_have_no_calibration() -> None:
    shown = scan("a", INK > 0, np.zeros((20, 30), np.float32))
    assert not any("calibration" in line for line in card_lines([shown], []))
