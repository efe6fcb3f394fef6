"""The networks for ink: features of the layers, and a small U-Net at a quarter size.

A whole stack has features of three layers at a time, pooled over depth (`DepthNet`); a few slices are seen as the
channels of one picture (`SliceNet`).

A convolution in three directions is done as one in two, on layers laid beside their neighbours as channels: the same
numbers, and engines for CPUs are several times faster at it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from handlens.errors import ModelError
from handlens.io.gate import read_bytes
from handlens.training.norm import SharedBatchNorm

CENTRE, SPREAD = 115.0, 45.0
"""Grey between air and papyrus, and how far the two are from it."""

DEEP = (8, 16, 32, 32)
"""Channels of the layers' features."""

FLAT = (48, 64, 96, 128)
"""Channels of the U-Net at strides 4, 8, 16 and 32."""


class DepthConv(nn.Module):
    """A convolution over three layers and some pixels, norm and ReLU. Without padding in depth: two layers are lost.

    Features are (layers * N, C, H, W), layer by layer; `skip` says how many layers on the next answer is.
    """

    def __init__(self, inside: int, outside: int, *, kernel: int, stride: int, skip: int = 1) -> None:
        super().__init__()
        self.skip = skip
        self.convolution = nn.Conv2d(3 * inside, outside, kernel, stride, kernel // 2, bias=False)
        self.norm = SharedBatchNorm(outside)

    def forward(self, features: Tensor, layers: int) -> tuple[Tensor, int]:
        count = (layers - 3) // self.skip + 1
        deep = features.view(layers, -1, *features.shape[1:])
        reach = (count - 1) * self.skip + 1
        three = torch.cat([deep[first : first + reach : self.skip].flatten(0, 1) for first in range(3)], 1)
        return functional.relu(self.norm(self.convolution(three)), inplace=True), count


class DoubleConv(nn.Sequential):
    """Two convolutions of 3x3, each with norm and ReLU."""

    def __init__(self, inside: int, outside: int) -> None:
        parts: list[nn.Module] = []
        for channels in (inside, outside):
            parts += [nn.Conv2d(channels, outside, 3, padding=1, bias=False), SharedBatchNorm(outside), nn.ReLU(True)]
        super().__init__(*parts)


class _QuarterNet(nn.Module):
    """A U-Net on features at a quarter of the size, to logits of the same size; both networks end with it."""

    def __init__(self, inside: int, flat: tuple[int, ...]) -> None:
        super().__init__()
        widths = (inside, *flat)
        self.down = nn.ModuleList(DoubleConv(inside, outside) for inside, outside in zip(widths, flat, strict=False))
        self.up = nn.ModuleList(
            DoubleConv(below + beside, beside) for below, beside in zip(flat[:0:-1], flat[-2::-1], strict=True)
        )
        self.head = nn.Conv2d(flat[0], 1, 1)

    def decode(self, features: Tensor) -> Tensor:
        beside: list[Tensor] = []
        for number, block in enumerate(self.down):
            features = block(functional.max_pool2d(features, 2) if number else features)
            beside.append(features)
        for block, other in zip(self.up, beside[-2::-1], strict=True):
            large = functional.interpolate(features, scale_factor=2.0, mode="nearest")
            features = block(torch.cat([large, other], 1))
        logits: Tensor = self.head(features)[:, 0]
        return logits


class DepthNet(_QuarterNet):
    """uint8 (N, layers, H, W) to logits (N, H / 4, W / 4); height and width are multiples of 32.

    It has `width` times as many channels as DEEP and FLAT say.
    """

    def __init__(self, layers: int, width: float = 1.0) -> None:
        deep, flat = _scaled(DEEP, width), _scaled(FLAT, width)
        super().__init__(2 * deep[3], flat)
        self.layers = layers
        self.deep = nn.ModuleList(
            [
                DepthConv(1, deep[0], kernel=5, stride=2),
                DepthConv(deep[0], deep[1], kernel=3, stride=2),
                DepthConv(deep[1], deep[2], kernel=3, stride=1, skip=2),
                DepthConv(deep[2], deep[3], kernel=3, stride=1),
            ]
        )

    def forward(self, window: Tensor) -> Tensor:
        features = (window.transpose(0, 1).flatten(0, 1)[:, None].to(torch.float32) - CENTRE) / SPREAD
        layers = self.layers
        for block in self.deep:
            features, layers = block(features, layers)
        deep = features.view(layers, -1, *features.shape[1:])
        return self.decode(torch.cat([deep.amax(0), deep.mean(0)], 1))


class SliceNet(_QuarterNet):
    """As DepthNet, for stacks of few slices: the layer at `surface` and its two neighbours are channels."""

    def __init__(self, surface: int, width: float = 1.0) -> None:
        deep, flat = _scaled(DEEP, width), _scaled(FLAT, width)
        super().__init__(deep[3], flat)
        self.surface = surface
        self.stem = nn.Sequential(
            *_convolution(3, deep[1], kernel=5, stride=2),
            *_convolution(deep[1], deep[2], kernel=3, stride=1),
            *_convolution(deep[2], deep[3], kernel=3, stride=2),
        )

    def forward(self, window: Tensor) -> Tensor:
        middle = window[:, self.surface - 1 : self.surface + 2]
        return self.decode(self.stem((middle.to(torch.float32) - CENTRE) / SPREAD))


def _convolution(inside: int, outside: int, *, kernel: int, stride: int) -> list[nn.Module]:
    convolution = nn.Conv2d(inside, outside, kernel, stride, kernel // 2, bias=False)
    return [convolution, SharedBatchNorm(outside), nn.ReLU(True)]


def _scaled(channels: tuple[int, ...], width: float) -> tuple[int, ...]:
    return tuple(4 * max(1, round(each * width / 4)) for each in channels)


# --- starting from another network ----------------------------------------------------------------------------------


def start_from(network: nn.Module, model: Path, example: Tensor) -> None:
    """Give a network the weights of an exported one.

    An exported network has its norms folded into convolutions. They are unfolded with the statistics of an example
    batch, so that the network answers as the exported one does, in training too.
    """
    folded = _read_folded(model)
    names = {name: module for name, module in network.named_modules() if isinstance(module, nn.Conv2d)}
    try:
        for name, convolution in names.items():
            convolution.weight.data.copy_(folded[f"{name}.weight"])
            if convolution.bias is not None:
                convolution.bias.data.copy_(folded[f"{name}.bias"])
        biases = {name: folded[f"{name}.weight_bias"] for name, each in names.items() if each.bias is None}
    except (KeyError, RuntimeError):
        raise ModelError(f"{model}: no network of this form: start from one of the same width") from None
    hooks = []
    for name, bias in biases.items():
        norm = network.get_submodule(_norm_of(name))
        hooks.append(norm.register_forward_pre_hook(partial(_unfold, bias)))
    with torch.no_grad():
        network.train()(example)
    for hook in hooks:
        hook.remove()


def _read_folded(model: Path) -> dict[str, Tensor]:
    import onnx
    from onnx import numpy_helper

    try:
        graph = onnx.load_from_string(read_bytes(model, most=1 << 31)).graph
    except Exception as error:  # whatever the parser says of a file that is none
        raise ModelError(f"{model}: not a readable model: {error}") from None
    before = "network."
    return {
        tensor.name.removeprefix(before): torch.from_numpy(numpy_helper.to_array(tensor).copy())
        for tensor in graph.initializer
        if tensor.name.startswith(before)
    }


def _norm_of(convolution: str) -> str:
    """The name of the norm after a convolution."""
    inside, last = convolution.rsplit(".", 1)
    return f"{inside}.norm" if last == "convolution" else f"{inside}.{int(last) + 1}"


def _unfold(bias: Tensor, norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Set a norm so that it only adds this bias to values of these statistics."""
    if not isinstance(norm, SharedBatchNorm) or norm.running_mean is None or norm.running_var is None:
        raise TypeError("not a norm")
    variance, mean = torch.var_mean(inputs[0], (0, 2, 3))
    norm.running_mean.copy_(mean)
    norm.running_var.copy_(variance)
    norm.weight.data.copy_((variance + norm.eps).sqrt())
    norm.bias.data.copy_(mean + bias)
