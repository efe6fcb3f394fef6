"""One file of a model with external data: what ONNX's own library would make of it, and nothing from elsewhere."""

import os
import random
from contextlib import suppress

import hostile_models as models
import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from onnx import TensorProto

from handlens.cli import cli
from handlens.errors import ModelError
from handlens.sandbox import onnxfile, packing
from handlens.sandbox.verdicts import RefusedError

IMAGE = np.random.default_rng(0).random((1, 3, 512, 512), np.float32)
PERSON = np.array([[40, 1, 5]], np.float32)


def answer(path):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"image": IMAGE, "people": PERSON})[0]


def save_apart(folder, model):
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    for constant in model.graph.initializer:  # only bytes can lie apart, not lists of numbers
        constant.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(constant), constant.name))
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0, convert_attribute=True)
    return path


def test_the_packed_file_answers_as_the_apart_one(tmp_path):
    path = save_apart(tmp_path / "apart", models.honest())
    with pytest.raises(RefusedError, match="external data: .*handlens pack MODEL.onnx -o ONE.onnx"):
        onnxfile.check(path.read_bytes())
    run = CliRunner().invoke(cli, ["pack", str(path), "-o", str(tmp_path / "one.onnx")])
    assert run.exit_code == 0, run.output
    assert "constants copied in" in run.output
    onnxfile.check((tmp_path / "one.onnx").read_bytes())
    onnx.checker.check_model(tmp_path / "one.onnx")
    np.testing.assert_array_equal(answer(tmp_path / "one.onnx"), answer(path))
    again = CliRunner().invoke(cli, ["pack", str(path), "-o", str(tmp_path / "one.onnx")])
    assert again.exit_code == 1
    assert "already there" in str(again.exception)


def test_a_model_in_one_file_stays_as_it_is(tmp_path):
    path = models.write(tmp_path / "m.onnx", models.nested(3))
    assert packing.pack_model(path, tmp_path / "one.onnx") == 0
    assert (tmp_path / "one.onnx").read_bytes() == path.read_bytes()


def test_constants_in_branches_and_functions_are_copied_too(tmp_path):
    """As ONNX's own library loads them."""
    one = TensorProto(name="t", dims=[2], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    one.external_data.add(key="location", value="w")
    model = models.nested(2)
    model.graph.node[0].attribute[0].g.node[0].attribute[0].g.node[0].attribute[0].t.CopyFrom(one)
    model.functions.append(models.function("f", [], ["c"], [models.node("Constant", [], ["c"], value=one)]))
    path = models.write(tmp_path / "m.onnx", model)
    (tmp_path / "w").write_bytes(np.array([1, 2], np.float32).tobytes())
    assert packing.pack_model(path, tmp_path / "one.onnx") == 2
    packed = onnx.load(tmp_path / "one.onnx")
    (constant,) = packed.functions[-1].node
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(constant.attribute[0].t), [1, 2])


@pytest.mark.parametrize(
    ("location", "entries", "message"),
    [
        ("../labels.csv", {}, "not in the model's folder"),
        ("/etc/passwd", {}, "no file beside the model"),
        ("link", {}, "not in the model's folder"),
        ("pipe", {}, "not a regular file"),
        ("none", {}, "is not beside the model"),
        ("", {}, "no file beside the model"),
        ("*/_ORT_MEM_ADDR_/*", {}, "is not beside the model"),
        ("short", {}, "ends before tensor"),
        ("weights", {"offset": "-1"}, "expected a whole number"),
        ("weights", {"offset": "9" * 15}, "ends before tensor"),
        ("weights", {"length": "24"}, "needs 240 bytes, its file is said to hold 24"),
    ],
)
def test_nothing_is_read_from_elsewhere(location, entries, message, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "labels.csv").write_bytes(b"x" * 1000)
    (folder / "link").symlink_to(tmp_path / "labels.csv")
    (folder / "short").write_bytes(b"x" * 100)
    (folder / "weights").write_bytes(b"x" * 240)
    os.mkfifo(folder / "pipe")
    path = models.write(folder / "m.onnx", models.external_data(location, **entries))
    with pytest.raises(ModelError, match=message):
        packing.pack_model(path, tmp_path / "one.onnx")
    assert not (tmp_path / "one.onnx").exists()


def test_all_together_is_bounded(tmp_path, monkeypatch):
    path = save_apart(tmp_path / "apart", models.honest())
    monkeypatch.setattr(packing, "MAX_MODEL_MIB", 0.0005)
    with pytest.raises(ModelError, match="too large"):
        packing.pack_model(path, tmp_path / "one.onnx")


def test_damaged_files_are_refused_or_packed(tmp_path):
    good = save_apart(tmp_path / "apart", models.honest()).read_bytes()
    dice = random.Random(0)
    for _ in range(150):
        content = bytearray(good)
        for _ in range(3):
            content[dice.randrange(len(content))] = dice.randrange(256)
        path = models.write(tmp_path / "apart" / "damaged.onnx", bytes(content))
        with suppress(ModelError):  # anything else fails
            packing.pack_model(path, tmp_path / "one.onnx")
