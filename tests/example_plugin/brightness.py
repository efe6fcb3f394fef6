"""An example plug-in: is a picture bright or dark? One folder, one value, nothing to override."""

import csv
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from handlens.io.images import list_images, read_grey, read_header, write_png
from handlens.types import Case, CaseScore, Challenge, Codec, Inventory, Prediction, SampleDefaults, Score, Truth


def read_cases(folder, part):
    return [Case(path.stem, path, read_header(path).shape, group=path.stem) for path in list_images(folder / part)]


def open_truth(path, settings):
    folder = path if (path / "labels.csv").is_file() else path / "train"
    with (folder / "labels.csv").open(newline="") as stream:
        labels = {row["picture"]: row["word"] for row in csv.DictReader(stream)}
    cases = [Case(id, folder / f"{id}.png", group=id) for id in labels]
    return Truth(tuple(cases), lambda case: labels[case.id])


def survey(folder):
    return Inventory({part: f"{len(read_cases(folder, part))} pictures" for part in ("train", "test")}, ())


def write_sample(folder, /, *, seed, cases, size, settings):
    for number, (part, labels) in enumerate((("train", "train"), ("test", "truth"))):
        random = np.random.default_rng([seed, number])
        words = {}
        for index in range(cases):
            words[f"p{index}"] = ("dark", "bright")[index % 2]
            level = random.integers(140, 250) if index % 2 else random.integers(5, 110)
            write_png(
                folder / part / f"p{index}.png", random.integers(level - 5, level + 5, (size, size)).astype(np.uint8)
            )
        (folder / labels).mkdir(exist_ok=True)
        rows = "".join(f"{id},{word}\n" for id, word in words.items())
        (folder / labels / "labels.csv").write_text(f"picture,word\n{rows}")


def parse(cells, case):
    if cells[0] not in ("bright", "dark"):
        raise ValueError(f"{cells[0][:20]!r}; expected bright or dark")
    return cells[0]


def codec(settings):
    return Codec("picture", ("word",), parse, lambda answer, case: (answer,), {"empty": ("",), "other": ("grey",)})


def score(answers, truth, settings):
    cases = tuple(CaseScore(case.id, float(answers[case.id] == truth.read(case))) for case in truth.cases)
    share = sum(case.value for case in cases) / len(cases)
    return Score(share, {"share right": share}, cases)


class MeanPredictor:
    """Bright where the mean is above the middle."""

    model = None

    @contextmanager
    def decode(self, case, /):
        yield read_grey(case.path)

    def predict(self, picture, work=None, /):
        return Prediction("bright" if picture.mean() > 127 else "dark")

    def __call__(self, picture, /):
        given = read_grey(Path(picture)) if isinstance(picture, str | Path) else np.asarray(picture)
        return self.predict(given).answer


CHALLENGE = Challenge(
    name="brightness",
    title="Bright or dark",
    asks="Is the picture bright or dark?",
    metric="share of right answers",
    rules=Path(__file__),
    read_cases=read_cases,
    open_truth=open_truth,
    survey=survey,
    write_sample=write_sample,
    sample_defaults=SampleDefaults(cases=4, size=64),
    codec=codec,
    score=score,
    perfect=lambda label, case, settings: label,
    empty=lambda case, settings: "dark",
    load=lambda context: MeanPredictor(),
)
