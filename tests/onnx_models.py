"""Small ONNX models made by hand, so that nothing has to be trained for a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import onnx.parser

IMAGE = "uint8[n, h, w, 3] image"
PROBABILITY = "float[n, rows, columns] probability"


def save(folder: Path, steps: str, *, takes: str = IMAGE, gives: str = PROBABILITY, constants: str = "") -> Path:
    """Write `model.onnx` from its text."""
    folder.mkdir(parents=True, exist_ok=True)
    values = f"<{constants}>" if constants else ""
    text = f'<ir_version: 9, opset_import: ["" : 18]> by_hand ({takes}) => ({gives}) {values} {{ {steps} }}'
    model = onnx.parser.parse_model(text)
    onnx.checker.check_model(model)
    onnx.save(model, folder / "model.onnx")
    return folder


def write_plan(folder: Path, *, challenge: str = "cells", **decision: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps({"challenge": challenge, "decision": decision}))
    return folder


def write_dark_is_cell(folder: Path, *, middle: float = 140.0, threshold: float = 0.5, **decision: Any) -> Path:
    """A whole model folder: probability 0.5 where the mean of 5x5 pixels of red is `middle`, more where it is darker."""
    steps = """
        pixels = Cast<to = 1>(image)
        plane = Gather<axis = 3>(pixels, red)
        channel = Unsqueeze(plane, one)
        smooth = AveragePool<kernel_shape = [5, 5], pads = [2, 2, 2, 2]>(channel)
        grey = Squeeze(smooth, one)
        darker = Sub(middle, grey)
        logit = Div(darker, softness)
        probability = Sigmoid(logit)
    """
    constants = f"int64 red = {{0}}, int64[1] one = {{1}}, float middle = {{{middle}}}, float softness = {{20.0}}"
    save(folder, steps, constants=constants)
    return write_plan(folder, threshold=threshold, **decision)
