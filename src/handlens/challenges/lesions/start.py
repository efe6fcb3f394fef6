"""A trained model that a training continues: its weights, its decision, and the photographs that it has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.challenges.lesions.decision import LesionsDecision
from handlens.challenges.lesions.options import INCLUDED_MODEL
from handlens.errors import ModelError
from handlens.inference.model import Model, digest, open_model
from handlens.io.gate import read_bytes
from handlens.types import Case

if TYPE_CHECKING:
    from torch import nn

INCLUDED = "included"
"""Stands for the model that comes with the package."""

ADDED = ("gate", "other")
"""Layers that a model may lack."""

PREFIX = "network."
"""What names of weights begin with in an exported file."""


@dataclass(frozen=True, slots=True)
class Start:
    """A model to continue."""

    model: Model
    decision: LesionsDecision

    @staticmethod
    def of(name: str) -> Start:
        """The included model, or that of a folder."""
        model = open_model(INCLUDED_MODEL if name == INCLUDED else Path(name), challenge="lesions")
        if not model.trained_on:
            raise ModelError(f"{model.folder}: it does not say what it was trained on, so no score would be honest")
        return Start(model, model.decision(LesionsDecision))

    @property
    def is_adapted(self) -> bool:
        """Whether it has the second layer of `adaptation.py`."""
        return "other.weight" in _read_weights(self.model.file)

    def seen(self, cases: Sequence[Case], groups: Sequence[str]) -> frozenset[int]:
        """Numbers of the photographs that it was trained on, and of all others in their groups."""
        known = self.model.trained_on
        taken = {group for case, group in zip(cases, groups, strict=True) if digest(case) in known}
        return frozenset(index for index, group in enumerate(groups) if group in taken)

    def head(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Weights (features, classes) and bias of its last layer."""
        weights = _read_weights(self.model.file)
        return (
            np.asarray(_found("head.weight", weights), np.float64).T,
            np.asarray(_found("head.bias", weights), np.float64),
        )

    def put_into(self, network: nn.Module) -> None:
        """Give a network the weights of the exported file.

        There each norm is part of the convolution before it; so the norms of the network are left with nothing to do
        but to add.
        """
        import torch

        weights = _read_weights(self.model.file)
        state = network.state_dict()
        for name, value in state.items():
            if name.split(".")[0] in ADDED and name not in weights:  # a second layer that it does not have yet
                continue
            found = _weight_of(name, weights, state)
            if found is None:
                continue
            if found.shape != tuple(value.shape):
                what = f"{name} is {found.shape} there, {tuple(value.shape)} here"
                raise ModelError(f"{self.model.file}: a model of another encoder or other classes: {what}")
            value.copy_(torch.from_numpy(np.array(found, np.float32)))
        state["offsets"].zero_()
        state["temperature"].fill_(1.0)


def _weight_of(name: str, weights: dict[str, npt.NDArray[Any]], state: dict[str, Any]) -> npt.NDArray[Any] | None:
    """The value of one tensor; None for what is not learned.

    A convolution `x.0` is followed by its norm `x.1`, whose statistics become those that change nothing.
    """
    if name in ("offsets", "temperature") or name.endswith("num_batches_tracked"):
        return None
    stem, _, kind = name.rpartition(".")
    if stem.endswith(".1"):
        shape = tuple(state[name].shape)
        if kind == "running_var":
            return np.full(shape, 1 - NORM_EPSILON, np.float32)
        if kind == "bias":
            return _found(f"{stem[:-2]}.0.weight_bias", weights)
        return np.full(shape, 1.0 if kind == "weight" else 0.0, np.float32)
    return _found(name, weights)


MAX_MODEL_BYTES = 1 << 31
"""Largest model that is continued: what one ONNX file can hold."""

NORM_EPSILON = 1e-3
"""What the norms add to a variance."""


def _found(name: str, weights: dict[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    if name not in weights:
        raise ModelError(f"{name} is not in this model: it is of another version, and cannot be continued")
    return weights[name]


def _read_weights(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Tensors of an exported file by the network's names; those that are stored in 16 bits too."""
    import onnx
    from onnx import numpy_helper

    found = {}
    for tensor in onnx.load_from_string(read_bytes(path, most=MAX_MODEL_BYTES)).graph.initializer:
        name = tensor.name.removeprefix(PREFIX).removesuffix("_half")
        found[name] = numpy_helper.to_array(tensor)
    return found
