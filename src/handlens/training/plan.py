"""Everything that was decided before the first step, kept in `plan.json`: a resumed run takes the same steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from handlens.errors import DataError, HandlensError
from handlens.io.files import write_text
from handlens.training.task import change, check_ranges
from handlens.types import Settings

PLAN = "plan.json"
LEAST_STEPS = 20
"""Steps of a stage below which nothing is learned, whatever the clock says."""

LAYOUTS = ("auto", "pixels", "channels")
"""How weights and features may lie in memory: measured, pixel by pixel, or channel by channel."""

SPARE = 0.97
"""Share of the minutes that is planned: steps are not all equally long."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a network is trained; `--set` changes each field.

    batch         items of a step, over all processes
    rate          of the parts that begin by lot; those learned before have `pretrained_rate` times that
    decay         of weights, by AdamW; biases and norms have none
    warm_up       share of the steps in which the rate rises; then it falls along a cosine
    average       weights that are used are a mean over about 1 / (1 - average) steps
    clip          longest gradient
    steps         of each fold; 0: as many as the minutes allow
    seed          of everything
    threads       of torch on a CPU; 0: as many as there are cores
    precision     such as 32-true or bf16-mixed; auto: what the device is fast at, 32-true on a CPU
    accelerator   cpu, cuda or auto
    layout        of weights in memory: pixels or channels; auto: what is faster here, which changes the last bits
    note          a sentence for the model card, such as the licence of the data
    """

    batch: int = 8
    rate: float = 0.002
    pretrained_rate: float = 0.1
    decay: float = 0.01
    warm_up: float = 0.05
    average: float = 0.99
    clip: float = 5.0
    steps: int = 0
    seed: int = 0
    threads: int = 0
    precision: str = "auto"
    accelerator: str = "auto"
    layout: str = "auto"
    note: str = ""

    def __post_init__(self) -> None:
        ranges = {"batch": (1, 1e6), "rate": (1e-9, 10), "pretrained_rate": (0, 1), "decay": (0, 10)}
        ranges |= {"warm_up": (0, 0.9), "average": (0, 0.99999), "clip": (1e-6, 1e6), "steps": (0, 1e9)}
        ranges |= {"seed": (0, 2**31), "threads": (0, 4096)}
        if self.layout not in LAYOUTS:
            raise HandlensError(f"layout is {self.layout!r}; expected one of {', '.join(LAYOUTS)}")
        check_ranges(self, ranges)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a training may take: minutes, folds, processes."""

    minutes: float = 60.0
    folds: int = 5
    devices: int = 1
    nodes: int = 1

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise HandlensError("1 fold: at least 2 are needed, so that every example is asked of another network")


def as_told(fields: Any, schedule: Schedule, settings: Settings) -> tuple[Any, Schedule, Effort]:
    """Fields and schedule as `--set` changes them, and the effort, of what `handlens train` was told."""
    fields, schedule = change(fields, settings["set"], other=schedule)
    effort = Effort(settings["minutes"], settings["folds"], settings["devices"], settings["nodes"])
    return fields, schedule, effort


@dataclass(frozen=True, slots=True)
class Speed:
    """What was measured on this machine: seconds of a step, laid out both ways, and of a prediction."""

    step: float
    predict: float
    channels_last: bool
    other_step: float = 0.0


@dataclass(frozen=True, slots=True)
class Stage:
    """One network to train: on the examples outside a fold, or on all of them."""

    name: str
    number: int
    members: tuple[int, ...]
    asked: tuple[int, ...]
    steps: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions; `results` are added when they are known: decision, scores, seconds."""

    challenge: str
    metric: str
    fields: Mapping[str, Any]
    schedule: Schedule
    minutes: float
    folds: int
    devices: int
    nodes: int
    threads: int
    precision: str
    accelerator: str
    ids: tuple[str, ...]
    fold_of: tuple[int, ...]
    steps: int
    final_steps: int
    speed: Speed
    versions: Mapping[str, str]
    command: str = ""
    results: Mapping[str, Any] = field(default_factory=dict)

    def stages(self) -> list[Stage]:
        """The folds, then the final network, which learns from all."""
        everyone = tuple(range(len(self.ids)))
        folds = [
            Stage(
                f"fold{fold}",
                fold,
                tuple(index for index in everyone if self.fold_of[index] != fold),
                tuple(index for index in everyone if self.fold_of[index] == fold),
                self.steps,
            )
            for fold in range(self.folds)
        ]
        return [*folds, Stage("final", self.folds, everyone, (), self.final_steps)]

    def steps_to_ask(self, stage: Stage) -> int:
        """How many steps take as long as asking a fold's examples: the progress bar counts in steps."""
        return round(len(stage.asked) * self.speed.predict / self.speed.step)

    def total(self) -> int:
        """Length of the whole run, in steps."""
        return sum(stage.steps + self.steps_to_ask(stage) for stage in self.stages())


def count_steps(seconds: float, folds: int, examples: int, speed: Speed) -> tuple[int, int]:
    """Steps of each fold and of the final network that fit the seconds, predictions included.

    The final network has more examples, and as many more steps.
    """
    more = folds / (folds - 1)
    left = seconds * SPARE - examples * speed.predict
    steps = max(LEAST_STEPS, int(left / speed.step / (folds + more)))
    return steps, round(steps * more)


def write_plan(run: Path, plan: Plan) -> None:
    """Write `plan.json`; results stand beside the decisions, so `decision` is found at the top."""
    page = asdict(plan)
    results = page.pop("results")
    write_text(run / PLAN, json.dumps({**page, **results}, indent=1) + "\n")


def read_plan(run: Path) -> Plan | None:
    """The plan of a run that was begun; None where there is none. Results are not read: they are made again."""
    try:
        page = json.loads((run / PLAN).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        page = {}
    try:
        given = {name: page[name] for name in Plan.__dataclass_fields__ if name != "results"}
        given |= {"schedule": Schedule(**given["schedule"]), "speed": Speed(**given["speed"])}
        given |= {"ids": tuple(given["ids"]), "fold_of": tuple(given["fold_of"])}
        return Plan(**given)
    except (KeyError, TypeError, HandlensError):
        raise DataError("damaged, or of another version: train again in a new folder", file=run / PLAN) from None
