"""The steps of one stage: learning rate, loss, gradient, moving average of weights, log, checkpoints."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from handlens.errors import DataError, HandlensError
from handlens.inference.prefetch import WaitTime
from handlens.io.files import write_text
from handlens.runstore.plan import Plan
from handlens.training import checkpoint
from handlens.training.batches import Batches
from handlens.training.networks import set_memory_format
from handlens.training.options import Schedule
from handlens.training.signals import Flag, TrainingStopped
from handlens.training.stages import Stage, speed_of
from handlens.training.task import Task
from handlens.training.validation import Validation

LOG = "log.jsonl"
LOG_STEPS = 10
SAVE_SECONDS = 30.0
"""Time between two checkpoints: what a kill costs at most."""

Report = Callable[[int, str], None]
"""Called with the step that is done, and its loss and metric in words."""


@dataclass(slots=True)
class Learner:
    """A network in training: the steps it took, its optimiser, and the moving average of its weights."""

    network: nn.Module
    optimizer: torch.optim.Optimizer
    averaged: AveragedModel
    step: int = 0

    @property
    def average(self) -> dict[str, Tensor]:
        """The averaged weights and statistics, by the network's own names."""
        return dict(self.averaged.module.state_dict())

    def state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average,
        }

    def restore(self, state: Mapping[str, Any], device: torch.device) -> None:
        self.step = state["step"]
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.averaged.to(device)
        self.averaged.module.load_state_dict(state["average"])
        self.averaged.n_averaged.fill_(self.step + 1)


def stage_file(run: Path, stage: Stage) -> Path:
    return run / "stages" / f"{stage.name}.pt"


def begin(
    task: Task, schedule: Schedule, stage: int, *, channels_last: bool, members: Sequence[int] | None = None
) -> Learner:
    """A learner before its first step: its weights follow from seed, stage and, where they are given, members."""
    torch.manual_seed(schedule.seed * 1009 + stage)
    network = task.make_network().train()
    if task.warm_start is not None and members is not None:
        task.warm_start(network, members)
        network.train()
    set_memory_format(network, channels_last=channels_last)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        rate = schedule.learning_rate * (schedule.pretrained_lr_factor if task.is_pretrained(name) else 1.0)
        groups.setdefault((rate, schedule.weight_decay if parameter.ndim > 1 else 0.0), []).append(parameter)
    optimizer = torch.optim.AdamW(
        [
            {"params": members, "lr": rate, "weight_decay": decay, "peak": rate}
            for (rate, decay), members in groups.items()
        ],
        fused=False,
    )
    averaged = AveragedModel(network, avg_fn=partial(_move_average, schedule.ema_decay), use_buffers=True)
    averaged.n_averaged.fill_(1)  # the first weights count: otherwise the first update would copy
    return Learner(network, optimizer, averaged)


def _move_average(decay: float, averaged: Tensor, current: Tensor, count: Tensor | int) -> Tensor:
    """The moving average after one more step; it forgets faster in the first ones, which are far from the last."""
    if not averaged.is_floating_point():
        return current
    step = int(count) - 1
    return averaged.lerp(current, 1 - min(decay, (1 + step) / (10 + step)))


def rate_at(step: int, steps: int, warmup: float) -> float:
    """Share of the full rate: up along a line, then down along a cosine.

    >>> [round(rate_at(step, 10, 0.2), 2) for step in (0, 1, 2, 6, 9)]
    [0.5, 1.0, 1.0, 0.5, 0.04]
    """
    rising = warmup * steps
    if step < rising:
        return (step + 1) / math.ceil(rising)
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1.0, steps - rising)))


def train_stage(
    fabric: Fabric,
    task: Task,
    plan: Plan,
    schedule: Schedule,
    stage: Stage,
    run: Path,
    flag: Flag,
    report: Report,
) -> dict[str, Tensor]:
    """Train one stage to its end, from its checkpoint where there is one; gives the averaged weights.

    Stopped, it saves a checkpoint and raises TrainingStopped.
    """
    file = stage_file(run, stage)
    state = checkpoint.load(file)
    if state is not None and state["step"] == stage.steps:
        return dict(state["average"])
    learner = begin(
        task,
        schedule,
        stage.number,
        channels_last=speed_of(plan).channels_last,
        members=None if state else stage.members,
    )
    stepper = Stepper(fabric, task, schedule, learner, stage)
    if state is not None:
        learner.restore(state, fabric.device)  # once the weights are on their device, so that the optimiser's follow
        fabric.strategy.precision.load_state_dict(state["precision"])
    _refuse_apart(fabric, learner.step, run)
    share = (fabric.global_rank, fabric.world_size)
    batches = Batches(task.make_item, stage.members, schedule.batch, schedule.seed, stage.number, share, task.weights)
    log = Log(run / LOG, stage, learner.step) if fabric.is_global_zero else None
    if state is not None:
        stepper.loss, stepper.metric = state.get("loss", math.nan), state.get("metric", math.nan)
        if log:
            log.losses = list(state.get("losses", ()))
    validation = Validation(fabric, task, schedule, stage, every=LOG_STEPS) if log else None
    waiting, saved = WaitTime(), time.monotonic()
    with closing(batches.prefetch(range(learner.step, stage.steps), waiting)) as prefetched:
        for step, batch in prefetched:
            loss, words = stepper.take(step, batch)
            if log and validation:
                log.add(step, loss, waiting, stepper, validation)
                report(step + 1, words)
            stop = _any(fabric, flag.is_set())
            if stop or time.monotonic() - saved > SAVE_SECONDS:
                curve = {"loss": stepper.loss, "metric": stepper.metric, "losses": log.losses if log else []}
                _save(fabric, file, learner.state() | curve)
                saved = time.monotonic()
            if stop:
                raise TrainingStopped
    _save(fabric, file, {"step": learner.step, "average": learner.average})
    return learner.average


class Stepper:
    """Takes steps: what does not change from one to the next is kept here."""

    def __init__(self, fabric: Fabric, task: Task, schedule: Schedule, learner: Learner, stage: Stage) -> None:
        self.fabric, self.task, self.schedule, self.learner, self.stage = fabric, task, schedule, learner, stage
        self.module, self.optimizer = fabric.setup(learner.network, learner.optimizer)
        self.loss, self.metric, self.rate = math.nan, math.nan, 0.0
        learner.averaged.to(fabric.device)

    def take(self, step: int, batch: Mapping[str, Any]) -> tuple[float, str]:
        """One step; gives its loss, and words for the progress bar."""
        schedule, learner = self.schedule, self.learner
        torch.manual_seed((schedule.seed * 1009 + self.stage.number) * 1_000_003 + step)  # for dropout
        self.rate = rate_at(step, self.stage.steps, schedule.warmup)
        for group in learner.optimizer.param_groups:
            group["lr"] = group["peak"] * self.rate
        tensors = {name: torch.from_numpy(values).to(self.fabric.device) for name, values in batch.items()}
        self.optimizer.zero_grad()
        outputs = self.module(*(tensors[name] for name in self.task.inputs))
        loss = self.task.loss(outputs, tensors)
        self.fabric.backward(loss)
        self.fabric.clip_gradients(self.module, self.optimizer, max_norm=schedule.grad_clip, error_if_nonfinite=False)
        self.optimizer.step()
        value = _mean_over_processes(self.fabric, float(loss.detach()))
        if not math.isfinite(value):
            raise HandlensError(
                f"{self.stage.name}: the loss is {value} at step {step}: lower the rate by --set learning_rate="
            )
        learner.averaged.update_parameters(learner.network)
        learner.step = step + 1
        metric = self.task.measure(outputs.detach(), tensors)
        early = math.isnan(self.loss)
        self.loss = value if early else 0.95 * self.loss + 0.05 * value
        self.metric = metric if early else 0.95 * self.metric + 0.05 * metric
        return (
            value,
            f"{self.stage.name}, loss {self.loss:.3f}, {self.task.metric} of training batches {self.metric:.3f}",
        )


class Log:
    """`log.jsonl`: a line for every few steps; lines of steps that are taken again are dropped."""

    def __init__(self, path: Path, stage: Stage, step: int) -> None:
        self.path, self.stage = path, stage
        kept = [line for line in read_log(path) if line["stage"] != stage.name or line["step"] <= step]
        write_text(path, "".join(json.dumps(line) + "\n" for line in kept))
        self.losses: list[float] = []  # since the last line; a checkpoint has them too
        self.begun, self.waited = time.perf_counter(), 0.0

    def add(self, step: int, loss: float, waiting: WaitTime, stepper: Stepper, validation: Validation) -> None:
        """Note a step; every LOG_STEPS-th writes a line about itself and those before."""
        self.losses.append(loss)
        if (step + 1) % LOG_STEPS and step + 1 != self.stage.steps:
            return
        now, count = time.perf_counter(), len(self.losses)
        line = {
            "stage": self.stage.name,
            "step": step + 1,
            "loss": round(math.fsum(self.losses) / count, 6),
            "metric": round(stepper.metric, 6),
            "rate": round(stepper.rate, 6),
            "seconds": round((now - self.begun) / count, 4),
            "waiting": round((waiting.seconds - self.waited) / (now - self.begun), 4),
        }
        if validation.is_due(step):
            line |= validation.measure(stepper.learner.averaged.module)
        self.losses, self.begun, self.waited = [], time.perf_counter(), waiting.seconds
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def read_log(path: Path) -> list[dict[str, Any]]:
    """Lines of a log; one that was cut off by a kill is left out."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines


def read_pace(run: Path) -> dict[str, float]:
    """Mean seconds of a step, and the share of them spent waiting for data, from the log."""
    lines = read_log(run / LOG)
    total = math.fsum(line["seconds"] for line in lines)
    waited = math.fsum(line["seconds"] * line["waiting"] for line in lines)
    return {
        "seconds_per_step": total / len(lines) if lines else 0.0,
        "waiting": waited / total if total else 0.0,
    }


def _refuse_apart(fabric: Fabric, step: int, run: Path) -> None:
    """All processes must have found the same checkpoint."""
    if _mean_over_processes(fabric, float(step)) != step:
        raise DataError(
            "the processes find different checkpoints: use a folder on a disk that all machines share", file=run
        )


def _save(fabric: Fabric, file: Path, state: Mapping[str, Any]) -> None:
    if fabric.is_global_zero:
        checkpoint.save(file, {**state, "precision": fabric.strategy.precision.state_dict()})
    fabric.barrier()


def _mean_over_processes(fabric: Fabric, value: float) -> float:
    if fabric.world_size == 1:
        return value
    mean: Any = fabric.all_reduce(torch.tensor(value, device=fabric.device))
    return float(mean)


def _any(fabric: Fabric, here: bool) -> bool:
    """Whether any process got a signal to stop: all must do so after the same step."""
    return _mean_over_processes(fabric, float(here)) > 0
