"""Fit the small network that tells drawn squares from photographed ones: detect/drawn.json.

python bench/fit_drawn.py -o drawn.json [--figures 160]

Drawn are charts, tables and diagrams of bench/drawn_figures.py. Photographed are the clean sources and the painted
textures, gels and blots of the forger: as they are, packed, made smaller, clipped to black or white ground, and beside
drawn content without a gutter. Nothing of real forgeries, figures or blots is used.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import cv2
import numpy as np
from drawn_figures import draw_figure

from handlens.challenges.forgery.detect.canvas.drawn import (
    BLOCK,
    HARDLY,
    NAMES,
    SquareClassifier,
    measure_squares,
)
from handlens.challenges.forgery.detect.canvas.panels import PanelSplitter
from handlens.challenges.forgery.forger.gels import paint_gel
from handlens.challenges.forgery.forger.patterns import paint_loading
from handlens.challenges.forgery.forger.textures import PAINTERS
from handlens.io.images import read_image

SOURCES = Path(__file__).resolve().parents[2] / "shared" / "data" / "forgery" / "sources" / "microscopy"
SIDE, MOST, POSSIBLE, SURE = 1600, 300, 0.02, 0.002
"""Side of the canvas, squares taken from a picture, and the shares of photographed squares that exceed the log-odds of
a possible and of a sure one."""

SEEDS = (1,)
"""Of the drawn figures; bench/forgery.py measures with another."""

HIDDEN, STEPS, BATCH, RATE = 24, 6_000, 4_096, 3e-3
"""Units of either hidden layer, steps, squares in a step (a quarter of them drawn), and the learning rate at first."""

Picture = np.ndarray
Labelled = tuple[str, Picture, np.ndarray]
"""A name, a picture, and for each pixel 1 where it is drawn, 0 where it is not, -1 where that is mixed."""


def packed(picture: Picture, rng: np.random.Generator) -> Picture:
    return cv2.imdecode(cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(60, 96))])[1], 1)


def brought_to_canvas(picture: Picture) -> Picture:
    factor = SIDE / max(picture.shape[:2])
    return cv2.resize(picture, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA) if factor < 0.8 else picture


def photographs(rng: np.random.Generator) -> Iterator[tuple[str, Picture]]:
    for path in sorted(SOURCES.rglob("*.*")):
        picture = read_image(path)[..., :3]
        yield "source", picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
    painters = dict(PAINTERS) | {f"gel {number}": paint_gel for number in range(4)} | {"loading": paint_loading}
    for turn, (name, paint) in enumerate(painters.items()):
        for number in range(30):
            shape = int(rng.integers(100, 420)), int(rng.integers(100, 420))
            drawn = paint(shape, np.random.default_rng([turn, number]), np.random.default_rng([turn, number, 1]))
            yield name, np.rint(drawn.picture).astype(np.uint8)


def clipped(picture: Picture, rng: np.random.Generator) -> Picture:
    """With up to half of it clipped to black, or to white, as much contrast as there can be."""
    values = picture.astype(np.float32)
    values = 255 - values if np.median(values) > 127 else values
    low, high = np.percentile(values, [rng.uniform(0, 50), rng.uniform(99, 100)])
    seen = np.clip((values - low) * (255 / max(64.0, float(high - low))), 0, 255)
    return (255 - seen if np.median(picture) > 127 else seen).astype(np.uint8)


def smaller(picture: Picture, rng: np.random.Generator) -> Picture:
    factor = max(float(rng.uniform(0.25, 0.9)), 60 / min(picture.shape[:2]))
    return cv2.resize(picture, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA) if factor < 1 else picture


def mosaic(picture: Picture, drawn: Picture, rng: np.random.Generator) -> tuple[Picture, np.ndarray]:
    """A piece of either side by side, without a gutter."""
    high = min(picture.shape[0], drawn.shape[0], 400)
    top, left = int(rng.integers(drawn.shape[0] - high + 1)), int(rng.integers(max(1, drawn.shape[1] - 300)))
    own, other = picture[:high, :300], drawn[top : top + high, left : left + 300]
    labels = np.repeat(np.arange(2)[None], high, axis=0).repeat([own.shape[1], other.shape[1]], axis=1)
    labels[:, own.shape[1] - 12 : own.shape[1] + 12] = -1
    return np.concatenate([own, other], axis=1), labels


def labelled(figures: int, rng: np.random.Generator) -> Iterator[Labelled]:
    drawn = [brought_to_canvas(draw_figure(*each)[0]) for each in product(SEEDS, range(figures))]
    for picture in drawn:
        grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
        for panel in PanelSplitter().split(grey):
            yield "drawn", picture[panel.window], np.ones(panel.shape, int)
    for name, picture in photographs(rng):
        for change in (lambda each, _: each, packed, smaller, clipped, lambda *of: smaller(clipped(*of), of[1])):
            changed = np.ascontiguousarray(change(picture, rng))
            for seen in (changed, packed(changed, rng)):
                yield name, seen, np.zeros(seen.shape[:2], int)
        both, labels = mosaic(picture, drawn[int(rng.integers(len(drawn)))], rng)
        yield "beside drawn", packed(both, rng) if rng.uniform() < 0.5 else both, labels


def collect(figures: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Squares with contrast (N, features), whether each is drawn, and the kind of its picture."""
    tables, sides, names = [], [], []
    for name, picture, labels in labelled(figures, rng):
        if min(picture.shape[:2]) < 3 * BLOCK:
            continue
        squares = measure_squares(cv2.cvtColor(np.ascontiguousarray(picture), cv2.COLOR_RGB2GRAY), picture)
        own = labels[BLOCK // 2 :: BLOCK, BLOCK // 2 :: BLOCK]
        squares = squares[: own.shape[0], : own.shape[1]]
        chosen = np.flatnonzero(((squares[..., 5] > HARDLY) & (own >= 0)).ravel())
        chosen = rng.choice(chosen, min(MOST, len(chosen)), replace=False)
        tables.append(squares.reshape(-1, len(NAMES))[chosen])
        sides.append(own.ravel()[chosen] == 1)
        names += [name] * len(chosen)
    return np.concatenate(tables), np.concatenate(sides), np.array(names)


def fit(table: np.ndarray, drawn: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The layers of the network; standardising is part of the first."""
    import torch

    torch.manual_seed(0)
    means, spreads = table.mean(axis=0), table.std(axis=0)
    rows, labels = torch.tensor((table - means) / spreads), torch.tensor(drawn, dtype=torch.float32)
    linear = [torch.nn.Linear(*sides) for sides in ((len(NAMES), HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1))]
    network = torch.nn.Sequential(linear[0], torch.nn.Tanh(), linear[1], torch.nn.Tanh(), linear[2])
    optimiser = torch.optim.Adam(network.parameters(), RATE, weight_decay=1e-5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    some, others = (torch.tensor(np.flatnonzero(drawn == side)) for side in (True, False))
    for _step in range(STEPS):
        chosen = [
            each[torch.randint(len(each), (count,))] for each, count in ((some, BATCH // 4), (others, BATCH * 3 // 4))
        ]
        batch = torch.cat(chosen)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(network(rows[batch])[:, 0], labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    layers = [(layer.weight.detach().numpy().T, layer.bias.detach().numpy()) for layer in linear]
    scaled = layers[0][0] / spreads[:, None]
    return [(scaled, layers[0][1] - means @ scaled), *layers[1:]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--figures", type=int, default=160, help="of each seed")
    options = parser.parse_args()
    table, drawn, names = collect(options.figures, np.random.default_rng(0))
    layers = [tuple(np.round(each, 4).astype(np.float32) for each in layer) for layer in fit(table, drawn)]
    odds = SquareClassifier(tuple(layers), 0.0, 0.0).log_odds(table)
    possible, sure = (float(np.quantile(odds[~drawn], 1 - share).round(2)) for share in (POSSIBLE, SURE))
    page = {
        "possible": possible,
        "sure": sure,
        "layers": [[each.round(4).tolist() for each in layer] for layer in layers],
    }
    options.out.write_text(json.dumps(page) + "\n", encoding="utf-8")
    shares = f"{np.mean(odds[drawn] > possible):.1%} possible, {np.mean(odds[drawn] > sure):.1%} sure"
    print(f"{drawn.sum()} drawn squares, {shares}; {(~drawn).sum()} photographed ones:")
    for name in np.unique(names[~drawn]):
        own = odds[~drawn & (names == name)]
        print(f"  {name:14}{np.mean(own > possible):8.2%} possible{np.mean(own > sure):8.2%} sure")


if __name__ == "__main__":
    main()
