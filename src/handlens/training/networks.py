"""What exported networks share: preprocessing inside, probabilities out, memory format."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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
