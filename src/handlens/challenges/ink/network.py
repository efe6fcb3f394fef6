"""The network for ink: features of three layers at a time, pooled over depth, and a small U-Net at a quarter size.

A convolution in three directions is done as one in two, on layers laid beside their neighbours as channels: the same
numbers, and engines for CPUs are several times faster at it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from handlens.training.norm import SharedBatchNorm

CENTRE, SPREAD = 115.0, 45.0
"""Grey between air and papyrus, and how far the two are from it."""

DEEP = (8, 16, 32, 32)
"""Channels of the layers' features."""

FLAT = (48, 64, 96, 128)
"""Channels of the U-Net at strides 4, 8, 16 and 32."""


class Deep(nn.Module):
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


class Flat(nn.Sequential):
    """Two convolutions of 3x3, each with norm and ReLU."""

    def __init__(self, inside: int, outside: int) -> None:
        parts: list[nn.Module] = []
        for channels in (inside, outside):
            parts += [nn.Conv2d(channels, outside, 3, padding=1, bias=False), SharedBatchNorm(outside), nn.ReLU(True)]
        super().__init__(*parts)


class DepthNet(nn.Module):
    """uint8 (N, layers, H, W) to logits (N, H / 4, W / 4); height and width are multiples of 32.

    It has `width` times as many channels as DEEP and FLAT say.
    """

    def __init__(self, layers: int, width: float = 1.0) -> None:
        super().__init__()
        self.layers = layers
        deep, flat = (tuple(4 * max(1, round(channels * width / 4)) for channels in many) for many in (DEEP, FLAT))
        self.deep = nn.ModuleList(
            [
                Deep(1, deep[0], kernel=5, stride=2),
                Deep(deep[0], deep[1], kernel=3, stride=2),
                Deep(deep[1], deep[2], kernel=3, stride=1, skip=2),
                Deep(deep[2], deep[3], kernel=3, stride=1),
            ]
        )
        widths = (2 * deep[3], *flat)
        self.down = nn.ModuleList(Flat(inside, outside) for inside, outside in zip(widths, flat, strict=False))
        self.up = nn.ModuleList(
            Flat(below + beside, beside) for below, beside in zip(flat[:0:-1], flat[-2::-1], strict=True)
        )
        self.head = nn.Conv2d(flat[0], 1, 1)

    def forward(self, window: Tensor) -> Tensor:
        features = (window.transpose(0, 1).flatten(0, 1)[:, None].to(torch.float32) - CENTRE) / SPREAD
        layers = self.layers
        for block in self.deep:
            features, layers = block(features, layers)
        deep = features.view(layers, -1, *features.shape[1:])
        features = torch.cat([deep.amax(0), deep.mean(0)], 1)
        beside: list[Tensor] = []
        for number, block in enumerate(self.down):
            features = block(functional.max_pool2d(features, 2) if number else features)
            beside.append(features)
        for block, other in zip(self.up, beside[-2::-1], strict=True):
            large = functional.interpolate(features, scale_factor=2.0, mode="nearest")
            features = block(torch.cat([large, other], 1))
        logits: Tensor = self.head(features)[:, 0]
        return logits
