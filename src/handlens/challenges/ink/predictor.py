"""How ink is found: the shipped network, or one that `handlens train ink` made, over the flattened sheet.

Where no model lies in the package, the plain solver answers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from handlens.challenges.ink.baseline import PooledStatistics
from handlens.challenges.ink.checkpoint import FOLDER, Bands
from handlens.challenges.ink.maps import Decision, find_ink, write_map
from handlens.challenges.ink.predict import STRIDE, TILING, Effort, Map, predict
from handlens.challenges.ink.window import Bytes, Surface, Window, find_surface, open_fragment
from handlens.errors import ModelError
from handlens.inference.executors import usable_cores
from handlens.inference.session import MODEL, PLAN, Session, check_probabilities, is_model, read_plan
from handlens.masks.rle import Rle
from handlens.runstore.store import fingerprint
from handlens.types import Case, Context, Model, Progress, no_progress

SHIPPED = Path(__file__).with_name("model")
"""The model that comes with the package, trained on made-up fragments alone."""

MOST_TURNS = 4


@dataclass(frozen=True, slots=True)
class Network:
    """The model: a window (layers, H, W) to probabilities of squares. It has one thread: tiles are shared by many."""

    session: Session
    layers: int

    def __call__(self, window: Bytes, /) -> Map:
        (answer,) = self.session(window=window[None])
        expected = (1, window.shape[1] // STRIDE, window.shape[2] // STRIDE)
        if answer.shape != expected:
            raise ModelError(f"{self.session.path}: answers {answer.shape}; expected {expected}: train again")
        check_probabilities(answer, self.session.path)
        return np.asarray(answer[0], np.float32)


def open_network(folder: Path, window: Window) -> Network:
    """`model.onnx`: `window` uint8 (N, layers, H, W) to `probability` float32 (N, H / 4, W / 4)."""
    session = Session(folder / MODEL, threads=1)
    session.demand({"window": ("tensor(uint8)", 4)}, {"probability": ("tensor(float)", 3)})
    return Network(session, window.layers)


@dataclass(frozen=True, slots=True)
class Looking:
    """Answers a fragment. Where `out` is a folder, finished lines are kept there until the answer is there.

    A copy that is pickled for another process has one thread and tells nobody.
    """

    network: Network
    window: Window
    decision: Decision
    effort: Effort
    key: str
    out: Path | None = None
    form: str | None = None
    tell: Progress = no_progress

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        plain = replace(self, tell=no_progress, effort=Effort(self.effort.turns, 1, self.effort.rows, _tell_nobody))
        return Looking, tuple(getattr(plain, each.name) for each in fields(plain))

    def __call__(self, case: Case, /) -> Rle:
        bands = self._bands(case)
        surface = self._find_surface(case, bands)
        effort = replace(self.effort, tell=lambda done, total: self.tell(done, total, f"fragment {case.id}"))
        coarse = predict(surface, self.network, effort, bands)
        if self.form and self.out is not None:
            write_map(self.out, case.id, self.form, coarse, surface.mask)
        ink = find_ink(coarse, surface.mask, self.decision)
        if bands is not None:
            bands.remove()
        return ink

    def _find_surface(self, case: Case, bands: Bands | None) -> Surface:
        stack, mask = open_fragment(case.path, cache=bands.folder if bands else None)
        known = bands.load_sheet() if bands else None
        if known is not None:
            return Surface(stack, mask, known, self.window)
        surface = find_surface(stack, mask, self.window)
        if bands is not None:
            bands.save_sheet(surface.depths)
        return surface

    def _bands(self, case: Case) -> Bands | None:
        if self.out is None:
            return None
        words = [self.key, str(self.effort.turns), repr(self.window), repr(TILING)]
        return Bands(self.out / FOLDER / case.id, fingerprint(words, case.path, without=self.out)).open()


def _tell_nobody(_done: int, _total: int) -> None:
    """What a copy in another process does."""


@dataclass(frozen=True, slots=True)
class LearnedRecipe:
    """A trained network over the flattened sheet.

    turns      quarter turns of each tile whose answers are averaged; None for as many as the model was judged with
    threads    None for one on each core
    rows       rows that are read at a time; None for what fits
    fallback   answers where there is no model at all
    """

    turns: int | None = None
    threads: int | None = None
    rows: int | None = None
    fallback: PooledStatistics = field(default_factory=PooledStatistics)

    @property
    def learned(self) -> bool:
        """Whether a model comes with the package."""
        return is_model(SHIPPED)

    def prepare(self, context: Context, /) -> Model:
        """Open the named model, or the shipped one; without either the plain solver learns from the folder."""
        if context.model is None and not self.learned:
            if context.settings.get("probability"):
                raise ModelError("no model here, and the plain solver makes no map: leave --probability out")
            return self.fallback.prepare(context)
        place = context.model or SHIPPED
        plan = read_plan(place, challenge="ink")
        window = Window.of(plan.page.get("fields"))
        if window is None:
            raise ModelError(f"{place / PLAN}: it does not say which layers the model looks at: train again")
        judged = plan.number("turns", least=1, most=MOST_TURNS, default=MOST_TURNS)
        turns = int(context.settings.get("turns") or self.turns or judged)
        decision = Decision(
            plan.number("threshold", least=0, most=1),
            int(plan.number("smallest", least=0, most=10_000_000, default=0)),
        )
        return Looking(
            network=open_network(place, window),
            window=window,
            decision=decision,
            effort=Effort(turns, self.threads or usable_cores(), self.rows, _tell_nobody),
            key=hashlib.sha256((place / MODEL).read_bytes()).hexdigest(),
            out=context.out,
            form=context.settings.get("probability"),
            tell=context.tell,
        )


RECIPE = LearnedRecipe()
