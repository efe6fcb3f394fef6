"""Four scientific-image challenges: from an image, a volume or a data folder to an answer and its exact score.

`load` gives a predictor for a notebook; the other functions do what the commands of the same names do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlens.errors import Problem
    from handlens.pipeline import Solved
    from handlens.types import AnyChallenge, Judgement, Limits, Predictor, Progress, Score

__all__ = [
    "__version__",
    "challenge",
    "challenges",
    "check",
    "inspect",
    "judge",
    "load",
    "predict",
    "sample",
    "score",
    "solve",
    "train",
]

Part = Literal["train", "test"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("handlens")
    raise AttributeError(f"module 'handlens' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


def challenges() -> list[str]:
    """Names of all challenges: the built-in ones, then plug-ins.

    >>> import handlens
    >>> handlens.challenges()[:4]
    ['forgery', 'ink', 'cells', 'lesions']
    """
    from handlens import registry

    return registry.names()


def challenge(name: str) -> AnyChallenge:
    """The challenge of this name: forgery, ink, cells, lesions, or a plug-in's.

    >>> import handlens
    >>> handlens.challenge("ink").title
    'Ink detection (Vesuvius)'
    """
    from handlens import registry

    return registry.challenge(name)


def load(
    name: str,
    model: str | Path | None = None,
    *,
    solver: Literal["model", "baseline"] = "model",
    threads: int | None = None,
    untrusted: bool = False,
    **options: Any,
) -> Predictor[Any, Any]:
    """A predictor: call it on a numpy array, a PIL image or a path, and it gives a result.

    `model` is the folder of a `train`, None for the model that comes with the package; with `untrusted` its
    network runs in a sandbox, with the same answers. `options` are those of `handlens solve NAME --help`. Results have
    `_repr_html_`, so Jupyter draws them:

    cells    `.mask .labels .table .probability .overlay()`
    lesions  `.probabilities .label .risk .table`; call it with `age=`, `gender=` and `site=` where they are known
    forgery  `.is_forged .probability .groups .instances .table .overlay()`
    ink      `.probability_map .mask .overlay()`, of a folder or a (slices, H, W) array

    >>> import handlens, numpy
    >>> image = numpy.full((64, 96, 3), 255, numpy.uint8)  # a blank slide
    >>> result = handlens.load("cells")(image)
    >>> result.mask.shape, result.mask.any(), result.table["area"]
    ((64, 96), np.False_, [])
    """
    from handlens import pipeline

    chosen = challenge(name)
    folder = None if model is None else Path(model)
    settings = chosen.settings(**options)
    return pipeline.load(chosen, settings=settings, model=folder, solver=solver, threads=threads, untrusted=untrusted)


def sample(name: str, folder: str | Path, *, seed: int = 0, cases: int = 0, size: int = 0, **options: Any) -> Path:
    """Generated data in a challenge's true layout; `cases` and `size` are those of the demo where they are 0.

    >>> import handlens, pathlib, tempfile
    >>> folder = handlens.sample("cells", pathlib.Path(tempfile.mkdtemp()) / "slides", cases=1, size=64)
    >>> sorted(path.name for path in folder.iterdir())
    ['test', 'train', 'truth']
    """
    from handlens import pipeline
    from handlens.io.gate import place

    chosen = challenge(name)
    usual = chosen.sample_defaults
    count, side = cases or usual.cases, size or usual.size
    pipeline.sample(chosen, place(folder), seed=seed, cases=count, size=side, settings=chosen.settings(**options))
    return place(folder)


def check(name: str, file: str | Path, *, data: str | Path, part: Part | None = None, **options: Any) -> list[Problem]:
    """Every problem of a submission for the cases of a data folder; needs no labels.

    >>> import handlens, pathlib, tempfile
    >>> folder = handlens.sample("cells", pathlib.Path(tempfile.mkdtemp()) / "slides", cases=2, size=64)
    >>> _ = (folder / "mine.csv").write_text("img,pixels\\n0,1 1 5\\n")
    >>> for problem in handlens.check("cells", folder / "mine.csv", data=folder): print(problem)
    line 2, img 0: 3 numbers, so the last start has no length
    no row for img 1
    """
    from handlens import pipeline
    from handlens.io.gate import place

    chosen = challenge(name)
    return pipeline.check(chosen, place(file), place(data), chosen.settings(**options), part)


def score(name: str, file: str | Path, *, truth: str | Path, part: Part | None = None, **options: Any) -> Score:
    """The exact score of a submission file; `options` are those of `handlens score NAME --help`.

    SubmissionError lists every problem of a file that cannot be scored.

    >>> import handlens, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "truth.csv").write_text("img,pixels\\n0,1 4\\n1,\\n")
    >>> _ = (folder / "mine.csv").write_text("img,pixels\\n1,\\n0,1 2\\n")
    >>> result = handlens.score("cells", folder / "mine.csv", truth=folder / "truth.csv")
    >>> result.value, result.cases[0].value
    (0.8333333333333333, 0.6666666666666666)
    """
    from handlens import pipeline
    from handlens.io.gate import place

    chosen = challenge(name)
    return pipeline.score(chosen, place(file), place(truth), chosen.settings(**options), part)


def solve(
    name: str,
    folder: str | Path,
    *,
    out: str | Path,
    form: Literal["csv", "parquet"] = "csv",
    part: Part | None = None,
    solver: Literal["model", "baseline"] = "model",
    model: str | Path | None = None,
    keep_going: bool = False,
    overwrite: bool = False,
    workers: int | None = 1,
    cluster: str | None = None,
    deadline: float | str | None = None,
    untrusted: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Solved:
    """Answer every case of a data folder into `out/submission.csv`, checked, and scored where labels are there.

    `model` is the folder of a `train`; with `untrusted` it runs in a sandbox. With more than one of
    `workers`, or None for one on each core, call it under
    `if __name__ == "__main__":`, because the other processes import your script. In a notebook a progress bar shows.
    `cluster` is what `--cluster` takes, and shares the cases among other machines.
    `deadline`, in seconds or as `3h50m`, is when it is done, counted from the call: see `handlens solve --help`.

    >>> import handlens, pathlib, tempfile
    >>> folder = handlens.sample("cells", pathlib.Path(tempfile.mkdtemp()) / "slides", seed=1, cases=2, size=96)
    >>> solved = handlens.solve("cells", folder, out=folder / "out")
    >>> solved.submission.name, solved.cases, solved.score.value > 0.5
    ('submission.csv', 2, True)
    """
    from handlens import pipeline
    from handlens.inference.cluster_spec import open_executor
    from handlens.io.gate import place

    chosen = challenge(name)
    seconds = pipeline.read_duration(deadline) if isinstance(deadline, str) else deadline
    with open_executor(cluster, None if workers == 1 else workers) as executor, _progress(name, progress) as shown:
        return pipeline.solve(
            chosen,
            place(folder),
            place(out),
            form=form,
            part=part,
            settings=chosen.settings(**options),
            solver=solver,
            model=None if model is None else Path(model),
            keep_going=keep_going,
            overwrite=overwrite,
            workers=workers,
            executor=executor,
            deadline=None if seconds is None else pipeline.Deadline(seconds),
            untrusted=untrusted,
            progress=shown,
        )


def predict(run: str | Path, folder: str | Path, *, out: str | Path, **how: Any) -> Solved:
    """`solve` with the model of a `train`, which knows its challenge; `how` is as for `solve`."""
    from handlens import pipeline

    return solve(pipeline.challenge_of_model(Path(run)), folder, out=out, model=run, **how)


def train(
    name: str, folder: str | Path, *, run: str | Path, progress: Progress | None = None, **options: Any
) -> Mapping[str, float]:
    """Train on the labelled cases of a data folder, for `solve` with `model=run`; gives what was measured out of fold.

    `options` are those of `handlens train NAME --help`, such as `minutes=5` or `set={"seed": "3"}`.
    """
    from handlens import pipeline

    chosen = challenge(name)
    with _progress(name, progress) as shown:
        return pipeline.train(chosen, Path(folder), Path(run), settings=chosen.settings(**options), progress=shown)


def judge(
    name: str,
    models: Sequence[str | Path],
    *,
    data: str | Path,
    part: Part | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Judgement:
    """Run untrusted models on the labelled cases of a data folder, each in a sandbox, and rank them."""
    from handlens import pipeline
    from handlens.io.gate import place

    chosen = challenge(name)
    paths, settings = [place(model) for model in models], chosen.settings(**options)
    with _progress("judge", progress) as shown:
        return pipeline.judge(chosen, paths, place(data), settings, part=part, limits=limits, progress=shown)


def inspect(
    figures: str | Path | Sequence[str | Path],
    *,
    out: str | Path | None = None,
    seconds: float = 13.0,
    sensitivity: Literal["low", "normal", "high"] = "normal",
    workers: int = 1,
    cluster: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Look for copied regions in figures: files, PDFs, folders; the most suspicious record comes first.

    With `out`, pages that show them side by side are written there. `cluster` is what `--cluster` takes.
    """
    from handlens.challenges.forgery import inspection
    from handlens.inference.cluster_spec import open_executor
    from handlens.io.gate import place

    paths = [figures] if isinstance(figures, str | Path) else list(figures)
    target = None if out is None else place(out)
    started = None if workers == 1 else workers
    with open_executor(cluster, started) as executor, _progress("inspect", progress) as shown:
        return inspection.inspect_figures(
            [place(path) for path in paths],
            target,
            seconds=seconds,
            sensitivity=sensitivity,
            workers=workers,
            executor=executor,
            overwrite=overwrite,
            progress=shown,
        )


@contextmanager
def _progress(title: str, given: Progress | None) -> Iterator[Progress]:
    """The progress that was passed; otherwise a bar in a notebook, and nothing in a script."""
    from handlens.progress import bar, in_notebook
    from handlens.types import no_progress

    if given is not None or not in_notebook():
        yield given or no_progress
        return
    with bar(title) as progress:
        yield progress
