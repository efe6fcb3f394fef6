"""What a challenge tells the engine: a task is a value of plain functions, as a challenge is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.errors import HandlensError
from handlens.types import Answer, Score

if TYPE_CHECKING:
    from torch import Tensor, nn

Random = np.random.Generator
Array = npt.NDArray[Any]
Decision = Mapping[str, Any]
"""How probabilities become an answer, such as a threshold: JSON, chosen on predictions out of fold."""


@dataclass(frozen=True, slots=True)
class Graph:
    """What is exported: a module, its inputs and output by name, and an example of each input.

    `dynamic` gives for each input the axes of any size and what their size is a multiple of.
    """

    module: nn.Module
    inputs: Mapping[str, Array]
    output: str
    dynamic: Mapping[str, Mapping[int, tuple[str, int]]]


@dataclass(frozen=True, slots=True)
class Finished:
    """What a task is shown when all is trained: the exported file, what was decided, and the networks of the folds.

    `asked` are the examples of each fold; `network_of` loads what was trained without one.
    """

    model: Path
    score: Score
    decision: Decision
    fold_decisions: tuple[Decision, ...]
    asked: tuple[tuple[int, ...], ...]
    predictions: Mapping[int, Array]
    network_of: Callable[[int], nn.Module]


@dataclass(frozen=True, slots=True)
class Task:
    """A training that the engine can do: examples, network, loss, and what the challenge thinks of the answers.

    challenge     its name, for the plan
    metric        the name of the score
    ids, groups   one for each example; those of one group stay in one fold, which is even in each of the `strata`
    fields        a frozen dataclass; `--set` changes it, and the plan keeps it
    make_network  a new network with its first weights; torch's seed is set before
    make_item     one item of a batch: (a generator, the number of an example) to named arrays
    inputs        names of the arrays that the network is called with
    loss          of outputs and a batch of items, a mean over its items: so it is the same in one process and many
    measure       a quick number for the progress bar, of outputs and batch
    is_pretrained which parameters, by name, learn at the encoder's rate
    predict       a trained network's prediction for an example, as an array that is kept
    decide        the best decision for some examples: (numbers, predictions)
    answer        the challenge's answer for an example: (number, prediction, decision)
    score         the exact score of answers by id
    graph         what is exported of a trained network
    default       the decision where none can be made yet
    card          sentences for the model card
    weights       how often an example is drawn, compared with others; None: all alike
    warm_start    changes a new network, given the numbers of the examples that it may learn from
    settle        puts the decision into a network whose exported file answers with it
    finish        looks at what was trained, may write the file smaller, and gives more for `plan.json`; its `lines`
                  go into the card
    """

    challenge: str
    metric: str
    ids: tuple[str, ...]
    groups: tuple[str, ...]
    fields: Any
    make_network: Callable[[], nn.Module]
    make_item: Callable[[Random, int], Mapping[str, Array]]
    loss: Callable[[Tensor, Mapping[str, Tensor]], Tensor]
    measure: Callable[[Tensor, Mapping[str, Tensor]], float]
    predict: Callable[[nn.Module, int], Array]
    decide: Callable[[Sequence[int], Mapping[int, Array]], Decision]
    answer: Callable[[int, Array, Decision], Answer]
    score: Callable[[Mapping[str, Answer]], Score]
    graph: Callable[[nn.Module], Graph]
    default: Decision
    inputs: tuple[str, ...] = ("image",)
    strata: tuple[str, ...] | None = None
    is_pretrained: Callable[[str], bool] = lambda _name: False
    card: Sequence[str] = field(default_factory=tuple)
    weights: tuple[float, ...] | None = None
    warm_start: Callable[[nn.Module, Sequence[int]], None] | None = None
    settle: Callable[[nn.Module, Decision], None] | None = None
    finish: Callable[[Finished], Mapping[str, Any]] | None = None


def change(settings: Any, given: Mapping[str, str], *, other: Any = None) -> tuple[Any, Any]:
    """A frozen dataclass with the fields that `--set` names changed; those that it lacks may be of `other`."""
    for name, text in given.items():
        if name in (known := _kinds(settings)):
            settings = replace(settings, **{name: _parse(name, text, known[name])})
        elif other is not None and name in (known := _kinds(other)):
            other = replace(other, **{name: _parse(name, text, known[name])})
        else:
            names = sorted({**_kinds(settings), **(_kinds(other) if other is not None else {})})
            raise HandlensError(f"there is no field {name}; there are {', '.join(names)}")
    return settings, other


def check_ranges(settings: Any, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Refuse a field that is below the least or above the most of its range."""
    for name, (least, most) in ranges.items():
        if not least <= getattr(settings, name) <= most:
            raise HandlensError(f"{name} is {getattr(settings, name)}; expected {least:g} to {most:g}")


def _kinds(settings: Any) -> dict[str, type]:
    return {each.name: type(getattr(settings, each.name)) for each in fields(settings)}


def _parse(name: str, text: str, kind: type) -> Any:
    """A field's text as its kind; what is out of its range is the field's own to say."""
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise HandlensError(f"{name} is {text!r}; expected true or false")
        return text.lower() == "true"
    try:
        return kind(text)
    except ValueError:
        noun = {int: "a whole number", float: "a number"}.get(kind, kind.__name__)
        raise HandlensError(f"{name} is {text!r}; expected {noun}") from None
