"""The predictor of a challenge: with its included model, one of a training, or the baseline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from handlens.errors import HandlensError, ModelError
from handlens.pipeline.runs import challenge_of_model
from handlens.settings import SettingsT
from handlens.types import AnswerT, Case, Challenge, Context, LabelT, Part, Predictor, Truth

Solver = Literal["model", "baseline"]


def load(
    challenge: Challenge[AnswerT, LabelT, SettingsT],
    *,
    settings: SettingsT | None = None,
    model: Path | None = None,
    solver: Solver = "model",
    training: Callable[[], Truth[LabelT] | None] = lambda: None,
    threads: int | None = None,
    untrusted: bool = False,
) -> Predictor[Any, AnswerT]:
    """The predictor of a challenge: with its included model, one of a `train`, or without any: the baseline.

    With `untrusted` its network runs in a sandbox; the answers are the same.
    """
    settings = challenge.settings() if settings is None else settings
    context = Context(settings, training, model, threads, untrusted)
    if untrusted and (solver == "baseline" or not challenge.sandboxed):
        what = "a baseline has no network" if solver == "baseline" else f"{challenge.name} has no ONNX model"
        raise HandlensError(f"{what}, so there is nothing to run in a sandbox: leave --untrusted out")
    if solver == "baseline":
        if model is not None:
            raise HandlensError("a baseline takes no model: leave --model out, or --solver baseline")
        if challenge.baseline is None:
            raise HandlensError(f"{challenge.name} has no baseline")
        return challenge.baseline(context)
    if model is not None:
        if challenge.train is None:
            raise ModelError(f"{challenge.name} takes no trained model: leave --model out")
        trained = challenge_of_model(model)
        if trained != challenge.name:
            raise ModelError(f"{model}: this model was trained for {trained}, not {challenge.name}")
    return challenge.load(context)


def training_truth(
    open_truth: Callable[[Path, SettingsT], Truth[LabelT]],
    read_cases: Callable[[Path, Part], list[Case]],
    folder: Path,
    settings: SettingsT,
) -> Truth[LabelT] | None:
    """Labelled cases to learn from, where the folder has some."""
    return open_truth(folder, settings) if read_cases(folder, "train") else None
