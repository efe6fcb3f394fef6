"""The loss of mask networks: cross-entropy, weighted at outlines, and soft Dice."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def mask_loss(logits: Tensor, truth: Tensor, weight: Tensor, *, dice: float) -> Tensor:
    """Weighted cross-entropy plus `dice` times one minus soft Dice, each of every image by itself, then their mean.

    `logits`, `truth` (0 or 1) and `weight` are (N, H, W). By itself: so that a batch may be shared among processes.
    An image without truth and without answer has a Dice loss near zero.
    """
    logits, truth = logits.float(), truth.float()
    entropy = functional.binary_cross_entropy_with_logits(logits, truth, reduction="none")
    crossed = (entropy * weight).sum((1, 2)) / weight.sum((1, 2))
    said = logits.sigmoid()
    smooth = 0.001 * truth[0].numel()
    overlap = (2 * (said * truth).sum((1, 2)) + smooth) / (said.sum((1, 2)) + truth.sum((1, 2)) + smooth)
    return (crossed + dice * (1 - overlap)).mean()


def hard_dice(logits: Tensor, truth: Tensor) -> float:
    """Dice of a batch at probability one half, all its pixels together; 1 where both are empty."""
    said, true = logits > 0, truth > 0
    both = 2 * int((said & true).sum())
    all_of_them = int(said.sum()) + int(true.sum())
    return both / all_of_them if all_of_them else 1.0
