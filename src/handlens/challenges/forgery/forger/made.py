"""One figure at a time: honest and forged twins with their masks, and honest figures that look forged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from handlens.challenges.forgery.forger import post_processing
from handlens.challenges.forgery.forger.copies import (
    SMALLEST,
    Draft,
    clone_cut_out,
    clone_object,
    copy_region,
    cover_up,
    start,
)
from handlens.challenges.forgery.forger.figures import draw_figure
from handlens.challenges.forgery.forger.lookalikes import LOOKALIKES, NEED_PANELS, draw_lookalike
from handlens.challenges.forgery.forger.marks import printed
from handlens.challenges.forgery.forger.reuse import reuse_lane, reuse_panel
from handlens.challenges.forgery.forger.sources import Sources
from handlens.challenges.forgery.forger.textures import BoolArray, ByteArray

LOOKALIKE_STREAM = 7_919
"""Keeps the random numbers of look-alikes apart from those of forged figures."""

COMPOUND_SHARE = 0.35
"""Share of figures with several panels: most of the contest's are single pictures."""

INSTANCES = ((1, 2, 3, 4), (0.65, 0.27, 0.07, 0.01))
"""How many forgeries a figure has, and how often. A little more than the contest's, as some find no room."""

Forge = Callable[[Draft, np.random.Generator], BoolArray | None]

FORGERIES: Mapping[str, Forge] = {
    "object clone": clone_object,
    "region copy": copy_region,
    "cover-up": cover_up,
    "panel reuse": reuse_panel,
    "lane reuse": reuse_lane,
    "cut-out": clone_cut_out,
}
SHARES = {"object clone": 0.56, "region copy": 0.22, "cover-up": 0.06, "panel reuse": 0.06, "lane reuse": 0.1}
"""How often each kind is made; cut-out clones only where they are asked for."""

SHOWN = {"lane reuse": "blot", "cut-out": "source"}
"""What a figure shows that has forgeries of a kind; of the others anything."""

LOOKALIKE_SHARES = {
    "replicates": 0.24,
    "serial sections": 0.2,
    "repeated grid": 0.12,
    "loading control": 0.14,
    "periodic texture": 0.12,
    "text and charts": 0.06,
    "flat and saturated": 0.12,
    "gel": 0.0,  # only where asked for
}


@dataclass(frozen=True, slots=True)
class FigureRequest:
    """What a figure is to be like.

    size            longer side in pixels, at most
    sources         clean pictures to cut from; None: painted ones
    compound        several panels or one; None: a mixture as in the contest
    plan            the kind, a key of `FORGERIES` or `LOOKALIKES`; None: drawn
    post_processed  whether it may be resized, blurred or packed afterwards; if not, twins differ inside the masks alone
    """

    size: int
    sources: Sources | None = None
    compound: bool | None = None
    plan: str | None = None
    post_processed: bool = True


@dataclass(frozen=True, slots=True)
class MadeFigure:
    """A figure before and after the forgery, (H, W, 3) uint8, the masks (H, W) of what was done, and its name."""

    honest: ByteArray
    forged: ByteArray
    masks: tuple[BoolArray, ...]
    kind: str


def make_figure(seed: int, number: int, wanted: FigureRequest) -> MadeFigure:
    """One figure and its forgery."""
    plan = wanted.plan
    if plan is not None and plan not in FORGERIES:
        raise ValueError(f"{plan!r} is no kind of forgery; there are {', '.join(FORGERIES)}")
    if plan == "panel reuse" and wanted.compound is False:
        raise ValueError("panel reuse needs a figure of several panels")
    kind = plan or _draw_kind(np.random.default_rng([seed, number]), SHARES, ("panel reuse",), wanted.compound)
    for attempt in range(200):
        made = _try_figure(np.random.default_rng([seed, number, attempt]), kind, wanted)
        if made is not None:
            return made
    raise ValueError(f"no room for {kind} in a figure of {wanted.size} pixels; take a larger size")


def _draw_kind(
    rng: np.random.Generator, shares: Mapping[str, float], need_panels: Collection[str], compound: bool | None
) -> str:
    """A kind, as often as its share says; where one panel is asked for, none that needs several."""
    names = [name for name in shares if compound is not False or name not in need_panels]
    weights = np.array([shares[name] for name in names])
    return str(rng.choice(names, p=weights / weights.sum()))


def _try_figure(rng: np.random.Generator, kind: str, wanted: FigureRequest) -> MadeFigure | None:
    compound = wanted.compound
    several = kind == "panel reuse" or (bool(rng.uniform() < COMPOUND_SHARE) if compound is None else compound)
    shows = SHOWN.get(kind)
    crowded = kind == "panel reuse" and bool(rng.uniform() < 0.8)
    figure = draw_figure(rng, size=wanted.size, sources=wanted.sources, compound=several, kind=shows, crowded=crowded)
    draft = start(figure)
    masks: list[BoolArray] = []
    for instance in range(int(rng.choice(INSTANCES[0], p=INSTANCES[1]))):
        forge = FORGERIES[kind if instance == 0 or kind != "panel reuse" else "object clone"]
        mask = forge(draft, rng)
        if mask is None and instance == 0:
            return None
        if mask is not None:
            masks.append(mask)
    honest, forged = printed(draft.honest, figure.overlay), printed(draft.forged, figure.overlay)
    return _finish(MadeFigure(honest, forged, tuple(masks), kind), rng, wanted.post_processed)


def _finish(made: MadeFigure, rng: np.random.Generator, processed: bool) -> MadeFigure:
    """What happens to both twins after the forging; never so small that a mask is lost."""
    if not processed:
        return made
    what = post_processing.draw_post_processing(rng, made.honest)
    masks = tuple(post_processing.apply_to_mask(mask, what) for mask in made.masks)
    if any(mask.sum() < min(2 * SMALLEST, before.sum()) for mask, before in zip(masks, made.masks, strict=True)):
        return made
    honest = post_processing.apply(made.honest, what)
    forged = post_processing.apply(made.forged, what) if made.masks else honest
    return MadeFigure(honest, forged, masks, made.kind)


def make_lookalike(seed: int, number: int, wanted: FigureRequest) -> MadeFigure:
    """One honest figure that may be taken for a forged one."""
    plan, compound = wanted.plan, wanted.compound
    rng = np.random.default_rng([seed, number, LOOKALIKE_STREAM])
    if plan is not None and (plan not in LOOKALIKES or (compound is False and plan in NEED_PANELS)):
        raise ValueError(f"{plan!r} is no look-alike of such a figure; there are {', '.join(LOOKALIKES)}")
    kind = plan or _draw_kind(rng, LOOKALIKE_SHARES, NEED_PANELS, compound)
    figure = draw_lookalike(rng, kind, size=wanted.size, sources=wanted.sources, compound=compound)
    picture = printed(figure.picture, figure.overlay)
    return _finish(MadeFigure(picture, picture, (), kind), rng, wanted.post_processed)
