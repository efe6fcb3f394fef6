"""Four scientific-image challenges, from a data folder to a valid, exactly scored submission."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlens.pipeline import Solved
    from handlens.types import Challenge, Recipe, Score

__all__ = ["challenge", "score", "solve", "train"]


def challenge(name: str) -> Challenge:
    """The challenge of this name: forgery, ink, cells, lesions, or a plug-in's.

    >>> import handlens
    >>> handlens.challenge("ink").title
    'Ink detection (Vesuvius)'
    """
    from handlens import registry

    return registry.challenge(name)


def score(
    name: str,
    file: str | Path,
    *,
    truth: str | Path,
    part: Literal["train", "test"] | None = None,
    **options: Any,
) -> Score:
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

    chosen = challenge(name)
    return pipeline.score(chosen, Path(file), Path(truth), chosen.settings(**options), part)


def solve(
    name: str,
    folder: str | Path,
    *,
    out: str | Path,
    form: Literal["csv", "parquet"] = "csv",
    part: Literal["train", "test"] | None = None,
    keep_going: bool = False,
    recipe: Recipe | None = None,
    model: str | Path | None = None,
    workers: int | None = 1,
    **options: Any,
) -> Solved:
    """Answer every case of a data folder into `out/submission.csv`, checked, and scored where truth is there.

    `model` is the folder of a `train`. With more than one of `workers`, or None for one on each core, call it under
    `if __name__ == "__main__":`, because the other processes import your script.

    >>> import handlens, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> handlens.challenge("cells").write_sample(folder, seed=1, cases=2, size=96, settings={})
    >>> solved = handlens.solve("cells", folder, out=folder / "out")
    >>> solved.submission.name, solved.cases, solved.score.value > 0.5
    ('submission.csv', 2, True)
    """
    from handlens import pipeline

    chosen = challenge(name)
    return pipeline.solve(
        chosen,
        Path(folder),
        Path(out),
        form=form,
        part=part,
        settings=chosen.settings(**options),
        recipe=recipe,
        model=None if model is None else Path(model),
        keep_going=keep_going,
        workers=workers,
    )


def train(name: str, folder: str | Path, *, run: str | Path, **options: Any) -> Mapping[str, float]:
    """Learn from the labelled cases of a data folder, for `solve` with `model=run`; gives what was measured."""
    from handlens import pipeline

    chosen = challenge(name)
    return pipeline.train(chosen, Path(folder), Path(run), settings=chosen.settings(**options))
