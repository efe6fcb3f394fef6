"""What is lost when a figure comes inside a PDF: real forgeries and their twins embedded as papers embed them.

python bench/papers.py [--figures 40] [--jpeg 40] [--minutes 30] [--quick]
python bench/papers.py --only jpeg --out /tmp/papers     the same command goes on where it was stopped

Lossless: each figure is placed 60 to 120 mm wide, and at 300 to 600 pixels an inch. Where the pixels that come out are
those of the PNG the findings are its findings, for the detector is deterministic; otherwise both are looked at.
JPEG: quality 85, forgeries at random first, then their twins, looked at and scored.
Bars: findings equal; at most 0.05 oF1 lost.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2
from PIL import Image

from handlens.challenges.forgery import data
from handlens.challenges.forgery.fitting import score_one
from handlens.challenges.forgery.options import ForgerySettings
from handlens.challenges.forgery.predictor import ForgeryPredictor
from handlens.io.images import read_image
from handlens.progress import bar
from handlens.sandbox import pdf
from handlens.types import Case, Truth

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "forgery" / "real"
QUALITY = 85
PAGE = (595.0, 842.0)  # A4 in points
POINTS = 72 / 25.4  # a millimetre


def embed(path: Path, pixels: np.ndarray, width: float, *, jpeg: bool) -> Path:
    """A page with one image of this width in points."""
    document = pypdfium2.PdfDocument.new()
    height = width * pixels.shape[0] / pixels.shape[1]
    page = document.new_page(max(PAGE[0], width + 100), max(PAGE[1], height + 100))
    image = pypdfium2.PdfImage.new(document)
    picture = Image.fromarray(pixels)
    if jpeg:
        packed = io.BytesIO()
        picture.save(packed, "JPEG", quality=QUALITY)
        image.load_jpeg(packed, inline=True)
    else:
        image.set_bitmap(pypdfium2.PdfBitmap.from_pil(picture))
    image.set_matrix(pypdfium2.PdfMatrix().scale(width, height).translate(50, 50))
    page.insert_obj(image)
    page.gen_content()
    document.save(path)
    document.close()
    return path


def read_back(path: Path) -> np.ndarray:
    (figure,) = pdf.list_figures(path)
    return pdf.read_figure(path, figure)


def as_embedded(picture: np.ndarray) -> np.ndarray:
    """What a paper holds of a figure: 8 bits, without alpha."""
    eight = (picture >> 8).astype(np.uint8) if picture.dtype == np.uint16 else picture
    return np.ascontiguousarray(eight[:, :, :3]) if eight.ndim == 3 else eight


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--figures", type=int, default=40, help="forgeries, each with its twin")
    parser.add_argument("--jpeg", type=int, default=40, help="figures that are embedded as JPEG too; 80: twins too")
    parser.add_argument("--only", choices=("lossless", "jpeg"), help="one half of it; default: both")
    parser.add_argument("--out", type=Path, help="keep the scores of JPEGs here, a line for each, and go on from there")
    parser.add_argument("--minutes", type=float, default=1e6, help="no more JPEGs after so long")
    parser.add_argument("--quick", action="store_true", help="4 figures, 1 as JPEG")
    options = parser.parse_args()
    figures, jpegs = (4, 1) if options.quick else (options.figures, options.jpeg)
    truth = data.open_truth(options.data, ForgerySettings())
    forged = [case for case in truth.cases if truth.read(case)]
    honest = {case.path.name: case for case in truth.cases if not truth.read(case)}
    forged = [case for case in forged if case.path.name in honest][:figures]
    twins = [honest[case.path.name] for case in forged]
    predictor = ForgeryPredictor()
    print(f"{len(forged)} real forgeries, {len(twins)} twins")
    if options.only != "jpeg":
        lossless(predictor, [*forged, *twins])
    if options.only != "lossless":
        order = random.Random(1).sample(range(len(forged)), len(forged))
        chosen = [cases[index] for cases in (forged, twins) for index in order][:jpegs]
        packed_as_jpeg(predictor, truth, chosen, options.out, time.monotonic() + 60 * options.minutes)


def lossless(predictor: ForgeryPredictor, cases: list[Case]) -> None:
    dice = random.Random(1)
    same: dict[str, list[bool]] = {"60 to 120 mm wide": [], "300 to 600 ppi": []}
    with tempfile.TemporaryDirectory() as folder, bar("lossless") as progress:
        path = Path(folder) / "paper.pdf"
        for done, case in enumerate(cases):
            progress(done, len(cases))
            picture = as_embedded(read_image(case.path))
            widths = (dice.uniform(60, 120) * POINTS, picture.shape[1] * 72 / dice.uniform(300, 600))
            for kind, width in zip(same, widths, strict=True):
                back = read_back(embed(path, picture, width, jpeg=False))
                same[kind].append(np.array_equal(back, picture) or _findings_equal(predictor, back, picture))
    for kind, found in same.items():
        print(f"  lossless, {kind}: {sum(found)} of {len(found)} give the findings of their PNG (bar: all)")


def packed_as_jpeg(
    predictor: ForgeryPredictor, truth: Truth[Any], cases: list[Case], journal: Path | None, end: float
) -> None:
    """Each figure as PNG and out of a PDF that holds it as JPEG, scored."""
    known: dict[str, Any] = {}
    if journal and journal.exists():
        known = {line["id"]: line for line in map(json.loads, journal.read_text().splitlines())}
    scores: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, bar("JPEG") as progress:
        path = Path(folder) / "paper.pdf"
        for done, case in enumerate(cases):
            progress(done, len(cases))
            if case.id not in known and time.monotonic() < end:
                picture = as_embedded(read_image(case.path))
                width = random.Random(case.id).uniform(60, 120) * POINTS
                back = read_back(embed(path, picture, width, jpeg=True))
                begun = time.process_time()
                answers = [predictor.predict(pixels).answer for pixels in (picture, back)]
                line = {"id": case.id, "scores": [score_one(answer, truth.read(case)) for answer in answers]}
                line |= {"processor seconds": round(time.process_time() - begun, 2)}
                known[case.id] = line
                if journal:
                    with journal.open("a") as stream:
                        stream.write(json.dumps(line) + "\n")
            if case.id in known:
                scores[case.id] = known[case.id]["scores"]
    for words, wanted in (("forgeries", True), ("twins", False)):
        found = [scores[case.id] for case in cases if case.id in scores and bool(truth.read(case)) == wanted]
        if found:
            before, after = np.mean(found, axis=0)
            numbers = f"PNG {before:.3f}, JPEG {QUALITY} {after:.3f} (bar: {before - 0.05:.3f})"
            print(f"  {len(found)} {words}, oF1: {numbers}; worse: {sum(two < one for one, two in found)}")
    times = [known[id]["processor seconds"] for id in scores]
    if times:
        print(f"  {len(scores)} of {len(cases)} figures, both ways: {sum(times):.0f} s of processor")


def _findings_equal(predictor: ForgeryPredictor, first: np.ndarray, second: np.ndarray) -> bool:
    return predictor.predict(first).answer == predictor.predict(second).answer


if __name__ == "__main__":
    main()
