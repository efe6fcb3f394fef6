"""What a challenge tells the engine: a task is a value of plain functions, as a challenge is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from handlens.settings import Settings
from handlens.types import Case, Score

if TYPE_CHECKING:
    from torch import Tensor, nn

Random = np.random.Generator
Array = npt.NDArray[Any]
Decision = Any
"""How a network's output becomes an answer, such as a threshold: a `Settings`, chosen on out-of-fold predictions."""


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
    """What a task gets when all is trained: the exported file, what was decided, and the networks of the folds.

    `answers` are those that were scored, by id. `held_out` are the examples of each fold, or of the two
    parts that a single network has not seen; `network_of` loads the network that was trained without one.
    """

    model: Path
    score: Score
    decision: Decision
    fold_decisions: tuple[Decision, ...]
    held_out: tuple[tuple[int, ...], ...]
    predictions: Mapping[int, Array]
    answers: Mapping[str, Any]
    network_of: Callable[[int], nn.Module]


@dataclass(frozen=True, slots=True)
class Task:
    """A training that the engine can do: examples, network, loss, and what the challenge thinks of the answers.

    challenge     its name, for the plan
    metric        the name of the score
    ids, groups   one for each example; those of one group stay in one fold, which is even in each of the `strata`
    fields        the challenge's settings of the training; `--set` changes them, and the plan keeps them
    make_network  a new network with its first weights; torch's seed is set before
    make_item     one item of a batch: (a generator, the number of an example) to named arrays
    inputs        names of the arrays that the network is called with
    loss          of outputs and a batch of items, a mean over its items: so it is the same in one process and many
    measure       a quick number for the progress bar, of outputs and batch
    is_pretrained which parameters, by name, learn at the encoder's rate
    infer         opens the predictor that ships with an exported file of a network; gives a function from the number
                  of an example to what the network says about it, before the decision, as an array that is kept
    decide        the best decision for some examples: (numbers, predictions)
    answer        the challenge's answer for an example: (number, prediction, decision), as the predictor makes it
    score         the exact score of answers by id
    graph         what is exported of a trained network
    default       the decision where none can be made yet
    card          sentences for the model card
    weights       how often an example is drawn, compared with others; None: all alike
    warm_start    changes a new network, given the numbers of the examples that it may learn from
    settle        puts the decision into a network whose exported file answers with it
    answer_with   for such a network, in place of `answer`: opens the predictor with a settled file; gives a function
                  from the number of an example to its answer
    cases         the cases that examples were read from; recorded, so that a score on them can be told apart
    sources       the folders that examples come from, as `sources.Pool.described` lists them
    seen          numbers of the examples that the first weights were trained on: they are never held out, so that
                  nothing is scored by a network that saw it
    steps         of every network, where the task fixes them: 0 where the warm start is all there is to learn
    finish        looks at what was trained, may write the file smaller, and gives more for `plan.json`; its `lines`
                  go into the card
    """

    challenge: str
    metric: str
    ids: tuple[str, ...]
    groups: tuple[str, ...]
    fields: Settings
    make_network: Callable[[], nn.Module]
    make_item: Callable[[Random, int], Mapping[str, Array]]
    loss: Callable[[Tensor, Mapping[str, Tensor]], Tensor]
    measure: Callable[[Tensor, Mapping[str, Tensor]], float]
    infer: Callable[[Path], Callable[[int], Array]]
    decide: Callable[[Sequence[int], Mapping[int, Array]], Decision]
    answer: Callable[[int, Array, Decision], Any]
    score: Callable[[Mapping[str, Any]], Score]
    graph: Callable[[nn.Module], Graph]
    default: Decision
    inputs: tuple[str, ...] = ("image",)
    strata: tuple[str, ...] | None = None
    is_pretrained: Callable[[str], bool] = lambda _name: False
    card: Sequence[str] = field(default_factory=tuple)
    weights: tuple[float, ...] | None = None
    warm_start: Callable[[nn.Module, Sequence[int]], None] | None = None
    settle: Callable[[nn.Module, Decision], None] | None = None
    answer_with: Callable[[Path], Callable[[int], Any]] | None = None
    cases: Sequence[Case] = ()
    sources: tuple[Mapping[str, Any], ...] = ()
    seen: frozenset[int] = frozenset()
    steps: int | None = None
    finish: Callable[[Finished], Mapping[str, Any]] | None = None
