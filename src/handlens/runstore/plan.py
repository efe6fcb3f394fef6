"""`plan.json` of a run: everything that was decided before the first step, and the results beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from handlens.errors import DataError, ModelError
from handlens.io.files import write_text
from handlens.io.gate import is_there, read_text

PLAN = "plan.json"
RESULTS = "results.json"
"""Of a training without networks, which has no plan: the results by the same names."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A training's plan: a resumed run takes the same steps, however fast the machine is by then.

    fields        the challenge's own settings of the training, `schedule` those of the engine
    ids, fold_of  the examples and the fold of each
    steps         of each fold; `final_steps` of the network that learns from all
    speed         what was measured on this machine
    sources       the folders that were trained on: name, count, weight, licence
    results       added when they are known: decision, scores, licence, seconds
    """

    challenge: str
    metric: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    schedule: Mapping[str, Any] = field(default_factory=dict)
    minutes: float = 0.0
    folds: int = 0
    devices: int = 1
    nodes: int = 1
    threads: int = 1
    precision: str = ""
    accelerator: str = ""
    ids: tuple[str, ...] = ()
    fold_of: tuple[int, ...] = ()
    steps: int = 0
    final_steps: int = 0
    speed: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Mapping[str, Any], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    results: Mapping[str, Any] = field(default_factory=dict)


def write_plan(run: Path, plan: Plan) -> None:
    """Write `plan.json`; results stand beside the decisions, so `decision` is found at the top."""
    page = asdict(plan)
    results = page.pop("results")
    write_text(run / PLAN, json.dumps({**page, **results}, indent=1) + "\n")


def read_results(run: Path) -> Mapping[str, Any]:
    """What a training measured; nothing where it left no file about that."""
    if is_there(run / PLAN):
        return read_plan(run).results
    if not is_there(run / RESULTS):
        return {}
    try:
        page = json.loads(read_text(run / RESULTS))
    except (ValueError, RecursionError):
        page = None
    if not isinstance(page, dict):
        raise DataError("damaged: expected the results of a training; train again", file=run / RESULTS)
    return page


def read_plan(folder: Path) -> Plan:
    """The plan of a run or of a model folder; ModelError where there is none, or it is damaged."""
    path = folder / PLAN
    if not is_there(path):
        raise ModelError(f"{folder}: no {PLAN} in it: name a folder that `handlens train` wrote")
    try:
        page = json.loads(read_text(path))
    except DataError as error:
        raise ModelError(str(error)) from None
    except (ValueError, RecursionError):
        page = None
    if not isinstance(page, dict) or not isinstance(page.get("challenge"), str):
        raise ModelError(f"{path}: damaged, or not a plan of handlens: copy the folder again, or train again")
    known = {each.name for each in fields(Plan)} - {"results"}
    given = {name: value for name, value in page.items() if name in known}
    given |= {name: tuple(given[name]) for name in ("ids", "fold_of", "sources") if isinstance(given.get(name), list)}
    given = {name: value for name, value in given.items() if name != "fields" or isinstance(value, dict)}
    return Plan(**given, results={name: value for name, value in page.items() if name not in known})
