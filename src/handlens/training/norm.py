"""Batch normalisation whose statistics are those of the whole batch, however many processes share it."""

from __future__ import annotations

import torch
import torch.distributed as distributed
from torch import Tensor, nn


def _sum_over_processes(values: Tensor) -> Tensor:
    """A sum that gradients flow back through."""
    from torch.distributed.nn.functional import all_reduce

    total: Tensor = all_reduce(values)  # type: ignore[no-untyped-call]
    return total


class SharedBatchNorm(nn.BatchNorm2d):
    """BatchNorm2d that sums over all processes; torch's own can do so on GPUs alone.

    In one process, and when not training, it is BatchNorm2d to the last bit.
    """

    def forward(self, input: Tensor) -> Tensor:  # the name is BatchNorm2d's
        if not self.training or not distributed.is_initialized() or distributed.get_world_size() == 1:
            return super().forward(input)

        values = input.float()
        count = values.numel() / values.shape[1] * distributed.get_world_size()
        mean = _sum_over_processes(values.sum((0, 2, 3))) / count
        centred = values - mean[:, None, None]
        variance = _sum_over_processes(centred.square().sum((0, 2, 3))) / count
        self._remember(mean.detach(), variance.detach() * (count / (count - 1)))
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return (centred * scale[:, None, None] + self.bias[:, None, None]).to(input.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics, as BatchNorm2d does."""
        momentum = 0.1 if self.momentum is None else self.momentum
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
            self.running_var.lerp_(variance.to(self.running_var.dtype), momentum)
            self.num_batches_tracked.add_(1)
