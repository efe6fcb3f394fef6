"""A training small enough to be killed many times.

As a program it trains for every line of its input, JSON of [DATA, RUN, POINT], in a process of its own that dies at POINT,
and answers with that process's status and what it said. The processes are forks: importing torch takes longer than this
training.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
import traced_graphs
from torch import nn

from handlens.challenges.cells.options import CellsSettings, CellsTraining
from handlens.challenges.cells.training import make_task
from handlens.inference.model import MODEL
from handlens.runstore.plan import write_plan
from handlens.training import batches, checkpoint, engine, folds, loop
from handlens.training.networks import Prepare
from handlens.training.norm import SharedBatchNorm
from handlens.training.options import Schedule, TrainSettings
from handlens.types import no_progress

SCHEDULE = Schedule(
    batch=4, learning_rate=0.02, steps=6, threads=1, accelerator="cpu", memory_format="channels_last"
)  # two runs may measure differently
FIELDS = CellsTraining(crop=32, turns=1, weights="scratch")
TWO_FOLDS = TrainSettings(folds=2)
traced_graphs.share()


class Tiny(nn.Module):
    """Two convolutions, with all that makes a step depend on more than its weights."""

    def __init__(self, dropout):
        super().__init__()
        self.prepare = Prepare(127.0, 128.0)
        self.first = nn.Conv2d(3, 6, 3, padding=1, bias=False)  # before a norm a bias moves by rounding alone
        self.norm = SharedBatchNorm(6)
        self.dropout = nn.Dropout2d(dropout)
        self.last = nn.Conv2d(6, 1, 3, padding=1)

    def forward(self, image):
        features = torch.relu(self.norm(self.first(self.prepare(image))))
        return self.last(self.dropout(features))[:, 0]


def make_tiny_task(folder, dropout=0.2, progress=no_progress, *, fields=FIELDS):
    task = make_task(folder, fields, CellsSettings(), progress)
    return replace(task, make_network=partial(Tiny, dropout), is_pretrained=lambda name: name.startswith("first"))


def train(folder, run, *, settings=TWO_FOLDS, schedule=SCHEDULE, dropout=0.2, progress=no_progress):
    return engine.train(partial(make_tiny_task, folder, dropout), schedule, settings, run, progress)


def train_challenge(folder, run, settings, progress):
    """As `Challenge.train`: what `--set` names changes the schedule."""
    _, schedule = engine.split_fields(FIELDS, SCHEDULE, settings.set)
    return train(folder, run, settings=settings, schedule=schedule, progress=progress)


class CaughtFiles:
    """A task that keeps the exported files of its folds.

    file_of   by the number of an example: the file that said what was scored, or what a decision was applied to
    answers   what was scored, by id
    """

    def __init__(self, task, folder):
        self.task, self.folder, self.file_of, self.answers = task, folder, {}, {}
        folder.mkdir()

    def make_task(self, _progress=no_progress):
        settled = partial(self._catch, self.task.answer_with) if self.task.answer_with else None
        return replace(
            self.task, infer=partial(self._catch, self.task.infer), answer_with=settled, score=self._catch_answers
        )

    def write_model(self, index, plan, folder):
        """A model folder with the file that an example was predicted with, and the decision of its fold."""
        folder.mkdir()
        shutil.copyfile(self.file_of[index], folder / MODEL)
        decision = plan.results["fold_decisions"][plan.fold_of[index]]
        write_plan(folder, replace(plan, results={"decision": decision}))
        return folder

    def _catch(self, open_file, model):
        copy = self.folder / f"{len(list(self.folder.iterdir()))}.onnx"
        shutil.copyfile(model, copy)
        ask = open_file(model)

        def answer(index):
            self.file_of[index] = copy
            return ask(index)

        return answer

    def _catch_answers(self, answers):
        self.answers = answers | self.answers  # the first: later ones are of the sweep over thresholds
        return self.task.score(answers)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(point, run, saves=3):
    """Arrange that this process is killed there."""

    def calls(function, number, *, before):
        count = [0]

        def counted(*args, **options):
            count[0] += 1
            if count[0] == number and before:
                die()
            result = function(*args, **options)
            if count[0] == number:
                die()
            return result

        return counted

    loop.SAVE_SECONDS = 0.0
    if point == "planned":
        engine.train_stage = calls(engine.train_stage, 1, before=True)
    elif point == "saving":  # the temporary file is there, its name not yet changed
        checkpoint.torch.save = calls(torch.save, saves, before=False)
    elif point == "step":
        loop.Stepper.take = calls(
            loop.Stepper.take, 14, before=False
        )  # the first ten are measured where there is no plan
    elif point == "batch":
        batches.Batches.make = calls(batches.Batches.make, 5, before=True)
    elif point == "predicting":
        folds.Predictions.save = calls(folds.Predictions.save, 1, before=False)
    elif point == "exported":
        export = engine.export

        def exporting(graph, path, *, facts):
            result = export(graph, path, facts=facts)
            if path.parent == run:  # the file that ships, not that of a fold
                die()
            return result

        engine.export = exporting
    elif point == "left":  # all is written, checkpoints are still there
        engine._leave = calls(engine._leave, 1, before=False)
    elif point == "stop":
        take = loop.Stepper.take

        def stopping(self, step, batch):
            if self.stage.name == "fold1" and step == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            return take(self, step, batch)

        loop.Stepper.take = stopping


def train_in_a_fork(folder, run, point):
    """The status of the process and what it wrote to stderr."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if not child:
            os.dup2(said.fileno(), 2)
            status = 1
            try:
                die_at(point, run)
                train(folder, run)
                status = 0
            except BaseException:
                traceback.print_exc()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        return status, said.read().decode()


if __name__ == "__main__":
    for line in sys.stdin:
        *folders, moment = json.loads(line)
        print(json.dumps(train_in_a_fork(*map(Path, folders), moment)), flush=True)
