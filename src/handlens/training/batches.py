"""Which examples a step uses: a pure function of seed, stage and step, prefetched by a background thread."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from handlens.inference.prefetch import WaitTime, prefetch
from handlens.training.task import Array, Random

AHEAD = 3
"""Batches that are made before they are asked for: enough to even out slow ones."""


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of one stage. `share` is (rank, processes): each process makes its own part of every batch."""

    make_item: Callable[[Random, int], Mapping[str, Array]]
    members: tuple[int, ...]
    size: int
    seed: int
    stage: int
    share: tuple[int, int] = (0, 1)
    weights: tuple[float, ...] | None = None

    def chosen(self, step: int) -> list[int]:
        """Examples of a step's whole batch: all members once, in an order at random, before any comes again.

        With `weights`, one for each example, a member comes as often as its weight says, but for rounding.
        """
        found = []
        orders: dict[int, npt.NDArray[np.int64]] = {}
        for place in range(step * self.size, (step + 1) * self.size):
            turn, index = divmod(place, len(self.members))
            if turn not in orders:
                orders[turn] = self._order(turn)
            found.append(self.members[int(orders[turn][index])])
        return found

    def _order(self, turn: int) -> npt.NDArray[np.int64]:
        """As many places of members as there are, in an order at random."""
        rng = np.random.default_rng([self.seed, 1, self.stage, turn])
        order = rng.permutation(len(self.members))
        if self.weights is None:
            return order
        reached = np.cumsum(np.array(self.weights)[np.array(self.members)[order]])
        marks = (np.arange(len(order)) + rng.random()) / len(order) * reached[-1]
        places = np.minimum(np.searchsorted(reached, marks, side="right"), len(order) - 1)
        drawn: npt.NDArray[np.int64] = rng.permutation(order[places])
        return drawn

    def make(self, step: int) -> dict[str, Array]:
        """This process's part of a batch; the same whatever was made before."""
        rank, processes = self.share
        mine = range(rank * self.size // processes, (rank + 1) * self.size // processes)
        chosen = self.chosen(step)
        items = [
            self.make_item(np.random.default_rng([self.seed, 2, self.stage, step, place]), chosen[place])
            for place in mine
        ]
        return {name: np.stack([item[name] for item in items]) for name in items[0]}

    def prefetch(self, steps: Sequence[int], waiting: WaitTime) -> Generator[tuple[int, dict[str, Array]], None, None]:
        """Steps and their batches, made by a thread. Close the iterator to end it."""
        return prefetch(lambda _ended: ((step, self.make(step)) for step in steps), room=AHEAD, waiting=waiting)
