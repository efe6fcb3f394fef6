"""Which items a step learns from: a pure function of seed, stage and step, made ahead by a thread of its own."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
        """Examples of a step's whole batch: all members once, in an order by lot, before any comes again.

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
        """As many places of members as there are, in an order by lot."""
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


@dataclass(slots=True)
class Waiting:
    """Seconds spent waiting for batches."""

    seconds: float = 0.0


def made_ahead(
    batches: Batches, steps: Sequence[int], waiting: Waiting
) -> Generator[tuple[int, dict[str, Array]], None, None]:
    """Steps and their batches. Close the iterator to end the thread."""
    ready: queue.Queue[Any] = queue.Queue(AHEAD)
    ended = threading.Event()
    thread = threading.Thread(target=_fill, args=(batches, steps, ready, ended), daemon=True)
    thread.start()
    try:
        for step in steps:
            before = time.perf_counter()
            batch = ready.get()
            waiting.seconds += time.perf_counter() - before
            if isinstance(batch, BaseException):
                raise batch
            yield step, batch
    finally:
        ended.set()
        while thread.is_alive():  # it may be waiting for room
            try:
                ready.get(timeout=0.01)
            except queue.Empty:
                thread.join(0.01)


def _fill(batches: Batches, steps: Sequence[int], ready: queue.Queue[Any], ended: threading.Event) -> None:
    try:
        for step in steps:
            if ended.is_set():
                return
            ready.put(batches.make(step))
    except BaseException as error:  # raised where the batch is asked for
        ready.put(error)
