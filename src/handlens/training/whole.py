"""A mask network's answer for a whole picture, mean of its turned and mirrored copies; for scoring out of fold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

STEP = 32
"""Sides that the network takes are multiples of it."""


def predict_whole(network: nn.Module, image: npt.NDArray[np.uint8], *, turns: int) -> npt.NDArray[np.uint8]:
    """Probabilities times 255 of an (H, W, 3) picture; `turns` of its 8 turned and mirrored copies are averaged."""
    height, width = image.shape[:2]
    larger = [(0, -side % STEP) for side in (height, width)]
    padded = np.pad(image, [*larger, (0, 0)], mode="symmetric")
    total = np.zeros(padded.shape[:2], np.float32)
    device = next(network.parameters()).device
    for turn in range(turns):
        view = np.rot90(padded if turn < 4 else padded[:, ::-1], turn % 4)
        with torch.inference_mode():
            logits = network(torch.from_numpy(np.ascontiguousarray(view))[None].to(device))
            said = logits[0].float().sigmoid().cpu().numpy()
        back = np.rot90(said, -(turn % 4))
        total += back if turn < 4 else back[:, ::-1]
    return (total[:height, :width] * np.float32(255 / turns) + np.float32(0.5)).astype(np.uint8)


def ask_window(network: nn.Module, window: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Probabilities for one input of a network that gives logits, whatever its shape."""
    device = next(network.parameters()).device
    with torch.inference_mode():
        logits = network(torch.from_numpy(np.ascontiguousarray(window))[None].to(device))
        said: npt.NDArray[np.float32] = logits[0].float().sigmoid().cpu().numpy()
    return said
