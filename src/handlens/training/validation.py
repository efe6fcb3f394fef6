"""How a fold's network does on what it does not learn from, while it is trained: a few held-out items, always the same.

Nothing is chosen by it; it is there to be looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import nn

from handlens.training.batches import Batches
from handlens.training.options import Schedule
from handlens.training.stages import Stage
from handlens.training.task import Task

POINTS = 10
"""Of a curve, about."""

ITEMS = 8
"""Held-out items, made as those of training are; 10 times 8 cost less than one step in a hundred of a usual stage."""

SEEDS_APART = 1_000_000
"""Added to the number of a stage, so that its held-out items have random numbers of their own."""


class Validation:
    """Held-out items of a stage, made once; a stage that holds nothing out has none."""

    def __init__(self, fabric: Fabric, task: Task, schedule: Schedule, stage: Stage, *, every: int) -> None:
        self.fabric, self.task = fabric, task
        self.steps, self.every = stage.steps, every * max(1, round(stage.steps / (POINTS * every)))
        self.batch: Mapping[str, Any] = {}
        if stage.held_out and stage.steps:
            number = min(ITEMS, 2 * schedule.batch)
            made = Batches(task.make_item, stage.held_out, number, schedule.seed, stage.number + SEEDS_APART)
            self.batch = made.make(0)

    def is_due(self, step: int) -> bool:
        """After the step of this number, from 0."""
        return bool(self.batch) and ((step + 1) % self.every == 0 or step + 1 == self.steps)

    def measure(self, network: nn.Module) -> dict[str, float]:
        """Loss and metric of the items; no weight, statistic or random number of the training changes."""
        tensors = {name: torch.from_numpy(values).to(self.fabric.device) for name, values in self.batch.items()}
        before = network.training
        network.eval()
        with torch.no_grad(), self.fabric.autocast():
            outputs = network(*(tensors[name] for name in self.task.inputs))
            loss = self.task.loss(outputs, tensors)
        network.train(before)
        return {
            "validation_loss": round(float(loss), 6),
            "validation_metric": round(self.task.measure(outputs, tensors), 6),
        }
