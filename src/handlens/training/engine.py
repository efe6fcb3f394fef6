"""A whole training: plan, folds, predictions out of fold, decision, final network, export, card."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from torch import Tensor, nn

from handlens.errors import DataError, HandlensError
from handlens.inference.model import MODEL, write_trained_on
from handlens.io.files import write_text
from handlens.runstore.plan import PLAN, Plan, read_plan, write_plan
from handlens.settings import SettingsT, change, fields_of, unknown_field
from handlens.training import checkpoint, device
from handlens.training.card import CARD, write_card
from handlens.training.export import export
from handlens.training.folds import Predictions, evaluate, held_out_of, sweep
from handlens.training.loop import read_pace, stage_file, train_stage
from handlens.training.networks import set_memory_format
from handlens.training.options import Schedule, TrainSettings
from handlens.training.signals import Flag, TrainingStopped, heard
from handlens.training.speed import measure_speed
from handlens.training.stages import (
    NEVER,
    Stage,
    assign_folds,
    count_steps,
    parts_of,
    prediction_steps,
    speed_of,
    stage_of,
    stages_of,
    total_steps,
)
from handlens.training.task import Decision, Finished, Task
from handlens.types import Progress, no_progress

WEIGHTS = "weights.pt"
"""The final network's weights, for torch; `solve` does not need them."""


@dataclass(frozen=True, slots=True)
class _TrainingJob:
    """What every process of a training gets."""

    make_task: Callable[[Progress], Task]
    schedule: Schedule
    settings: TrainSettings
    run: Path
    command: str

    @property
    def processes(self) -> int:
        return self.settings.devices * self.settings.nodes


def split_fields(fields: SettingsT, schedule: Schedule, given: Mapping[str, str]) -> tuple[SettingsT, Schedule]:
    """The challenge's fields and the schedule with what `--set` names changed."""
    own = {field.path for field in fields_of(fields)} | {field.path.split(".")[-1] for field in fields_of(fields)}
    mine = {name: text for name, text in given.items() if name in own}
    others = {name: text for name, text in given.items() if name not in own}
    known = {field.path for field in fields_of(schedule)}
    if unknown := sorted(set(others) - known):
        names = sorted({field.path for field in fields_of(fields)} | known)
        raise HandlensError(unknown_field(unknown, names))
    return change(fields, mine), change(schedule, others)


def train(
    make_task: Callable[[Progress], Task],
    schedule: Schedule,
    settings: TrainSettings,
    run: Path,
    progress: Progress,
) -> Mapping[str, float]:
    """Train into a folder, or resume there; gives numbers that were measured out of fold.

    Stopped by Ctrl-C or SIGTERM it leaves a model that can be used, and raises TrainingStopped. Where several
    processes work, `make_task` is called in each, so it must be picklable; it reports its own progress.
    """
    if (numbers := _numbers_of(run)) is not None:
        shutil.rmtree(run / "stages", ignore_errors=True)  # killed after its last file, before it was marked finished
        return numbers
    job = _TrainingJob(make_task, schedule, settings, run, f"handlens {shlex.join(sys.argv[1:])}")
    accelerator = device.choose_accelerator(schedule.accelerator)
    precision = device.choose_precision(schedule.precision, accelerator)
    fabric = device.make_fabric(accelerator, precision, settings.devices, settings.nodes)
    if schedule.batch % job.processes:
        what = f"a batch of {schedule.batch} cannot be shared evenly by {job.processes} processes"
        raise HandlensError(f"{what}: set batch")
    if job.processes == 1:
        flag: Flag = threading.Event()
        with heard(flag):
            outcome = _work(fabric, job, flag, progress)
    else:
        import torch.multiprocessing as processing

        flag = processing.get_context("spawn").Event()
        with heard(flag):
            outcome = fabric.launch(partial(_work_beside, job=job, flag=flag))
    if isinstance(outcome, HandlensError):
        raise outcome
    if outcome is None:
        raise TrainingStopped
    return outcome or _numbers_of(run) or {}  # another node's processes have none of their own


def _numbers_of(run: Path) -> dict[str, float] | None:
    """What a training gave whose plan says that all its files are written; None where it does not."""
    results = read_plan(run).results if (run / PLAN).exists() else {}
    return dict(results["numbers"]) if results.get("finished") else None


def _work_beside(fabric: Fabric, job: _TrainingJob, flag: Flag) -> Mapping[str, float] | HandlensError | None:
    """What one of several processes does. The one that started them hears Ctrl-C for all."""
    import signal

    from handlens.progress import bar

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not fabric.is_global_zero:
        return _work(fabric, job, flag, no_progress)
    try:
        with bar("training") as progress:
            return _work(fabric, job, flag, progress)
    except HandlensError as error:  # it would not travel as an exception
        return error


def _work(fabric: Fabric, job: _TrainingJob, flag: Flag, progress: Progress) -> Mapping[str, float] | None:
    """The whole of it; None where it was stopped."""
    device.keep_memory()
    threads = device.choose_threads(job.schedule.threads, fabric.device.type, job.processes)
    begun = time.monotonic()
    with device.repeatable(threads):
        task = job.make_task(progress)
        plan = _plan(fabric, job, task, threads, begun)
        try:
            final = _take_stages(fabric, task, plan, job, flag, progress)
        except TrainingStopped:
            if fabric.is_global_zero:
                _leave_usable(task, plan, job)
            fabric.barrier()
            return None
        numbers = _finish(task, plan, job, final) if fabric.is_global_zero else {}
        fabric.barrier()
    return numbers


# --- plan ---------------------------------------------------------------------------------------------------------


def _plan(fabric: Fabric, job: _TrainingJob, task: Task, threads: int, begun: float) -> Plan:
    """The plan that is there, of the same training; otherwise a new one, measured and written."""
    if (job.run / PLAN).exists():
        plan = read_plan(job.run)
        if plan.ids != task.ids or not plan.speed:
            raise DataError("damaged, or of another training: train again in a new folder", file=job.run / PLAN)
    else:
        plan = fabric.broadcast(_make_plan(fabric, job, task, threads, begun))
        if fabric.is_global_zero:
            write_plan(job.run, plan)
    fabric.barrier()
    return plan


def _make_plan(fabric: Fabric, job: _TrainingJob, task: Task, threads: int, begun: float) -> Plan:
    schedule, settings = job.schedule, job.settings
    try:
        folds = assign_folds(task, settings.folds, schedule.seed)
    except ValueError as error:
        raise HandlensError(str(error)) from None
    speed = measure_speed(fabric, task, schedule)
    seconds = settings.minutes * 60 - (time.monotonic() - begun)
    parts = len(set(folds) - {NEVER})
    exports = settings.folds + (parts if task.answer_with else 0) + 1  # a settled network is exported once more
    held_out = sum(fold != NEVER for fold in folds)
    steps, final = count_steps(seconds, settings.folds, held_out, speed, exports=exports)
    if task.steps is not None or schedule.steps:
        final = schedule.steps if task.steps is None else task.steps
        steps = 0 if settings.folds == 1 else final
    return Plan(
        challenge=task.challenge,
        metric=task.metric,
        fields=task.fields.plain(),
        schedule=schedule.plain(),
        minutes=settings.minutes,
        folds=settings.folds,
        devices=settings.devices,
        nodes=settings.nodes,
        threads=threads,
        precision=device.choose_precision(schedule.precision, fabric.device.type),
        accelerator=fabric.device.type,
        ids=task.ids,
        fold_of=tuple(folds),
        steps=steps,
        final_steps=final,
        speed=speed.plain(),
        sources=task.sources,
        versions=device.versions(),
        command=job.command,
    )


# --- stages -------------------------------------------------------------------------------------------------------


def _take_stages(
    fabric: Fabric, task: Task, plan: Plan, job: _TrainingJob, flag: Flag, progress: Progress
) -> dict[str, Tensor]:
    """Train every fold and predict what it held out, then train the final network; gives its averaged weights."""
    done, total = 0, total_steps(plan)
    average: dict[str, Tensor] = {}
    for stage in stages_of(plan):
        report = partial(_report, progress, done, total)
        average = train_stage(fabric, task, plan, job.schedule, stage, job.run, flag, report)
        done += stage.steps
        _predict_held_out(fabric, task, plan, stage, average, job.run, flag)
        done += prediction_steps(plan, stage)
        progress(done, total, stage.name)
    return average


def _report(progress: Progress, before: int, total: int, step: int, words: str) -> None:
    progress(before + step, total, words)


def _predict_held_out(
    fabric: Fabric, task: Task, plan: Plan, stage: Stage, average: Mapping[str, Tensor], run: Path, flag: Flag
) -> None:
    """Keep a prediction for every example of the stage's fold, made by the exported network; processes share them."""
    predictions = Predictions(run, len(task.ids))
    if all(index in predictions for index in stage.held_out):
        fabric.barrier()
        return
    file = stage_file(run, stage).with_suffix(".onnx")
    if fabric.is_global_zero and not file.is_file():
        _export(task, plan, average, file)
    fabric.barrier()
    infer = task.infer(file)
    for index in stage.held_out[fabric.global_rank :: fabric.world_size]:
        if flag.is_set():
            break
        if index not in predictions:
            predictions.save(index, infer(index))
    fabric.barrier()
    if flag.is_set() and any(index not in predictions for index in stage.held_out):
        raise TrainingStopped


def _export(
    task: Task, plan: Plan, weights: Mapping[str, Tensor], path: Path, decision: Decision | None = None
) -> Path:
    """A network as the file that a predictor opens, with a decision inside where it takes one."""
    network = _with_weights(task, {name: value.cpu() for name, value in weights.items()}, plan)
    if task.settle is not None and decision is not None:
        task.settle(network, decision)
    export(task.graph(network), path, facts={})
    return path


def _with_weights(task: Task, average: Mapping[str, Tensor], plan: Plan) -> nn.Module:
    network = task.make_network()
    network.load_state_dict(average)
    set_memory_format(network, channels_last=speed_of(plan).channels_last)
    return network.eval()


# --- results ------------------------------------------------------------------------------------------------------


def _finish(task: Task, plan: Plan, job: _TrainingJob, final: Mapping[str, Tensor]) -> dict[str, float]:
    """Evaluate, export, describe; the plan that says `finished` is written last, then checkpoints are removed."""
    run = job.run
    predictions = Predictions(run, len(task.ids))
    with tempfile.TemporaryDirectory() as folder:
        found = evaluate(task, plan, predictions, partial(_answer_settled, task, plan, run, Path(folder)))
    checkpoint.save(run / WEIGHTS, {name: value.cpu() for name, value in final.items()})
    pace = read_pace(run)
    results: dict[str, Any] = {
        "finished": True,
        "decision": found.decision.plain(),
        "score": found.score.value,
        "scores": {case.id: case.value for case in found.score.cases},
        "fold_decisions": [decision.plain() for decision in found.fold_decisions],
        "sweep": sweep(task, predictions, found.decision),
        **pace,
    }
    decided = found.decision.plain().items()
    numbers = {
        f"{task.metric}, out of fold": found.score.value,
        **{name: value for name, value in decided if isinstance(value, int | float)},
        "steps of a fold": plan.steps or plan.final_steps,
        "seconds of a step": pace["seconds_per_step"],
        "share waiting for data": pace["waiting"],
    }
    shown = Finished(
        run / MODEL,
        found.score,
        found.decision,
        found.fold_decisions,
        tuple(held_out_of(plan, part) for part in parts_of(plan)),
        predictions,
        found.answers,
        partial(_network_of, task, plan, run),
    )
    _leave(task, plan, job, final, results | {"numbers": numbers}, found.decision, shown)
    shutil.rmtree(run / "stages", ignore_errors=True)
    return numbers


def _answer_settled(
    task: Task, plan: Plan, run: Path, folder: Path, part: int, decision: Decision
) -> Callable[[int], Any]:
    """What the network that has not seen a part answers, exported with the decision inside."""
    if task.answer_with is None:
        raise ValueError(f"{task.challenge} applies its decision to predictions")
    state = _load_stage(run, stage_of(plan, part))
    return task.answer_with(_export(task, plan, state["average"], folder / f"part{part}.onnx", decision))


def _leave_usable(task: Task, plan: Plan, job: _TrainingJob) -> None:
    """After a stop: the network with most steps so far, with the decision that can be made by now."""
    best: tuple[int, Any] = (0, None)
    for stage in stages_of(plan):
        state = checkpoint.load(stage_file(job.run, stage))
        if state is not None and state["step"] >= best[0]:
            best = state["step"], state["average"]
    if best[1] is None:
        return
    predictions = Predictions(job.run, len(task.ids))
    decision = task.decide(tuple(predictions), predictions) if len(predictions) else task.default
    results = {"finished": False, "decision": decision.plain(), "score": None, "trained_steps": best[0]}
    _leave(task, plan, job, best[1], results | read_pace(job.run), decision)


def _load_stage(run: Path, stage: Stage) -> dict[str, Any]:
    file = stage_file(run, stage)
    state = checkpoint.load(file)
    if state is None:
        raise DataError("this checkpoint is gone: train again in a new folder", file=file)
    return state


def _network_of(task: Task, plan: Plan, run: Path, part: int) -> nn.Module:
    """The network that was trained without a part."""
    return _with_weights(task, _load_stage(run, stage_of(plan, part))["average"], plan)


def _leave(
    task: Task,
    plan: Plan,
    job: _TrainingJob,
    weights: Mapping[str, Tensor],
    results: dict[str, Any],
    decision: Decision,
    shown: Finished | None = None,
) -> None:
    """Write the model folder: ONNX file, card, plan, and what was trained on."""
    run = job.run
    facts = {"challenge": task.challenge, "decision": json.dumps(results["decision"])}
    network = _with_weights(task, {name: value.cpu() for name, value in weights.items()}, plan)
    if task.settle is not None:
        task.settle(network, decision)
    results["difference"] = export(task.graph(network), run / MODEL, facts=facts)
    if task.finish is not None and shown is not None:
        results |= task.finish(shown)
    results |= {"bytes": (run / MODEL).stat().st_size, "licence": job.schedule.licence}
    write_trained_on(run, task.cases)
    write_text(run / CARD, write_card(plan, job.schedule, results, task.card))
    write_plan(run, replace(plan, results=results))
