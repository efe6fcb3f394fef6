"""A whole training: plan, folds, predictions out of fold, decision, final network, export, card."""

from __future__ import annotations

import json
import math
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from torch import Tensor, nn

from handlens.errors import DataError, HandlensError
from handlens.io.files import write_text
from handlens.splits import fold_of
from handlens.training import checkpoint, device
from handlens.training.card import CARD, write_card
from handlens.training.export import export
from handlens.training.folds import judge, keep_prediction, prediction_file, read_predictions
from handlens.training.loop import LOG, read_log, stage_file, train_stage
from handlens.training.networks import lay_out
from handlens.training.plan import PLAN, Effort, Plan, Schedule, Stage, count_steps, read_plan, write_plan
from handlens.training.signals import Flag, TrainingStopped, heard
from handlens.training.speed import measure_speed
from handlens.training.task import Finished, Task
from handlens.types import Progress, no_progress

MODEL = "model.onnx"
WEIGHTS = "weights.pt"
"""The final network's weights, for torch; `solve` does not need them."""


@dataclass(frozen=True, slots=True)
class _Order:
    """What every process of a training is told."""

    make_task: Callable[[Progress], Task]
    schedule: Schedule
    effort: Effort
    run: Path
    command: str


def train(
    make_task: Callable[[Progress], Task], schedule: Schedule, effort: Effort, run: Path, progress: Progress
) -> Mapping[str, float]:
    """Train into a folder, or go on there; gives numbers of examples that were not learned from.

    Stopped by Ctrl-C or SIGTERM it leaves a model that can be used, and raises TrainingStopped. Where several
    processes work, `make_task` is called in each, so it must be picklable. It is told whom to tell how far it is.
    """
    if (numbers := _finished(run)) is not None:
        return numbers
    order = _Order(make_task, schedule, effort, run, f"handlens {shlex.join(sys.argv[1:])}")
    accelerator = device.choose_accelerator(schedule.accelerator)
    precision = device.choose_precision(schedule.precision, accelerator)
    fabric = device.make_fabric(accelerator, precision, effort.devices, effort.nodes)
    processes = effort.devices * effort.nodes
    if schedule.batch % processes:
        raise HandlensError(f"a batch of {schedule.batch} cannot be shared evenly by {processes} processes: set batch")
    if processes == 1:
        flag: Flag = threading.Event()
        with heard(flag):
            outcome = _work(fabric, order, flag, progress)
    else:
        import torch.multiprocessing as processing

        flag = processing.get_context("spawn").Event()
        with heard(flag):
            outcome = fabric.launch(partial(_work_beside, order=order, flag=flag))
    if isinstance(outcome, HandlensError):
        raise outcome
    if outcome is None:
        raise TrainingStopped
    return outcome or _finished(run) or {}  # another node's processes have no numbers of their own


def _work_beside(fabric: Fabric, order: _Order, flag: Flag) -> Mapping[str, float] | HandlensError | None:
    """What one of several processes does. The one that started them hears Ctrl-C for all."""
    import signal

    from handlens.progress import bar

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not fabric.is_global_zero:
        return _work(fabric, order, flag, no_progress)
    try:
        with bar("training") as progress:
            return _work(fabric, order, flag, progress)
    except HandlensError as error:  # it would not travel as an exception
        return error


def _work(fabric: Fabric, order: _Order, flag: Flag, progress: Progress) -> Mapping[str, float] | None:
    """The whole of it; None where it was stopped."""
    device.keep_memory()
    devices = order.effort.devices * order.effort.nodes
    threads = device.choose_threads(order.schedule.threads, fabric.device.type, devices)
    begun = time.monotonic()
    with device.repeatable(threads):
        task = order.make_task(progress)
        plan = _plan(fabric, order, task, threads, begun)
        try:
            final = _take_stages(fabric, task, plan, order.run, flag, progress)
        except TrainingStopped:
            if fabric.is_global_zero:
                _leave_usable(task, plan, order.run)
            fabric.barrier()
            return None
        numbers = _finish(task, plan, order.run, final) if fabric.is_global_zero else {}
        fabric.barrier()
    return numbers


# --- plan ---------------------------------------------------------------------------------------------------------


def _plan(fabric: Fabric, order: _Order, task: Task, threads: int, begun: float) -> Plan:
    """The plan that is there, where it is of the same training; otherwise a new one, measured and written."""
    plan = read_plan(order.run)
    if plan is None:
        plan = _make_plan(fabric, order, task, threads, begun)
        plan = fabric.broadcast(plan)
        if fabric.is_global_zero:
            write_plan(order.run, plan)
    else:
        _refuse_other(plan, order, task)
    fabric.barrier()
    return plan


def _make_plan(fabric: Fabric, order: _Order, task: Task, threads: int, begun: float) -> Plan:
    schedule, effort = order.schedule, order.effort
    try:
        folds = fold_of(task.groups, folds=effort.folds, seed=schedule.seed, strata=task.strata)
    except ValueError as error:
        raise HandlensError(str(error)) from None
    speed = measure_speed(fabric, task, schedule)
    seconds = effort.minutes * 60 - (time.monotonic() - begun)
    steps, final = count_steps(seconds, effort.folds, len(task.ids), speed)
    if schedule.steps:
        steps, final = schedule.steps, schedule.steps
    return Plan(
        challenge=task.challenge,
        metric=task.metric,
        fields=asdict(task.fields),
        schedule=schedule,
        minutes=effort.minutes,
        folds=effort.folds,
        devices=effort.devices,
        nodes=effort.nodes,
        threads=threads,
        precision=device.choose_precision(schedule.precision, fabric.device.type),
        accelerator=fabric.device.type,
        ids=task.ids,
        fold_of=tuple(folds),
        steps=steps,
        final_steps=final,
        speed=speed,
        versions=device.versions(),
        command=order.command,
    )


def _refuse_other(plan: Plan, order: _Order, task: Task) -> None:
    """Steps of two different trainings must not meet in one network."""
    effort = order.effort
    given = {"fields": asdict(task.fields), "schedule": asdict(order.schedule), "ids": task.ids, **asdict(effort)}
    planned = {name: getattr(plan, name) for name in given} | {"schedule": asdict(plan.schedule)}
    planned["fields"] = dict(plan.fields)
    other = [name for name in given if given[name] != planned[name]]
    if other:
        what = f"this run was begun with other {', '.join(other)}: name a new folder, or, if that is not what you just"
        raise DataError(f"{what} did, handlens train --resume goes on with the old ones", file=order.run)


# --- stages -------------------------------------------------------------------------------------------------------


def _take_stages(
    fabric: Fabric, task: Task, plan: Plan, run: Path, flag: Flag, progress: Progress
) -> dict[str, Tensor]:
    """Train and ask every fold, then train the final network; gives its averaged weights."""
    done, total = 0, plan.total()
    average: dict[str, Tensor] = {}
    for stage in plan.stages():
        average = train_stage(fabric, task, plan, stage, run, flag, partial(_tell, progress, done, total))
        done += stage.steps
        _ask(fabric, task, plan, stage, average, run, flag)
        done += plan.steps_to_ask(stage)
        progress(done, total, stage.name)
    return average


def _tell(progress: Progress, before: int, total: int, step: int, words: str) -> None:
    progress(before + step, total, words)


def _ask(
    fabric: Fabric, task: Task, plan: Plan, stage: Stage, average: Mapping[str, Tensor], run: Path, flag: Flag
) -> None:
    """Keep a prediction for every example of the stage's fold; the processes share them."""
    mine = stage.asked[fabric.global_rank :: fabric.world_size]
    left = [index for index in mine if not prediction_file(run, index).exists()]
    if left:
        network = _with_weights(task, average, plan).to(fabric.device)
        for index in left:
            if flag.is_set():
                break
            keep_prediction(run, index, task.predict(network, index))
    fabric.barrier()
    if flag.is_set() and any(not prediction_file(run, index).exists() for index in stage.asked):
        raise TrainingStopped


def _with_weights(task: Task, average: Mapping[str, Tensor], plan: Plan) -> nn.Module:
    network = task.make_network()
    network.load_state_dict(average)
    lay_out(network, channels_last=plan.speed.channels_last)
    return network.eval()


# --- results ------------------------------------------------------------------------------------------------------


def _finish(task: Task, plan: Plan, run: Path, final: Mapping[str, Tensor]) -> dict[str, float]:
    """Judge, export, describe; the plan that says `finished` is written last, then checkpoints are removed."""
    predictions = read_predictions(run, len(task.ids))
    judged = judge(task, plan, predictions)
    checkpoint.save(run / WEIGHTS, {name: value.cpu() for name, value in final.items()})
    pace = _pace(run)
    results: dict[str, Any] = {
        "finished": True,
        "decision": dict(judged.decision),
        "score": judged.score.value,
        "scores": {case.id: case.value for case in judged.score.cases},
        "fold_decisions": [dict(decision) for decision in judged.fold_decisions],
        **pace,
    }
    numbers = {
        f"{task.metric}, out of fold": judged.score.value,
        **{name: float(value) for name, value in judged.decision.items() if isinstance(value, int | float)},
        "steps of a fold": float(plan.steps),
        "seconds of a step": pace["seconds_per_step"],
        "share waiting for data": pace["waiting"],
    }
    shown = Finished(
        run / MODEL,
        judged.score,
        judged.decision,
        judged.fold_decisions,
        tuple(stage.asked for stage in plan.stages()[: plan.folds]),
        predictions,
        partial(_network_of, task, plan, run),
    )
    _leave(task, plan, run, final, results | {"numbers": numbers}, shown)
    shutil.rmtree(run / "stages", ignore_errors=True)
    return numbers


def _leave_usable(task: Task, plan: Plan, run: Path) -> None:
    """After a stop: the network with most steps so far, with the decision that can be made by now."""
    best: tuple[int, Any] = (0, None)
    for stage in plan.stages():
        state = checkpoint.load(stage_file(run, stage))
        if state is not None and state["step"] >= best[0]:
            best = state["step"], state["average"]
    if best[1] is None:
        return
    predictions = read_predictions(run, len(task.ids))
    decision = task.decide(tuple(predictions), predictions) if predictions else task.default
    results = {"finished": False, "decision": dict(decision), "score": None, "trained_steps": best[0], **_pace(run)}
    _leave(task, plan, run, best[1], results)


def _network_of(task: Task, plan: Plan, run: Path, fold: int) -> nn.Module:
    """The network that was trained without a fold."""
    file = stage_file(run, plan.stages()[fold])
    state = checkpoint.load(file)
    if state is None:
        raise DataError("this checkpoint is gone: train again in a new folder", file=file)
    return _with_weights(task, state["average"], plan)


def _leave(
    task: Task,
    plan: Plan,
    run: Path,
    weights: Mapping[str, Tensor],
    results: dict[str, Any],
    shown: Finished | None = None,
) -> None:
    facts = {"challenge": task.challenge, "decision": json.dumps(results["decision"])}
    network = _with_weights(task, {name: value.cpu() for name, value in weights.items()}, plan)
    if task.settle is not None:
        task.settle(network, results["decision"])
    results["difference"] = export(task.graph(network), run / MODEL, facts=facts)
    if task.finish is not None and shown is not None:
        results |= task.finish(shown)
    results["bytes"] = (run / MODEL).stat().st_size
    write_text(run / CARD, write_card(plan, results, task.card))
    write_plan(run, replace(plan, results=results))


def _pace(run: Path) -> dict[str, float]:
    """Mean seconds of a step, and the share of them spent waiting for data, from the log."""
    lines = read_log(run / LOG)
    total = math.fsum(line["seconds"] for line in lines)
    waited = math.fsum(line["seconds"] * line["waiting"] for line in lines)
    return {
        "seconds_per_step": total / len(lines) if lines else 0.0,
        "waiting": waited / total if total else 0.0,
    }


def _finished(run: Path) -> dict[str, float] | None:
    """Numbers of a run that is whole already."""
    try:
        page = json.loads((run / PLAN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(page, dict) or not page.get("finished"):
        return None
    shutil.rmtree(run / "stages", ignore_errors=True)
    numbers: dict[str, float] = page["numbers"]
    return numbers
