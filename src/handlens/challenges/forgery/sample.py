"""A made-up data set in the contest's own layout: forged figures, their twins, honest look-alikes, their masks."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from handlens import runs
from handlens.challenges.forgery import aftermath as later
from handlens.challenges.forgery.copies import SMALLEST, Draft, clone_object, copy_region, cover_up, start
from handlens.challenges.forgery.figures import draw_figure
from handlens.challenges.forgery.lookalikes import LOOKALIKES, NEED_PANELS, draw_lookalike
from handlens.challenges.forgery.marks import printed
from handlens.challenges.forgery.reuse import reuse_lane, reuse_panel
from handlens.challenges.forgery.sources import Sources, open_sources
from handlens.challenges.forgery.textures import BoolArray, ByteArray
from handlens.images import Array, write_png
from handlens.types import Settings

AUTHENTIC = "authentic"
AUTHENTIC_SHARE = 0.4
"""Share of the test that is authentic: a third to a half in the contest."""

FORGED_ONLY = 7
"""One forged training picture in so many has no authentic twin, as in the contest (374 of 2,751)."""

LOOKALIKE_TRAINING = 2
"""For so many forged training pictures there is one look-alike among the authentic ones: they are hardest to tell."""

FIRST_ID = 1_000
LOOKALIKE_STREAM = 7_919
"""Keeps the random numbers of look-alikes apart from those of forged figures."""

COMPOUND_SHARE = 0.25
"""Share of figures with several panels: most of the contest's are single pictures."""

SIZES = (1.0, 0.7, 0.45)
"""Longer sides of the figures, of the one asked for, in turn: a data set of one size would hide what others need."""

SMALLEST_FIGURE = 128
"""Longer side in pixels below which a figure is not made smaller than asked for."""

INSTANCES = ((1, 2, 3, 4), (0.65, 0.27, 0.07, 0.01))
"""How many forgeries a figure has, and how often. A little more than the contest's, as some find no room."""

Forge = Callable[[Draft, np.random.Generator], BoolArray | None]

FORGERIES: Mapping[str, Forge] = {
    "object clone": clone_object,
    "region copy": copy_region,
    "cover-up": cover_up,
    "panel reuse": reuse_panel,
    "lane reuse": reuse_lane,
}
SHARES = {"object clone": 0.56, "region copy": 0.22, "cover-up": 0.06, "panel reuse": 0.06, "lane reuse": 0.1}
"""How often each kind is made."""

LOOKALIKE_SHARES = {
    "replicates": 0.24,
    "serial sections": 0.2,
    "repeated grid": 0.12,
    "loading control": 0.14,
    "periodic texture": 0.12,
    "text and charts": 0.06,
    "flat and saturated": 0.12,
}


@dataclass(frozen=True, slots=True)
class Made:
    """A figure before and after the forgery, (H, W, 3) uint8, the masks (H, W) of what was done, and its name."""

    honest: ByteArray
    forged: ByteArray
    masks: tuple[BoolArray, ...]
    kind: str


def write_sample(
    folder: Path, /, *, seed: int, cases: int, size: int, settings: Settings = MappingProxyType({})
) -> None:
    """Write train pictures with masks, `cases` test pictures, and the truth of the test under `truth`.

    `size` is the longer side of a figure in pixels, at most. The same seed writes the same bytes. `settings` may name
    a folder of clean pictures as `sources`.
    """
    sources = open_sources(Path(settings["sources"])) if settings.get("sources") else None
    pairs = max(2, round(cases * FORGED_ONLY / (2 * FORGED_ONLY - 1)))  # twins counted, about `cases`
    for number in range(pairs):
        name = str(FIRST_ID + number)
        twin = number % FORGED_ONLY != FORGED_ONLY // 2
        made = make_figure(seed, number, size=_size(size, number), sources=sources)
        _write_training(folder, name, made, twin=twin, mode=_mode(seed, number))
    for number in range(pairs // LOOKALIKE_TRAINING):
        name = f"{FIRST_ID + pairs + cases + number}.png"
        made = make_lookalike(seed, number, size=_size(size, number), sources=sources)
        write_png(folder / "train_images" / "authentic" / name, _stored(made.honest, _mode(seed, number)))
    rows = _write_test(folder, seed, cases, size, sources, first=pairs)
    _write_csv(folder / "sample_submission.csv", ("case_id", "annotation"), [(row[0], AUTHENTIC) for row in rows])
    _write_csv(folder / "truth" / "solution.csv", ("case_id", "annotation", "shape"), rows)


# --- figures ------------------------------------------------------------------------------------------------


def make_figure(
    seed: int,
    number: int,
    *,
    size: int,
    sources: Sources | None = None,
    compound: bool | None = None,
    plan: str | None = None,
    aftermath: bool = True,
) -> Made:
    """One figure and its forgery; `plan` is a key of `FORGERIES`, drawn where None.

    `compound` forces several panels or one; None is a mixture as in the contest. Without `aftermath` the twins differ
    inside the masks alone.
    """
    if plan is not None and plan not in FORGERIES:
        raise ValueError(f"{plan!r} is no kind of forgery; there are {', '.join(FORGERIES)}")
    if plan == "panel reuse" and compound is False:
        raise ValueError("panel reuse needs a figure of several panels")
    for attempt in range(200):
        rng = np.random.default_rng([seed, number, attempt])
        kind = plan or _draw_plan(np.random.default_rng([seed, number]), compound)
        made = _try_figure(rng, kind, size=size, sources=sources, compound=compound, aftermath=aftermath)
        if made is not None:
            return made
    raise ValueError(f"no room for {kind} in a figure of {size} pixels; take a larger size")


def _draw_plan(rng: np.random.Generator, compound: bool | None) -> str:
    names = [name for name in FORGERIES if compound is not False or name != "panel reuse"]
    shares = np.array([SHARES[name] for name in names])
    return str(rng.choice(names, p=shares / shares.sum()))


def _try_figure(
    rng: np.random.Generator, kind: str, *, size: int, sources: Sources | None, compound: bool | None, aftermath: bool
) -> Made | None:
    several = kind == "panel reuse" or (bool(rng.uniform() < COMPOUND_SHARE) if compound is None else compound)
    shows = "blot" if kind == "lane reuse" else None
    crowded = kind == "panel reuse" and bool(rng.uniform() < 0.8)
    figure = draw_figure(rng, size=size, sources=sources, compound=several, kind=shows, crowded=crowded)
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
    return _finish(Made(honest, forged, tuple(masks), kind), rng, aftermath)


def _finish(made: Made, rng: np.random.Generator, aftermath: bool) -> Made:
    """What happens to both twins after the forging; never so small that a mask is lost."""
    if not aftermath:
        return made
    what = later.draw_aftermath(rng, made.honest)
    masks = tuple(later.apply_to_mask(mask, what) for mask in made.masks)
    if any(mask.sum() < SMALLEST for mask in masks):
        return made
    honest = later.apply(made.honest, what)
    forged = later.apply(made.forged, what) if made.masks else honest
    return Made(honest, forged, masks, made.kind)


def make_lookalike(
    seed: int,
    number: int,
    *,
    size: int,
    sources: Sources | None = None,
    compound: bool | None = None,
    plan: str | None = None,
    aftermath: bool = True,
) -> Made:
    """One honest figure that may be taken for a forged one; `plan` is a key of `LOOKALIKES`, drawn where None."""
    rng = np.random.default_rng([seed, number, LOOKALIKE_STREAM])
    if plan is not None and (plan not in LOOKALIKES or (compound is False and plan in NEED_PANELS)):
        raise ValueError(f"{plan!r} is no look-alike of such a figure; there are {', '.join(LOOKALIKES)}")
    names = [name for name in LOOKALIKES if compound is not False or name not in NEED_PANELS]
    shares = np.array([LOOKALIKE_SHARES[name] for name in names])
    kind = plan or str(rng.choice(names, p=shares / shares.sum()))
    figure = draw_lookalike(rng, kind, size=size, sources=sources, compound=compound)
    picture = printed(figure.picture, figure.overlay)
    return _finish(Made(picture, picture, (), kind), rng, aftermath)


# --- files --------------------------------------------------------------------------------------------------


def _write_test(
    folder: Path, seed: int, cases: int, size: int, sources: Sources | None, *, first: int
) -> list[tuple[str, str, str]]:
    """The test pictures and the rows of their solution: of the authentic ones half are twins, half look-alikes."""
    order = [int(number) for number in np.random.default_rng([seed]).permutation(cases)]
    authentic = order[: round(AUTHENTIC_SHARE * cases)]
    lookalikes = set(authentic[::2])
    rows = []
    for number in range(cases):
        name, mode = str(FIRST_ID + first + number), _mode(seed, first + number)
        make = make_lookalike if number in lookalikes else make_figure
        made = make(seed, first + number, size=_size(size, number), sources=sources)
        honest = number in authentic
        write_png(folder / "test_images" / f"{name}.png", _stored(made.honest if honest else made.forged, mode))
        rows.append((name, *_solution(() if honest else made.masks, made.honest.shape)))
    return rows


def _size(largest: int, number: int) -> int:
    """The longer side of one of the figures."""
    return max(min(largest, SMALLEST_FIGURE), round(largest * SIZES[number % len(SIZES)]))


def _mode(seed: int, number: int) -> str:
    rng = np.random.default_rng([seed, number, 0, 0])
    return str(rng.choice(["RGB", "RGB", "RGB", "RGB", "RGB", "RGB", "grey", "grey", "RGBA", "16 bits"]))


def _stored(picture: ByteArray, mode: str) -> Array:
    """The picture as files have it: in colour, grey of 8 or 16 bits, or with an opaque alpha."""
    import cv2

    if mode == "RGBA":
        return np.dstack([picture, np.full(picture.shape[:2], 255, np.uint8)])
    if mode == "RGB":
        return picture
    grey = np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.uint8)
    return grey.astype(np.uint16) * 257 if mode == "16 bits" else grey


def _write_training(folder: Path, name: str, made: Made, *, twin: bool, mode: str) -> None:
    write_png(folder / "train_images" / "forged" / f"{name}.png", _stored(made.forged, mode))
    authentic = folder / "train_images" / "authentic"
    authentic.mkdir(parents=True, exist_ok=True)
    if twin:
        write_png(authentic / f"{name}.png", _stored(made.honest, mode))
    masks = folder / "train_masks"
    masks.mkdir(exist_ok=True)
    np.save(masks / f"{name}.npy", np.stack(made.masks).astype(np.uint8))


def _solution(masks: Sequence[BoolArray], shape: tuple[int, ...]) -> tuple[str, str]:
    """Annotation and shape of one row of the solution."""
    if not masks:
        return AUTHENTIC, AUTHENTIC
    instances = [runs.encode(mask, order="columns") for mask in masks]
    return runs.format_lists(instances), str(list(shape[:2]))


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
