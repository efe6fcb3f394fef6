"""How like the one real crop the made-up scroll is: grey levels, spectrum, correlation, depth; and how hard its ink is.

python bench/phantom.py                    compare with ../shared/data/ink/real_crop, pictures into /tmp/phantom
python bench/phantom.py --solve            F0.5 of all ink, mean intensity, the baseline, and a small network
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2
import numpy as np

from handlens import pipeline, registry
from handlens.challenges.ink import data
from handlens.challenges.ink.phantom import letters
from handlens.challenges.ink.phantom.fragment import Fragment
from handlens.io import volumes
from handlens.io.images import read_mask, write_png
from handlens.masks.metrics import compare as compare_runs
from handlens.masks.metrics import fbeta
from handlens.masks.rle import encode

ROOT = Path(__file__).resolve().parents[1]
REAL = ROOT.parent / "shared" / "data" / "ink"
QUANTILES = (1, 5, 25, 50, 75, 95, 99)
OCTAVES = ((2, 4), (4, 8), (8, 16), (16, 32), (32, 64), (64, 128), (128, 256))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", type=Path, default=REAL / "real_crop", help="a real labelled crop")
    parser.add_argument("--letters", type=Path, default=REAL / "letters", help="label maps")
    parser.add_argument("--out", type=Path, default=Path("/tmp/phantom"), help="where pictures go")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fragments", type=int, default=4, help="made-up crops to take the mean of")
    parser.add_argument("--solve", action="store_true", help="measure how hard the ink is, 6 minutes")
    parser.add_argument("--size", type=int, default=768, help="height of the fragments that are solved")
    parser.add_argument("--difficulty", type=float, default=1.0, help="of the fragments that are solved")
    parser.add_argument("--minutes", type=float, default=4, help="for the small network")
    options = parser.parse_args()
    if options.solve:
        return solve(options)
    if not options.real.is_dir():
        sys.exit(f"{options.real} is not there: name a real crop with --real")
    return look(options)


# --- is it alike? ------------------------------------------------------------------------------------------------


def look(options: argparse.Namespace) -> None:
    stack = volumes.open_stack(options.real / "surface_volume")
    real = stack.read_band(0, stack.shape[0], 0, stack.depth)
    label = read_mask(options.real / "inklabels.png")
    made = [make_crop(options.seed + number, real, options.letters) for number in range(options.fragments)]
    print_table("real", measure(real), "made up", [measure(grey) for grey, _ in made])
    options.out.mkdir(parents=True, exist_ok=True)
    for number, (grey, ink) in enumerate([(real, label), *made]):
        name = f"made_{number}" if number else "real"
        write_png(options.out / f"{name}.png", side_by_side(grey, ink))
        write_png(options.out / f"{name}_cut.png", cut_through(grey))
    print(f"pictures: {options.out}")


def make_crop(seed: int, real: np.ndarray, maps: Path) -> tuple[np.ndarray, np.ndarray]:
    """Slices of a made-up fragment as large as the real crop, 8 bits, at the depth that is most like it."""
    random = np.random.default_rng(seed)
    slices, *shape = real.shape
    hand = letters.Handwriting(height=400, pen=95, slant=0)
    found = letters.find_maps(maps) if maps.is_dir() else []
    written = letters.write(random, tuple(shape), hand, found)
    fragment = Fragment((seed,), np.ones(shape, bool), written, 24, hand.pen, 1.0)
    volume, label = np.empty((24, *shape), np.uint8), np.empty(shape, bool)
    for band in fragment.bands():
        for tile in band:
            rows, columns = tile.label.shape
            place = np.s_[tile.top : tile.top + rows, tile.left : tile.left + columns]
            volume[:, place[0], place[1]] = tile.grey >> 8
            label[place] = tile.label
    means = volume.mean(axis=(1, 2))
    target = real.mean(axis=(1, 2))
    first = min(range(24 - slices), key=lambda start: float(np.abs(means[start : start + slices] - target).sum()))
    return volume[first : first + slices], label


def measure(volume: np.ndarray) -> dict[str, np.ndarray]:
    """What is compared. Spectra are means over the slices, in powers of ten, for octaves of cycles in 512 pixels."""
    grey = volume.astype(np.float32)
    height = np.stack([cv2.GaussianBlur(plane, (0, 0), 2) for plane in grey]) > 115
    top = np.where(height.any(0), len(grey) - 1 - np.argmax(height[::-1], axis=0), -1)
    fine = np.stack([plane - cv2.GaussianBlur(plane, (0, 0), 8) for plane in grey])
    return {
        "grey quantiles 1 5 25 50 75 95 99": np.percentile(volume, QUANTILES),
        "mean of slices 0 2 4 6 8 10": grey.mean(axis=(1, 2))[:12:2],
        "deviation of slices 0 2 4 6 8 10": grey.std(axis=(1, 2))[:12:2],
        "log spectrum, octaves from 2": np.mean([spectrum(plane) for plane in grey[::3]], axis=0),
        "fibres: axes over diagonals, log": np.array([np.mean([direction(plane) for plane in grey[:4]])]),
        "papyrus likeness 1 2 4 across": likeness(fine[1], grey[1] > 140, axis=1),
        "papyrus likeness 1 2 4 down": likeness(fine[1], grey[1] > 140, axis=0),
        "air likeness 1 2 4 across": likeness(fine[9], calm(grey[9]), axis=1),
        "air likeness 1 2 4 down": likeness(fine[9], calm(grey[9]), axis=0),
        "air likeness 1 2 slices": np.array([_correlate(fine[9], fine[9 + by], calm(grey[9])) for by in (1, 2)]),
        "air deviation, fine": np.array([fine[9][calm(grey[9])].std()]),
        "surface in slice, quantiles 10 50 90": np.percentile(top, (10, 50, 90)),
    }


def spectrum(plane: np.ndarray) -> np.ndarray:
    power, radius, _ = _power(plane)
    return np.array([np.log10(power[(radius >= low) & (radius < high)].mean()) for low, high in OCTAVES])


def direction(plane: np.ndarray) -> float:
    """How much more there is along the axes, where fibres run, than along diagonals."""
    power, radius, angle = _power(plane)
    middle = (radius > 16) & (radius < 64)
    axes, diagonals = np.minimum(angle, 90 - angle) < 15, np.abs(angle - 45) < 15
    return float(np.log10(power[middle & axes].mean() / power[middle & diagonals].mean()))


def _power(plane: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    side = min(plane.shape)
    frame = np.hanning(side)
    square = (plane - plane.mean())[:side, :side] * np.outer(frame, frame)
    power = np.abs(np.fft.fftshift(np.fft.fft2(square))) ** 2
    y, x = np.indices(power.shape) - side // 2
    return power, np.hypot(y, x) * 512 / side, np.degrees(np.arctan2(np.abs(y), np.abs(x)))


def calm(plane: np.ndarray) -> np.ndarray:
    """Where there is nothing but air."""
    slow = cv2.GaussianBlur(plane, (0, 0), 8)
    rough = np.sqrt(cv2.GaussianBlur((plane - slow) ** 2, (0, 0), 10))
    return (rough < 14) & (slow > 72) & (slow < 98)


def likeness(plane: np.ndarray, where: np.ndarray, *, axis: int) -> np.ndarray:
    return np.array([_correlate(plane, np.roll(plane, -by, axis), where) for by in (1, 2, 4)])


def _correlate(one: np.ndarray, other: np.ndarray, where: np.ndarray) -> float:
    inner = where.copy()
    inner[:8], inner[-8:], inner[:, :8], inner[:, -8:] = False, False, False, False
    return float(np.corrcoef(one[inner], other[inner])[0, 1])


def print_table(left: str, one: dict[str, np.ndarray], right: str, many: list[dict[str, np.ndarray]]) -> None:
    print(f"{'':40} {left:>44}   {right}, mean of {len(many)} (and lowest, highest of the first number)")
    for name, values in one.items():
        others = np.array([found[name] for found in many])
        span = f"  ({others[:, 0].min():.3g}, {others[:, 0].max():.3g})"
        print(f"{name:40} {_show(values):>44}   {_show(others.mean(axis=0))}{span}")


def _show(values: np.ndarray) -> str:
    return " ".join(f"{value:.0f}" if abs(value) >= 20 else f"{value:.2f}" for value in values)


def side_by_side(grey: np.ndarray, ink: np.ndarray) -> np.ndarray:
    planes = [grey[number] for number in (0, 3, 6, 9, 11)]
    rows = [np.hstack(planes[:3]), np.hstack([*planes[3:], ink.astype(np.uint8) * 255])]
    return np.vstack(rows)


def cut_through(grey: np.ndarray) -> np.ndarray:
    """Cross-sections down four rows and four columns, stretched eight times in depth and three across."""
    places = (100, 200, 300, 400)
    cuts = [grey[:, place] for place in places] + [grey[:, :, place] for place in places]
    large = [cv2.resize(cut, (1536, len(grey) * 8), interpolation=cv2.INTER_NEAREST) for cut in cuts]
    return np.vstack([np.vstack([cut, np.full((6, 1536), 255, np.uint8)]) for cut in large])


# --- is the ink hard to see, and is it there? --------------------------------------------------------------------


def solve(options: argparse.Namespace) -> None:
    """F0.5 on test fragments: everything, the best threshold of the mean, the baseline, a small network."""
    challenge = registry.challenge("ink")
    maps = options.letters if options.letters.is_dir() else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        began = time.perf_counter()
        settings = challenge.settings(letters=maps, difficulty=options.difficulty)
        pipeline.sample(challenge, folder, seed=options.seed, cases=2, size=options.size, settings=settings)
        print(f"4 fragments of {options.size} rows, 24 slices: {time.perf_counter() - began:.0f} s")
        truth = pipeline.open_truth(challenge, folder / "truth", challenge.settings())
        labels = {case.id: read_mask(folder / "truth" / case.id / "inklabels.png") for case in truth.cases}
        cases = data.read_cases(folder, "test")
        rows = {
            "all ink": [f_half(read_mask(case.path / "mask.png"), labels[case.id]) for case in cases],
            "mean intensity, best threshold and sign": [best_of_mean(case.path, labels[case.id]) for case in cases],
        }
        solved = pipeline.solve(challenge, folder, Path(name) / "out", solver="baseline")
        rows["the baseline"] = [case.value for case in solved.score.cases] if solved.score else []
        network = learn(folder, minutes=options.minutes)
        rows["a small network"] = [best_of_map(network(case.path), labels[case.id]) for case in cases]
        for what, values in rows.items():
            print(f"{what:42} {np.mean(values):.3f}   " + " ".join(f"{value:.3f}" for value in values), flush=True)


def f_half(said: np.ndarray, truth: np.ndarray) -> float:
    return fbeta(compare_runs(encode(said, order="rows"), encode(truth, order="rows")), beta=0.5, empty=0)


def read_all(fragment: Path) -> np.ndarray:
    stack = volumes.open_stack(fragment / "surface_volume")
    return (stack.read_band(0, stack.shape[0], 0, stack.depth) >> 8).astype(np.uint8)


def best_of_mean(fragment: Path, truth: np.ndarray) -> float:
    """Raw, and smoothed as far as half a stroke; the threshold is the one that suits the truth best."""
    mean, mask = read_all(fragment).mean(axis=0, dtype=np.float32), read_mask(fragment / "mask.png")
    smooth = [mean, *(cv2.GaussianBlur(mean, (0, 0), deviation) for deviation in (3, 8))]
    return max(best_of_map(np.where(mask, sign * plane, -np.inf), truth) for plane in smooth for sign in (1, -1))


def best_of_map(score: np.ndarray, truth: np.ndarray) -> float:
    """F0.5 at the best of some thresholds."""
    finite = np.isfinite(score)
    levels = np.quantile(score[finite], np.linspace(0.3, 0.98, 35))
    return max(f_half(finite & (score > level), truth) for level in levels)


def learn(folder: Path, *, minutes: float) -> Callable[[Path], np.ndarray]:
    """A network for comparison: 3-D features, pooled over depth, a few 2-D layers at a quarter of the size."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    fragments = sorted((folder / "train").iterdir())
    examples = [(read_all(path), read_mask(path / "inklabels.png"), read_mask(path / "mask.png")) for path in fragments]
    network = build()
    rates = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-3)
    random, began, step, side = np.random.default_rng(0), time.perf_counter(), 0, 160
    while (spent := (time.perf_counter() - began) / 60 / minutes) < 1:
        for group in rates.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 20) * (0.5 + 0.5 * np.cos(np.pi * spent))
        batch = [cut_crop(random, examples[random.integers(len(examples))], side) for _ in range(4)]
        grey, ink, inside = (torch.from_numpy(np.stack(parts)) for parts in zip(*batch, strict=True))
        said = network(grey)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(said, ink, weight=inside)
        sure = torch.sigmoid(said) * inside
        loss = loss + 0.5 * (1 - 2 * (sure * ink).sum() / (sure.sum() + (ink * inside).sum() + 1))
        rates.zero_grad()
        loss.backward()
        rates.step()
        step += 1
        if step % 100 == 0:
            print(f"  step {step}, loss {loss.item():.3f}", file=sys.stderr, flush=True)
    print(f"the small network: {step} steps in {minutes:.0f} minutes")
    network.eval()

    def answer(fragment: Path) -> np.ndarray:
        grey, mask = read_all(fragment), read_mask(fragment / "mask.png")
        height, width = mask.shape
        padded = np.pad(grey, ((0, 0), (0, -height % 4), (0, -width % 4)), mode="edge")
        with torch.no_grad():
            ways = []
            for turn in range(4):
                turned = np.ascontiguousarray(np.rot90(padded, turn, (1, 2)))
                said = network(torch.from_numpy(prepare(turned))[None])[0, 0].numpy()
                ways.append(np.rot90(said, -turn))
        whole = cv2.resize(np.mean(ways, axis=0), padded.shape[:0:-1], interpolation=cv2.INTER_LINEAR)
        return np.where(mask, whole[:height, :width], -np.inf)

    return answer


def prepare(grey: np.ndarray) -> np.ndarray:
    return ((grey.astype(np.float32) - 115) / 45)[None]


def cut_crop(random: np.random.Generator, example: tuple, side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A random square, turned and mirrored at random, shifted in depth."""
    grey, ink, mask = example
    top, left = (int(random.integers(max(1, size - side))) for size in ink.shape)
    place = np.s_[top : top + side, left : left + side]
    turn, mirror, shift = int(random.integers(4)), bool(random.integers(2)), int(random.integers(-2, 3))
    cut = np.roll(grey[:, place[0], place[1]], shift, axis=0)
    planes = [cut, ink[place][None], mask[place][None]]
    planes = [np.rot90(plane, turn, (1, 2))[:, :, :: -1 if mirror else 1] for plane in planes]
    small = [plane[:, 2::4, 2::4].astype(np.float32) for plane in planes[1:]]
    return prepare(np.ascontiguousarray(planes[0])), np.ascontiguousarray(small[0]), np.ascontiguousarray(small[1])


def build() -> Any:
    import torch
    from torch import nn

    class Pool(nn.Module):
        def forward(self, features: torch.Tensor) -> torch.Tensor:
            return torch.cat([features.amax(2), features.mean(2)], 1)

    def flat(inside: int, outside: int, apart: int) -> nn.Sequential:
        convolution = nn.Conv2d(inside, outside, 3, padding=apart, dilation=apart)
        return nn.Sequential(convolution, nn.GroupNorm(8, outside), nn.ReLU())

    def deep(convolution: nn.Conv3d) -> nn.Sequential:
        return nn.Sequential(convolution, nn.ReLU())

    return nn.Sequential(
        deep(nn.Conv3d(1, 8, (3, 5, 5), (1, 2, 2), (1, 2, 2))),
        deep(nn.Conv3d(8, 16, 3, (1, 2, 2), 1)),
        deep(nn.Conv3d(16, 24, 3, (2, 1, 1), 1)),
        Pool(),
        flat(48, 48, 1),
        flat(48, 48, 2),
        flat(48, 48, 4),
        flat(48, 48, 1),
        nn.Conv2d(48, 1, 1),
    )


if __name__ == "__main__":
    main()
