"""The card's tables and its picture: what was answered out of fold, source by source."""

import numpy as np
import pytest

from handlens.challenges.cells.finishing import FALSE, MISSED, HeldOutSlide, card_lines, draw_failures
from handlens.io.images import read_rgb
from handlens.masks.metrics import compare, dice
from handlens.masks.rle import encode

GREY = np.full((40, 60, 3), 128, np.uint8)


def held_out(id, source, *, right, height=40):
    """Nuclei in the left third; answered as they are, or in the middle third instead."""
    true = np.zeros((height, 60), bool)
    true[:, :20] = True
    said = true if right else np.roll(true, 20, axis=1)
    label, answer = encode(true, order="rows"), encode(said, order="rows")
    probability = np.where(said, 0.8, 0.2).astype(np.float32)
    value = dice(compare(answer, label), empty=1.0)
    return HeldOutSlide(id, source, GREY[:height], true.astype(np.uint8) * 255, label, answer, value, probability)


def test_every_source_has_a_row_and_its_worst_slides_are_named():
    lines = card_lines(
        [held_out("0", "train", right=True), held_out("1", "train", right=False), held_out("x/2", "x", right=True)]
    )
    assert "| train | 2 | 0.500 | 0.500 | 0.500 | 0.133 |" in lines
    assert "| x | 1 | 1.000 | 1.000 | 1.000 | 0.200 |" in lines
    assert lines.index("| 1 | 0.000 | 0.000 | 0.000 |") < lines.index("| 0 | 1.000 | 1.000 | 1.000 |")
    rows = [line.split(" | ") for line in lines if line.startswith("| 0.")]
    shares = [float(row[1]) for row in rows]
    assert sum(shares) == pytest.approx(1, abs=0.002)
    assert [row[0] for row in rows] == ["| 0.2 to 0.3", "| 0.8 to 0.9"]


def test_the_picture_shows_what_was_missed_and_what_is_false(tmp_path):
    slides = [held_out("1", "train", right=False), held_out("2", "x", right=True, height=30)]
    draw_failures(slides, tmp_path / "failures.jpg")
    picture = read_rgb(tmp_path / "failures.jpg").astype(int)
    assert picture.shape == (40, 40 + 8 + 30 + 8, 3)
    for columns, colour in ((slice(4, 14), MISSED), (slice(26, 36), FALSE)):
        tint = picture[5:35, columns].mean(axis=(0, 1))
        assert np.abs(tint - (np.array(colour) + 128) / 2).max() < 12
    assert (picture[32:, 50:76] > 240).all()
