"""Fits the included decision of the forgery detector: curve and trees of objects, and how strict to be.

python bench/forgery_fit.py CACHE -o decision.json

Learns from cut-out and soft-edged clones of clean microscopy and their twins, compound figures, look-alikes and gels,
the sources, honest published figures and blots, half of what is made up packed as JPEG; never from the real forgeries.
Folds go by source picture, so that what is printed for a picture comes from a verifier that has not seen it. Proposals
are kept in CACHE: stopped, it goes on.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from handlens.challenges.forgery.detect import Detector
from handlens.challenges.forgery.detect.findings import TierName
from handlens.challenges.forgery.fitting import predict_out_of_fold
from handlens.challenges.forgery.forger.made import FigureRequest, MadeFigure, make_figure, make_lookalike
from handlens.challenges.forgery.forger.sources import Sources, open_sources
from handlens.challenges.forgery.match_labels import label_matches
from handlens.challenges.forgery.match_records import MatchRecord, from_text, to_text
from handlens.challenges.forgery.score import ORDER
from handlens.challenges.forgery.training import weigh
from handlens.challenges.forgery.verifier_fitting import Example, fit_verifier
from handlens.io.files import write_text
from handlens.io.images import list_images, read_image, write_png
from handlens.masks.rle import Rle, encode
from handlens.progress import bar
from handlens.types import Case

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "forgery"
FOLDS = 5
SECONDS = 60.0
"""Enough for every figure: what is learned must not depend on the machine."""

SEED, COMPOUND_SEED = 7_000, 8_100
SIZES = (500, 700, 900, 1_100)
QUALITIES = (85, 75, 92, 80, 95, 88)
SOFT = 3
"""Which of four variants of a source is cloned with its ground, and most often with a soft edge."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One to learn from: its file, true masks, and what it shares its fold with."""

    name: str
    path: Path
    group: str
    masks: tuple[np.ndarray, ...] = ()

    @property
    def kind(self) -> str:
        return self.name.split("-")[0]


def pictures(cache: Path, variants: int, compound: int) -> Iterator[Picture]:
    sources = open_sources(SHARED / "sources")
    for number, entry in enumerate(sources.pictures):
        fold = f"fold{number % FOLDS}"
        yield Picture(f"source-{number}", entry.picture, fold)
        clean = read_image(entry.picture)
        if clean.dtype == np.uint8:
            yield written(cache, f"sourcejpeg-{number}", MadeFigure(clean, clean, (), ""), fold, quality(number))
        for variant in range(variants):
            plan = "object clone" if variant % 4 == SOFT else "cut-out"
            wanted = FigureRequest(720, Sources((entry,)), compound=False, plan=plan)
            try:
                made = make_figure(SEED + variant, number, wanted)
            except ValueError:  # no object, or no room for a copy
                continue
            packed = quality(number + variant) if variant % 2 else 0
            kind = "jpeg" if packed else ""
            yield written(cache, f"cutout{kind}-{variant}-{number}", made, fold, packed)
            if number % 2 == variant // 2 % 2:
                twin = replace(made, forged=made.honest, masks=())
                yield written(cache, f"twin{kind}-{variant}-{number}", twin, fold, packed)
    for number in range(compound):
        own = Sources(tuple(each for index, each in enumerate(sources.pictures) if index % FOLDS == number % FOLDS))
        wanted = FigureRequest(SIZES[number % 4], own if number % 2 else None, compound=True if number % 3 else None)
        packed = quality(number) if number % 4 > 1 else 0
        for kind, make in (("compound", make_figure), ("lookalike", make_lookalike)):
            made = make(COMPOUND_SEED, number, wanted)
            yield written(cache, f"{kind}{'jpeg' if packed else ''}-{number}", made, f"fold{number % FOLDS}", packed)
    for number in range(compound // 2):
        wanted = FigureRequest(SIZES[number % 4], plan="gel", compound=number % 3 == 2)
        gel = make_lookalike(COMPOUND_SEED + 1, number, wanted)
        yield written(cache, f"gel-{number}", gel, f"fold{number % FOLDS}", quality(number) if number % 2 else 0)
    for path in list_images(SHARED / "blots"):
        yield Picture(f"blot-{path.stem}", path, f"blot {path.stem}")
    for path in list_images(SHARED / "figures"):
        yield Picture(f"figure-{path.stem}", path, f"paper {path.stem.split('v')[0]}")


def quality(number: int) -> int:
    """Of the JPEG that one of the pictures is packed as."""
    return QUALITIES[number % len(QUALITIES)]


def written(cache: Path, name: str, made: MadeFigure, group: str, packed: int) -> Picture:
    """A picture as it is, or as it comes out of a JPEG of that quality."""
    path = cache / f"{name}.png"
    if not path.exists():
        write_png(path, as_jpeg(made.forged, packed) if packed else made.forged)
    return Picture(name, path, group, made.masks)


def as_jpeg(picture: np.ndarray, packed: int) -> np.ndarray:
    """Packed with half the colour, as papers and cameras do, and unpacked again."""
    stream = io.BytesIO()
    Image.fromarray(picture[..., :3] if picture.ndim == 3 else picture).save(stream, "JPEG", quality=packed)
    return np.asarray(Image.open(stream))


def example(detector: Detector, cache: Path, picture: Picture) -> Example:
    """What the detector proposes for a picture, labelled."""
    kept = cache / f"{picture.name}.json"
    if not kept.exists():
        write_text(kept, to_text(MatchRecord.of(detector.propose(read_image(picture.path), SECONDS))))
    record = from_text(kept.read_text())
    truth: tuple[Rle, ...] = tuple(encode(mask, order=ORDER) for mask in picture.masks)
    case = Case(picture.name, picture.path, record.scaling.figure, group=picture.group)
    return Example(case, truth, record, label_matches(record.in_figure(), picture.masks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cache", type=Path, help="a folder for pictures and proposals; 400 MB")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the decision file")
    parser.add_argument("--variants", type=int, default=4, help="forged pictures of each source")
    parser.add_argument("--compound", type=int, default=32, help="compound figures, as many look-alikes, half the gels")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    chosen = list(pictures(options.cache, options.variants, options.compound))
    detector, examples = Detector(), list[Example]()
    with bar("pictures") as progress:
        for picture in chosen:
            examples.append(example(detector, options.cache, picture))
            progress(len(examples), len(chosen))
    with bar("out of fold") as progress:
        found = predict_out_of_fold(examples, [TierName.OBJECTS], partial(weigh, progress=progress))
    scores = found.scores(examples)
    for kind in dict.fromkeys(picture.kind for picture in chosen):
        own = [number for number, picture in enumerate(chosen) if picture.kind == kind]
        said = sum(bool(found.answers[number]) for number in own)
        print(f"{kind:12}{len(own):5} pictures, {said:4} called forged, mean oF1 {np.mean(scores[own]):.3f}")
    decision = replace(found.decisions[0], verifier=fit_verifier(examples, [TierName.OBJECTS]))
    write_text(options.output, decision.to_json())


if __name__ == "__main__":
    main()
