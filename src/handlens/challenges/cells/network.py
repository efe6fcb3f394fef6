"""The light U-Net: an encoder, a narrow decoder, and one logit for each pixel, with preprocessing inside."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from handlens.training.encoders import Encoder
from handlens.training.networks import Prepare
from handlens.training.norm import SharedBatchNorm

WIDTHS = (128, 64, 48, 32)
"""Channels of the decoder at strides 16, 8, 4 and 2."""


class DecoderBlock(nn.Module):
    """One step up: enlarge, put the encoder's features beside it, mix twice."""

    def __init__(self, below: int, beside: int, outside: int) -> None:
        super().__init__()
        self.mix = nn.Sequential(_convolution(below + beside, outside), _convolution(outside, outside))

    def forward(self, below: Tensor, beside: Tensor) -> Tensor:
        large = functional.interpolate(below, scale_factor=2.0, mode="nearest")
        mixed: Tensor = self.mix(torch.cat([large, beside], 1))
        return mixed


class LightUNet(nn.Module):
    """uint8 (N, H, W, C) to logits (N, H, W); height and width are multiples of 32.

    The last step up is one convolution that gives the four pixels of each half-size one: full-size features would
    cost as much as all the rest.
    """

    def __init__(self, encoder: Encoder, widths: tuple[int, ...] = WIDTHS) -> None:
        super().__init__()
        self.prepare = Prepare(encoder.centre, encoder.spread)
        self.encoder = encoder
        self.joints = nn.ModuleList()
        below = encoder.widths[-1]
        for beside, outside in zip(encoder.widths[-2::-1], widths, strict=True):
            self.joints.append(DecoderBlock(below, beside, outside))
            below = outside
        self.head = nn.Conv2d(below, 4, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        *beside, features = self.encoder(self.prepare(image))
        for joint, other in zip(self.joints, reversed(beside), strict=True):
            features = joint(features, other)
        return functional.pixel_shuffle(self.head(features), 2)[:, 0]


def _convolution(inside: int, outside: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1, bias=False), SharedBatchNorm(outside), nn.ReLU(inplace=True)
    )
