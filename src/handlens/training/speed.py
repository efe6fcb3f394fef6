"""How long a step and a prediction take here: measured, not guessed."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lightning_fabric import Fabric

from handlens.inference.model import MODEL
from handlens.training.batches import Batches
from handlens.training.export import export
from handlens.training.loop import Stepper, begin
from handlens.training.options import Schedule
from handlens.training.stages import Speed, Stage
from handlens.training.task import Task

STEPS = 4
"""Measured steps, after one that prepares; their median counts."""


def measure_speed(fabric: Fabric, task: Task, schedule: Schedule) -> Speed:
    """Seconds of a step in both memory layouts, of an export and of a prediction; the network is thrown away.

    Where the number of steps is given, nothing is planned, and exports and predictions are not measured.
    """
    seconds = {
        way: _time_steps(fabric, task, schedule, channels_last=way == "channels_last") for way in _ways(schedule)
    }
    seconds = fabric.broadcast(seconds)
    best = min(seconds, key=lambda way: seconds[way])
    better = best == "channels_last"
    if schedule.steps:
        return Speed(seconds[best], 0.0, better, max(seconds.values()))
    network = begin(task, schedule, 0, channels_last=better).network.eval()
    with tempfile.TemporaryDirectory() as folder:
        exported = _time(lambda: export(task.graph(network), Path(folder) / MODEL, facts={}))
        infer = task.infer(Path(folder) / MODEL)
        predict = _time(lambda: infer(0))
    predict, exported = fabric.broadcast((predict, exported))
    return Speed(seconds[best], predict / fabric.world_size, better, max(seconds.values()), exported)


def _ways(schedule: Schedule) -> tuple[str, ...]:
    return ("channels_last", "contiguous") if schedule.memory_format == "auto" else (schedule.memory_format,)


def _time_steps(fabric: Fabric, task: Task, schedule: Schedule, *, channels_last: bool) -> float:
    stage = Stage("measure", 0, tuple(range(len(task.ids))), (), 1000)
    stepper = Stepper(fabric, task, schedule, begin(task, schedule, 0, channels_last=channels_last), stage)
    share = (fabric.global_rank, fabric.world_size)
    batches = Batches(task.make_item, stage.members, schedule.batch, schedule.seed, 0, share)
    made = [batches.make(step) for step in range(STEPS + 1)]
    seconds = [_time(partial(stepper.take, step, batch)) for step, batch in enumerate(made)]
    return statistics.median(seconds[1:])


def _time(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
