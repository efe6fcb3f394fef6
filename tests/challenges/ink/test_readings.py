"""Every Reading of the ink rules, by its number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles import ink as oracle

import handlens
from handlens.challenges.ink import data, predictor, score
from handlens.challenges.ink.options import InkSettings
from handlens.errors import DataError
from handlens.io import volumes
from handlens.io.images import read_mask, write_png
from handlens.masks.rle import decode, encode, format_pairs
from handlens.types import Case, Context, Truth

CODEC = score.codec(InkSettings())
CASE = Case("a", None, (3, 4))


def run(tmp_path, truth, said, **options):
    (tmp_path / "truth.csv").write_text("Id,Predicted,height,width\n" + truth)
    (tmp_path / "mine.csv").write_text("Id,Predicted\n" + said)
    return handlens.score("ink", tmp_path / "mine.csv", truth=tmp_path / "truth.csv", **options).value


def test_reading_01_ids_are_the_names_of_folders(tmp_path):
    for name in ("01", "1", "a"):
        write_png(tmp_path / "test" / name / "mask.png", np.ones((4, 5), bool))
    assert [case.id for case in data.read_cases(tmp_path, "test")] == ["01", "1", "a"]


def test_reading_02_pixels_are_numbered_along_the_rows():
    assert score.ORDER == "rows"
    mask = np.zeros((3, 4), bool)
    mask[0, 1] = mask[1, 0] = True
    assert format_pairs(encode(mask, order=score.ORDER)) == "2 1 5 1"


def test_reading_03_f_half_is_0_where_undefined(tmp_path):
    assert score.BETA == 0.5
    nothing = Truth((CASE,), lambda case: encode(np.zeros((3, 4), bool), order="rows"))
    assert score.score({"a": encode(np.zeros((3, 4), bool), order="rows")}, nothing, InkSettings()).value == 0
    # p = 2/4, r = 2/2: 1.25 * 0.5 / (0.25 * 0.5 + 1)
    assert run(tmp_path, "a,1 2,3,4\n", "a,1 4\n") == pytest.approx(0.625 / 1.125)


def test_reading_04_mean_over_fragments_or_pooled(tmp_path):
    truth, said = "a,1 2,3,4\nb,1 8,3,4\n", "a,1 4\nb,1 8\n"
    assert run(tmp_path, truth, said) == pytest.approx((0.625 / 1.125 + 1) / 2)
    # pooled: tp 10, fp 2, fn 0
    assert run(tmp_path, truth, said, average="pooled") == pytest.approx(oracle.f_half(10, 2, 0))


def test_reading_05_an_empty_cell_is_refused_and_never_written():
    with pytest.raises(ValueError, match="an empty cell"):
        CODEC.parse(("",), CASE)
    assert CODEC.format(encode(np.zeros((3, 4), bool), order="rows"), CASE) == ("1 1",)


def test_reading_06_pairs_are_sorted_positive_disjoint_and_inside():
    for bad in ("5 1 1 1", "0 1", "1 0", "1 3 3 1", "12 2", "1", "1 -1"):
        with pytest.raises(ValueError, match=r"\w"):
            CODEC.parse((bad,), CASE)
    assert CODEC.parse(("1 12",), CASE).area == 12


@pytest.mark.slow
def test_reading_07_nothing_is_predicted_outside_the_mask(tmp_path):
    handlens.challenge("ink").write_sample(tmp_path, seed=3, cases=1, size=256, settings=InkSettings())
    (case,) = data.read_cases(tmp_path, "test")
    opened = predictor.load(Context(InkSettings()))
    with opened.decode(case) as fragment:
        answer = decode(opened.predict(fragment).answer, case.shape, order="rows")
    assert answer.any()
    assert not (answer & ~read_mask(case.path / "mask.png")).any()


def test_reading_08_the_first_and_last_pixel_can_be_ink():
    mask = np.zeros((3, 4), bool)
    mask[0, 0] = mask[2, 3] = True
    assert format_pairs(encode(mask, order="rows")) == "1 1 12 1"
    assert (decode(CODEC.parse(("1 1 12 1",), CASE), (3, 4), order="rows") == mask).all()


def test_reading_09_a_missing_slice_is_named_and_other_counts_are_read(tmp_path):
    import tifffile

    for number in range(7):
        tifffile.imwrite(tmp_path / f"{number:02d}.tif", np.zeros((5, 6), np.uint8))
    assert volumes.open_stack(tmp_path).depth == 7
    (tmp_path / "03.tif").unlink()
    with pytest.raises(DataError, match="slice 03 is missing"):
        volumes.open_stack(tmp_path)


masks = arrays(np.bool_, (4, 5))


@given(st.lists(st.tuples(masks, masks), min_size=1, max_size=4))
def test_the_score_is_the_texts(pairs):
    truths = {str(number): true for number, (_, true) in enumerate(pairs)}
    said = {str(number): answer for number, (answer, _) in enumerate(pairs)}
    truth = Truth(tuple(Case(id, None, (4, 5)) for id in truths), lambda case: encode(truths[case.id], order="rows"))
    parsed = {id: encode(mask, order="rows") for id, mask in said.items()}
    assert score.score(parsed, truth, InkSettings()).value == pytest.approx(oracle.score(said, truths), rel=1e-15)
    assert score.score(parsed, truth, InkSettings(average="pooled")).value == pytest.approx(
        oracle.pooled(said, truths), rel=1e-15
    )


def test_the_real_labels_differ_from_their_run_lengths_by_just_so_many_pixels(real_data):
    for fragment, surplus in (("1", 2), ("2", 48_095)):
        folder = real_data / "ink" / "labels" / "train" / fragment
        result = handlens.score("ink", folder / "inklabels_rle.csv", truth=folder)
        assert (result.cases[0].parts["fp"], result.cases[0].parts["fn"]) == (surplus, 0)
