"""`encode` and `decode`: mask images to a submission and back, to the same bytes."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from handlens import pipeline, registry
from handlens.cli import cli
from handlens.errors import DataError, HandlensError
from handlens.io.images import write_png
from handlens.masks.rle import decode, decode_bands, encode


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    for name in ("cells", "ink", "forgery"):
        pipeline.sample(registry.challenge(name), folder / name, seed=3, cases=3, size=96)
    return folder


def perfect(challenge, data, file, **options):
    """A submission that says the truth."""
    settings = challenge.settings(**options)
    truth, codec = pipeline.open_truth(challenge, data, settings), challenge.codec(settings)
    from handlens.io.submissions import write_submission

    cases = pipeline.read_cases(challenge, data)
    answers = {case.id: challenge.perfect(truth.read(case), case, settings) for case in truth.cases}
    write_submission(file, codec, cases, answers)
    return file.read_bytes()


@pytest.mark.parametrize("name", ["cells", "ink", "forgery"])
def test_a_submission_survives_being_decoded_and_encoded(name, samples, tmp_path):
    challenge, data = registry.challenge(name), samples / name
    before = perfect(challenge, data, tmp_path / "before.csv")
    settings = challenge.settings()
    count = pipeline.decode_masks(challenge, tmp_path / "before.csv", data, tmp_path / "masks", settings)
    assert count == len(pipeline.read_cases(challenge, data))
    pipeline.encode_masks(challenge, tmp_path / "masks", data, tmp_path / "after.csv", settings)
    assert (tmp_path / "after.csv").read_bytes() == before


def test_both_pixel_orders(samples, tmp_path):
    cells, data = registry.challenge("cells"), samples / "cells"
    texts = set()
    for order in ("rows", "columns"):
        settings = cells.settings(order=order)
        before = perfect(cells, data, tmp_path / f"{order}.csv", order=order)
        pipeline.decode_masks(cells, tmp_path / f"{order}.csv", data, tmp_path / order, settings)
        pipeline.encode_masks(cells, tmp_path / order, data, tmp_path / "again.csv", settings)
        assert (tmp_path / "again.csv").read_bytes() == before
        texts.add(before)
        masks = {path.name: path.read_bytes() for path in (tmp_path / order).iterdir()}
    assert len(texts) == 2
    assert masks == {path.name: path.read_bytes() for path in (tmp_path / "rows").iterdir()}


def write_masks(folder, cases, make):
    for case in cases:
        path, array = make(folder, case)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, array) if path.suffix == ".npy" else write_png(path, array)


@pytest.mark.parametrize(
    ("ending", "kind"),
    [(".png", bool), (".png", np.uint8), (".npy", np.uint8), (".npy", np.int64), (".mask.png", bool)],
)
def test_masks_of_many_kinds_say_the_same(ending, kind, samples, tmp_path):
    cells, data = registry.challenge("cells"), samples / "cells"
    cases = pipeline.read_cases(cells, data)
    mask = np.zeros((96, 96), bool)
    mask[3:9, 5:50] = True
    write_masks(tmp_path / "masks", cases, lambda folder, case: (folder / f"{case.id}{ending}", mask.astype(kind)))
    pipeline.encode_masks(cells, tmp_path / "masks", data, tmp_path / "mine.csv", cells.settings())
    line = (tmp_path / "mine.csv").read_text().splitlines()[1]
    assert line == "0," + " ".join(f"{row * 96 + 6} 45" for row in range(3, 9))


def test_a_label_image_is_one_mask_for_cells_and_instances_for_forgery(samples, tmp_path):
    labels = np.zeros((96, 96), np.uint16)
    labels[2:5, 2:5], labels[50:60, 50:60] = 1, 7
    cells, forgery = registry.challenge("cells"), registry.challenge("forgery")
    write_masks(tmp_path / "a", pipeline.read_cases(cells, samples / "cells"), lambda f, c: (f / f"{c.id}.png", labels))
    pipeline.encode_masks(cells, tmp_path / "a", samples / "cells", tmp_path / "a.csv", cells.settings())
    assert (tmp_path / "a.csv").read_text().splitlines()[1].count(" ") == 2 * 13 - 1
    cases = pipeline.read_cases(forgery, samples / "forgery")

    def sized(folder, case):
        array = np.zeros(case.shape, np.uint16)
        array[2:5, 2:5], array[20:30, 20:30] = 1, 7
        return folder / f"{case.id}.png", array

    write_masks(tmp_path / "b", cases, sized)
    pipeline.encode_masks(forgery, tmp_path / "b", samples / "forgery", tmp_path / "b.csv", forgery.settings())
    assert (tmp_path / "b.csv").read_text().splitlines()[1].count(";") == 1


def test_a_file_for_each_instance(samples, tmp_path):
    forgery = registry.challenge("forgery")
    for case in pipeline.read_cases(forgery, samples / "forgery"):
        for number in (1, 2):
            mask = np.zeros(case.shape, bool)
            mask[number * 9 : number * 9 + 4, 5:9] = True
            write_png(tmp_path / "masks" / f"{case.id}_{number}.png", mask)
    pipeline.encode_masks(forgery, tmp_path / "masks", samples / "forgery", tmp_path / "mine.csv", forgery.settings())
    assert all(line.count(";") == 1 for line in (tmp_path / "mine.csv").read_text().splitlines()[1:])


def test_every_problem_is_named_and_nothing_is_written(samples, tmp_path):
    cells, data = registry.challenge("cells"), samples / "cells"
    write_png(tmp_path / "masks" / "0.png", np.zeros((9, 9), bool))
    np.save(tmp_path / "masks" / "1.npy", np.zeros((96, 96), np.float32))
    with pytest.raises(DataError) as refused:
        pipeline.encode_masks(cells, tmp_path / "masks", data, tmp_path / "mine.csv", cells.settings())
    text = str(refused.value)
    assert "3 problems" in text
    assert "0.png: the mask is 9x9, its image 96x96" in text
    assert "1.npy: numbers of type float32" in text
    assert "2: no mask; expected one of 2.png" in text
    assert not (tmp_path / "mine.csv").exists()


def test_lesions_have_no_masks(samples, tmp_path):
    lesions = registry.challenge("lesions")
    with pytest.raises(HandlensError, match="lesions has no masks"):
        pipeline.encode_masks(lesions, tmp_path, tmp_path, tmp_path / "mine.csv", lesions.settings())


def test_the_commands(samples, tmp_path):
    file, data = tmp_path / "mine.csv", samples / "cells"
    before = perfect(registry.challenge("cells"), data, file)
    call = CliRunner().invoke
    decoded = call(cli, ["decode", "cells", str(file), "--data", str(data), "-o", str(tmp_path / "masks")])
    assert (decoded.exit_code, decoded.output) == (0, f"{tmp_path / 'masks'}: masks of 3 cases\n")
    again = [
        "encode",
        "cells",
        str(tmp_path / "masks"),
        "--data",
        str(data),
        "-o",
        str(tmp_path / "again.csv"),
        "--json",
    ]
    encoded = call(cli, again)
    assert json.loads(encoded.output) == {"submission": str(tmp_path / "again.csv"), "count": 3, "valid": True}
    assert (tmp_path / "again.csv").read_bytes() == before


@given(arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9))), st.integers(1, 10))
def test_bands_of_a_mask_are_the_mask(mask, rows):
    runs = encode(mask, order="rows")
    assert np.array_equal(np.concatenate(list(decode_bands(runs, mask.shape, rows=rows))), mask)
    assert np.array_equal(decode(runs, mask.shape, order="rows"), mask)
