"""What exported networks share: preprocessing inside, probabilities out, memory format."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from handlens.training.task import Graph

STEP = 32
"""Rule: heights and widths are multiples of it, as encoders halve them five times."""


class Prepare(nn.Module):
    """uint8 (N, H, W, C) pixels to what the encoder was pretrained on: (N, C, H, W) floats about zero."""

    def __init__(self, centre: float, spread: float) -> None:
        super().__init__()
        self.centre, self.spread = centre, spread
        self.channels_last = True

    def forward(self, image: Tensor) -> Tensor:
        pixels = image.permute(0, 3, 1, 2).to(torch.float32)  # laid out pixel by pixel, as they came
        pixels = (pixels - self.centre) / self.spread
        return pixels if self.channels_last else pixels.contiguous()


class Probability(nn.Module):
    """A network with its logits turned into probabilities: what is exported."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Tensor) -> Tensor:
        return torch.sigmoid(self.network(image))


def set_memory_format(network: nn.Module, *, channels_last: bool) -> None:
    """Lay weights and pixels out channel by channel, or pixel by pixel; the result is the same but for rounding."""
    network.to(memory_format=torch.channels_last if channels_last else torch.contiguous_format)  # type: ignore[call-overload]
    for module in network.modules():
        if isinstance(module, Prepare):
            module.channels_last = channels_last


def mask_graph(network: nn.Module, name: str, shape: tuple[int, ...], *, axes: tuple[int, int]) -> Graph:
    """What is exported of a mask network: bytes `name` to `probability`, of any number, height and width.

    `shape` is that of an example, `axes` are its height and width.
    """
    set_memory_format(network, channels_last=False)
    example = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    sizes = {0: ("count", 1), axes[0]: ("height", STEP), axes[1]: ("width", STEP)}
    return Graph(Probability(network), {name: example}, "probability", {name: sizes})
