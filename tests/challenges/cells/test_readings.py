"""Every Reading of the cells rules, by its number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles import cells as oracle

import handlens
from handlens.challenges.cells import data, score
from handlens.challenges.cells.options import CellsSettings
from handlens.errors import DataError, SubmissionError
from handlens.io.images import write_png
from handlens.masks.rle import encode, format_pairs
from handlens.types import Case, Truth

CODEC = score.codec(CellsSettings())
CASE = Case("0", None, (3, 4))


def run(tmp_path, truth, said, **options):
    (tmp_path / "truth.csv").write_text(truth)
    (tmp_path / "mine.csv").write_text("img,pixels\n" + said)
    return handlens.score("cells", tmp_path / "mine.csv", truth=tmp_path / "truth.csv", **options)


def test_reading_01_the_id_is_the_number_in_the_file_name(tmp_path):
    for name in ("00", "01", "10", "x"):
        write_png(tmp_path / "im" / f"{name}.png", np.zeros((4, 5, 3), np.uint8))
    assert [case.id for case in data.read_cases(tmp_path, "test")] == ["0", "1", "10", "x"]
    truth = "img,pixels\n" + "".join(f"{number},1 1\n" for number in range(14))
    with pytest.raises(SubmissionError, match="ids start at 0"):
        run(tmp_path, truth, "".join(f"{number},1 1\n" for number in range(1, 15)))


def test_reading_02_rows_by_default_columns_by_option(tmp_path):
    assert score.ORDER == "rows"
    mask = np.zeros((1000, 1000), bool)
    mask[0:10, 0:300] = True
    write_png(tmp_path / "mask" / "00.png", mask)
    for order in ("rows", "columns"):
        (tmp_path / "mine.csv").write_text(f"img,pixels\n0,{format_pairs(encode(mask, order=order))}\n")
        assert handlens.score("cells", tmp_path / "mine.csv", truth=tmp_path, order=order).value == 1.0
        other = "columns" if order == "rows" else "rows"
        assert handlens.score("cells", tmp_path / "mine.csv", truth=tmp_path, order=other).value < 0.1


def test_reading_03_a_transposed_answer_is_pointed_out(tmp_path):
    mask = np.zeros((1000, 1000), bool)
    mask[0:10, 0:300] = True
    write_png(tmp_path / "mask" / "00.png", mask)
    (tmp_path / "mine.csv").write_text(f"img,pixels\n0,{format_pairs(encode(mask, order='columns'))}\n")
    (note,) = handlens.score("cells", tmp_path / "mine.csv", truth=tmp_path).notes
    assert "numbered along columns, this file would score 1.0000" in note
    assert "--order columns" in note
    (tmp_path / "mine.csv").write_text(f"img,pixels\n0,{format_pairs(encode(mask, order='rows'))}\n")
    assert handlens.score("cells", tmp_path / "mine.csv", truth=tmp_path).notes == ()


def test_reading_03_speaks_from_a_tenth_on(tmp_path, monkeypatch):
    assert score.MUCH_HIGHER == 0.1
    mask = np.zeros((1000, 1000), bool)
    mask[0:10, 0:300] = True
    write_png(tmp_path / "mask" / "00.png", mask)
    turned, both = mask.T.copy(), mask | mask.T
    for said, notes in ((turned, 1), (both, 0)):  # a mask that is its own mirror image reads alike both ways
        (tmp_path / "mine.csv").write_text(f"img,pixels\n0,{format_pairs(encode(said, order='rows'))}\n")
        assert len(handlens.score("cells", tmp_path / "mine.csv", truth=tmp_path).notes) == notes
    monkeypatch.setattr(score, "MAX_TRANSPOSED", 10)
    (tmp_path / "mine.csv").write_text(f"img,pixels\n0,{format_pairs(encode(turned, order='rows'))}\n")
    assert handlens.score("cells", tmp_path / "mine.csv", truth=tmp_path).notes == ()


def test_reading_04_an_empty_cell_is_an_empty_mask():
    assert CODEC.parse(("",), CASE).area == 0
    assert CODEC.format(CODEC.parse(("",), CASE), CASE) == ("",)


def test_reading_05_dice_is_1_when_both_are_empty(tmp_path):
    assert score.EMPTY_DICE == 1.0
    assert run(tmp_path, "img,pixels\n0,\n", "0,\n").value == 1.0
    assert run(tmp_path, "img,pixels\n0,\n", "0,1 1\n").value == 0.0


def test_reading_06_the_score_is_the_plain_mean(tmp_path):
    assert run(tmp_path, "img,pixels\n0,1 4\n1,\n", "0,1 2\n1,\n").value == (2 / 3 + 1) / 2


def test_reading_07_a_mask_pixel_counts_above_127(tmp_path):
    write_png(tmp_path / "mask" / "00.png", np.array([[0, 127, 128, 255]], np.uint8))
    truth = data.open_truth(tmp_path, CellsSettings())
    assert truth.read(truth.cases[0]).starts.tolist() == [2]
    assert truth.read(truth.cases[0]).area == 2


def test_reading_08_a_solution_without_shapes_is_about_1000_by_1000(tmp_path):
    assert data.CONTEST_SHAPE == (1000, 1000)
    with pytest.raises(SubmissionError, match="pair 1 ends at pixel 1000001, the image has 1000000"):
        run(tmp_path, "img,pixels\n0,1 4\n", "0,1 1000001\n")
    with pytest.raises(DataError, match="truth.csv: line 2, img 0: pair 1 ends at pixel 1000001"):
        run(tmp_path, "img,pixels\n0,1 1000001\n", "0,1 4\n")
    assert run(tmp_path, 'img,pixels,shape\n0,1 1000001,"[2000, 2000]"\n', "0,1 1000001\n").value == 1.0


def test_reading_09_pairs_are_sorted_positive_disjoint_and_inside():
    for bad in ("5 1 1 1", "0 1", "1 0", "1 3 3 1", "12 2", "1", "1 -1"):
        with pytest.raises(ValueError, match=r"\w"):
            CODEC.parse((bad,), CASE)
    assert CODEC.parse(("1 12",), CASE).area == 12


masks = arrays(np.bool_, (4, 5))


@given(st.lists(st.tuples(masks, masks), min_size=1, max_size=5), st.sampled_from(["rows", "columns"]))
def test_the_score_is_the_texts(pairs, order):
    truths = {str(number): true for number, (_, true) in enumerate(pairs)}
    said = {str(number): answer for number, (answer, _) in enumerate(pairs)}
    truth = Truth(tuple(Case(id, None, (4, 5)) for id in truths), lambda case: encode(truths[case.id], order=order))
    parsed = {id: encode(mask, order=order) for id, mask in said.items()}
    assert score.score(parsed, truth, CellsSettings(order=order)).value == pytest.approx(
        oracle.score(said, truths), rel=1e-15
    )


def test_the_real_masks_as_answers_score_1(real_data, tmp_path):
    from handlens.io.submissions import write_submission

    truth = data.open_truth(real_data / "cells" / "train", CellsSettings())
    write_submission(tmp_path / "mine.csv", CODEC, truth.cases, {case.id: truth.read(case) for case in truth.cases})
    assert handlens.score("cells", tmp_path / "mine.csv", truth=real_data / "cells" / "train").value == 1.0
