"""The predictor of ink: the included network, or one that `handlens train ink` made, over the flattened sheet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.artefacts import choose
from handlens.challenges.ink.baseline import DepthStatistics, DepthStatisticsPredictor
from handlens.challenges.ink.decision import InkDecision
from handlens.challenges.ink.domain import check
from handlens.challenges.ink.files import KINDS, write_contours, write_mask, write_overlay
from handlens.challenges.ink.layout import find_inside, open_fragment
from handlens.challenges.ink.maps import write_map
from handlens.challenges.ink.options import FEW_SLICES, INCLUDED_MODEL, InkSettings
from handlens.challenges.ink.result import InkResult
from handlens.challenges.ink.sheet import Depths
from handlens.challenges.ink.tiles import STRIDE, Map, Network, Resources, WindowReader
from handlens.challenges.ink.tiles import predict as predict_tiles
from handlens.challenges.ink.window import FEW, REGION, Bytes, Mask, Surface, Window, copy_tall, find_surface
from handlens.errors import DataError, ModelError, counted
from handlens.inference.ensemble import NetworkPair
from handlens.inference.executors import usable_cores
from handlens.inference.model import Model, is_model, open_model
from handlens.inference.session import Session, check_probabilities
from handlens.io.extras import need
from handlens.io.gate import place
from handlens.io.volumes import Stack, is_coloured
from handlens.io.volumes.memory import open_array
from handlens.masks.rle import Rle
from handlens.runstore.plan import PLAN
from handlens.types import ALONE, Artefact, Case, Context, Effort, Prediction, Work, full_effort

MAP, MASK, SHEET, THRESHOLD = "map", "mask", "sheet", "threshold"
"""Artefacts: probability of every square of STRIDE pixels, (rows, columns) float32; the fragment's mask, (H, W); its
`Surface`; the threshold that was used."""

FEW_WEIGHT = 0.4
"""Of the network for few slices, where both predict. Measured on six synthetic fragments that neither was trained on,
ordinary ones and weak ones, and on the real crop: 0.25 has F0.5 0.788 and 0.759, and AUC 0.833 on the crop; 0.4 has
0.784, 0.748 and 0.893; 0.5 has 0.771, 0.729 and 0.921."""


@dataclass(frozen=True, slots=True)
class InkNetwork:
    """The ONNX file: a window (layers, H, W) to probabilities of squares. One thread: tiles are shared by many."""

    session: Session
    layers: int

    def __call__(self, window: Bytes, /) -> Map:
        (answer,) = self.session(window=window[None])
        expected = (1, window.shape[1] // STRIDE, window.shape[2] // STRIDE)
        if answer.shape != expected:
            raise ModelError(f"{self.session.path}: answers {answer.shape}; expected {expected}: train again")
        check_probabilities(answer, self.session.path)
        return np.asarray(answer[0], np.float32)


def open_network(path: Path, window: Window, *, untrusted: bool = False) -> InkNetwork:
    """`window` uint8 (N, layers, H, W) to `probability` float32 (N, H / 4, W / 4)."""
    session = Session(path, threads=1, untrusted=untrusted)
    session.demand({"window": ("tensor(uint8)", 4)}, {"probability": ("tensor(float)", 3)})
    return InkNetwork(session, window.layers)


@dataclass(frozen=True, slots=True)
class Scan:
    """A decoded case: its slices and mask; the sheet is found when it is predicted, as that takes minutes."""

    stack: Stack
    mask: Mask


@dataclass(frozen=True, slots=True)
class InkPredictor:
    """A network over the flattened sheet, and its decision. Artefacts: `map`, `mask`, `sheet` and `threshold`.

    `few` answers for stacks of fewer than `window.FEW` slices, where the model has a network for them. About others
    both networks are asked.
    A copy that is pickled for another process has one thread.
    """

    network: Network
    window: Window
    decision: InkDecision
    resources: Resources
    model: Model | None = None
    few: InkPredictor | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"<InkPredictor: {self.model}, {counted(self.resources.turns, 'orientation')}>"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        alone = Resources(self.resources.turns, 1, self.resources.rows)
        return InkPredictor, (self.network, self.window, self.decision, alone, self.model, self.few)

    @contextmanager
    def decode(self, case: Case, /) -> Iterator[Scan]:
        yield Scan(*open_fragment(case.path))

    def infer(self, window: WindowReader, work: Work = ALONE, /) -> Map:
        """The coarse map of a flattened window, before the decision."""
        return predict_tiles(window, self.network, self.resources, work)

    def predict(self, fragment: Scan, work: Work = ALONE, /) -> Prediction[Rle]:
        slices = fragment.stack.depth
        if self.few is not None and slices < FEW:
            return self.few.predict(fragment, work)
        surface = self._flatten(fragment, work)
        coarse = self.infer(surface, work)
        answer = self.decision.apply(coarse, fragment.mask, slices=slices)
        threshold = self.decision.threshold_in(coarse, fragment.mask, slices=slices)
        found = {MAP: coarse, MASK: fragment.mask, SHEET: surface, THRESHOLD: threshold}
        return Prediction(answer, found, check(surface, coloured=is_coloured(fragment.stack)))

    def __call__(self, value: Any, /, mask: Any = None) -> InkResult:
        """The result for a fragment's folder, a folder of slices, a picture, or a (slices, H, W) or (H, W) array."""
        fragment = as_fragment(value, mask)
        prediction = self.predict(fragment)
        found = prediction.artefacts
        return InkResult(
            found[MAP], fragment.mask, prediction.answer, found[SHEET], found[THRESHOLD], prediction.warnings
        )

    def _flatten(self, fragment: Scan, work: Work) -> Surface:
        """The fragment with its sheet found; what an earlier, killed run found is used again."""
        stack = copy_tall(fragment.stack, work.checkpoints.folder)
        values, clear = work.checkpoints.load("sheet"), work.checkpoints.load("sheet-clear")
        if values is not None and clear is not None:
            return Surface(stack, fragment.mask, Depths(REGION, values, clear), self.window)
        work.progress(0, 1, "finding the surface")
        surface = find_surface(stack, fragment.mask, self.window)
        work.checkpoints.save("sheet", surface.depths.values)
        work.checkpoints.save("sheet-clear", surface.depths.clear)
        return surface


def as_fragment(value: Any, mask: Any = None) -> Scan:
    """What a notebook passes, as a fragment; without a mask the scan is where it is not 0."""
    if isinstance(value, str | Path):
        stack, inside = open_fragment(place(value))
    else:
        array = np.asarray(value)
        array = array[None] if array.ndim == 2 else array
        if array.ndim != 3 or not array.size or array.dtype not in (np.uint8, np.uint16):
            what = f"an array of {array.dtype} with shape {np.shape(value)}"
            expected = "(slices, H, W) or (H, W) of uint8 or uint16, or a path"
            raise DataError(f"{what} is no volume: expected {expected}")
        stack = open_array(array)
        inside = find_inside(stack)
        inside = inside if inside.any() else np.ones(stack.shape, bool)
    if mask is not None:
        inside = np.asarray(mask) > 0
    if inside.shape != stack.shape:
        raise DataError(f"the mask has shape {inside.shape}, the slices {stack.shape}: they must be equal")
    return Scan(stack, inside)


def load(context: Context[Rle, InkSettings]) -> InkPredictor:
    """The named model, or the included one; with the one for few slices where its folder has it."""
    model = open_model(context.model or INCLUDED_MODEL, challenge="ink")
    predictor = _open(model, context)
    if not is_model(model.folder / FEW_SLICES):
        return predictor
    return join(predictor, _open(open_model(model.folder / FEW_SLICES, challenge="ink"), context))


def join(predictor: InkPredictor, few: InkPredictor) -> InkPredictor:
    """A predictor with the one for few slices, which has a say about stacks where it looks at the same layers."""
    if few.window != predictor.window:
        return replace(predictor, few=few)
    return replace(predictor, network=NetworkPair(predictor.network, few.network, FEW_WEIGHT), few=few)


def _open(model: Model, context: Context[Rle, InkSettings]) -> InkPredictor:
    """The predictor of one network."""
    window = Window.of(model.plan.fields)
    if window is None:
        raise ModelError(f"{model.folder / PLAN}: it does not say which layers the model looks at: train again")
    if context.settings.reverse:
        window = replace(window, side="first" if window.side == "last" else "last")
    decision = model.decision(InkDecision)
    resources = Resources(context.settings.turns or decision.turns, context.threads or usable_cores())
    network = open_network(model.file, window, untrusted=context.untrusted)
    return InkPredictor(network, window, decision, resources, model)


def shares_parts(predictor: InkPredictor | DepthStatisticsPredictor) -> bool:
    """Lines of tiles are shared; statistics over depth are quick."""
    return isinstance(predictor, InkPredictor)


def efforts(predictor: InkPredictor | DepthStatisticsPredictor) -> list[Effort[Rle]]:
    """Fewer quarter turns; time goes with their number, but for finding the sheet."""
    if isinstance(predictor, DepthStatisticsPredictor):
        return list(full_effort(predictor))
    full = predictor.resources.turns
    fewer = [_with_turns(predictor, turns) for turns in range(1, full)]
    return [
        *(Effort(counted(each.resources.turns, "turn"), each.resources.turns / full, each) for each in fewer),
        Effort(counted(full, "turn"), 1.0, predictor),
    ]


def _with_turns(predictor: InkPredictor, turns: int) -> InkPredictor:
    few = _with_turns(predictor.few, turns) if predictor.few else None
    return replace(predictor, resources=replace(predictor.resources, turns=turns), few=few)


def load_baseline(context: Context[Rle, InkSettings]) -> DepthStatisticsPredictor:
    """Statistics over depth, learned from the folder's labelled fragments where there are some."""
    if context.settings.probability is not None:
        raise ModelError("the baseline makes no probability map: leave --probability out")
    return DepthStatistics().fit(context.training())


def artefacts(settings: InkSettings) -> list[Artefact[Rle]]:
    """The files that `--write` names, and with `--probability` the map of every fragment."""
    keep, kinds = frozenset({MAP, MASK}), choose(settings.write, KINDS, KINDS)
    writers = {
        "mask": (frozenset[str](), write_mask),
        "overlay": (frozenset({MAP, SHEET, THRESHOLD}), write_overlay),
        "contours": (frozenset[str](), write_contours),
    }
    found = [Artefact(kind, *writers[kind]) for kind in KINDS if kind in kinds]
    if settings.probability == "zarr":
        need("zarr", "a Zarr map")  # before hours of work, not after
    return [*found, Artefact("probability", keep, _MapWriter(settings.probability))] if settings.probability else found


@dataclass(frozen=True, slots=True)
class _MapWriter:
    form: str

    def __call__(self, out: Path, case: Case, _scan: Scan, prediction: Prediction[Rle]) -> None:
        found: Mapping[str, npt.NDArray[Any]] = prediction.artefacts
        write_map(out, case.id, self.form, found[MAP], found[MASK])
