"""Draw docs/demo.jpg: one test case of each challenge of a demo, ground truth in green, prediction in orange.

handlens demo -o demo-out && python docs/make_picture.py demo-out
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import cv2
import numpy as np
import tifffile

import handlens
from handlens import pipeline
from handlens.io.images import read_rgb, write_jpeg
from handlens.masks.rle import decode

HEIGHT = 360
GREEN, ORANGE = (0, 170, 60), (255, 120, 0)
MARK = {"forgery": "columns", "ink": "rows", "cells": "rows"}


def outlined(picture: np.ndarray, masks: list[tuple[np.ndarray, tuple[int, int, int]]]) -> np.ndarray:
    scale = HEIGHT / picture.shape[0]
    picture = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    for mask, colour in masks:
        small = cv2.resize(mask.astype(np.uint8), picture.shape[1::-1], interpolation=cv2.INTER_NEAREST)
        edges, _ = cv2.findContours(small, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(picture, edges, -1, colour, 2, cv2.LINE_AA)
    return picture


def background(name: str, case: handlens.types.Case) -> np.ndarray:
    if name != "ink":
        return read_rgb(case.path)
    slices = sorted((case.path / "surface_volume").iterdir())
    middle = np.max([tifffile.imread(path) for path in slices[8:20]], axis=0).astype(float)
    low, high = np.percentile(middle, [1, 99])
    grey = np.clip((middle - low) / (high - low) * 255, 0, 255).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


def mask_panel(name: str, out: Path) -> np.ndarray:
    """The case with the best score that is not trivial, so that both outlines show."""
    challenge = handlens.challenge(name)
    settings = challenge.settings()
    data = next(out.glob(f"{name}/data-*"))
    truth = pipeline.open_truth(challenge, data, settings)
    from handlens.io.submissions import require_submission

    cases = pipeline.read_cases(challenge, data)
    answers = require_submission(out / name / "submission.csv", challenge.codec(settings), cases)
    scores = {case.id: case.value for case in challenge.score(answers, truth, settings).cases if case.value < 1}
    best = max(scores, key=scores.__getitem__)
    case = next(case for case in cases if case.id == best)
    labelled = next(other for other in truth.cases if other.id == best)

    def joined(runs: object) -> np.ndarray:
        parts = runs if isinstance(runs, tuple) else (runs,)
        return np.any([decode(part, case.shape, order=MARK[name]) for part in parts], axis=0)

    crop = (slice(120, 320), slice(0, 240)) if name == "cells" else (slice(None), slice(None))  # nuclei are small
    masks = [(joined(truth.read(labelled))[crop], GREEN), (joined(answers[best])[crop], ORANGE)]
    return outlined(background(name, case)[crop], masks)


def lesion_panel(out: Path) -> np.ndarray:
    data = next(out.glob("lesions/data-*"))
    labels = {row["filename"]: row["label"] for row in csv.DictReader((data / "truth" / "labels.csv").open())}
    with (out / "lesions" / "submission.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    tiles = []
    for row in rows[:6]:
        name = row.pop("filename")
        predicted = max(row, key=lambda key: float(row[key]))
        tile = cv2.resize(read_rgb(data / "test" / "images" / name), (180, 120))
        colour = GREEN if predicted == labels[name] else ORANGE
        text = f"{predicted} {float(row[predicted]):.0%}" + (
            "" if predicted == labels[name] else f" (is {labels[name]})"
        )
        cv2.rectangle(tile, (0, 100), (180, 120), (255, 255, 255), -1)
        cv2.putText(tile, text, (4, 115), cv2.FONT_HERSHEY_SIMPLEX, 0.45, colour, 1, cv2.LINE_AA)
        tiles.append(tile)
    return np.hstack([np.vstack(tiles[:3]), np.vstack(tiles[3:])])


def main() -> None:
    out = Path(sys.argv[1])
    panels = [mask_panel(name, out) for name in MARK] + [lesion_panel(out)]
    gap = np.full((HEIGHT, 8, 3), 255, np.uint8)
    strip = np.hstack([part for panel in panels for part in (panel[:HEIGHT], gap)][:-1])
    write_jpeg(Path(__file__).with_name("demo.jpg"), strip, quality=85)


if __name__ == "__main__":
    main()
