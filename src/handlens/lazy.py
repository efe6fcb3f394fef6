"""What a challenge names but scoring never needs: sample, recipe, training, judge, loaded when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from handlens.types import (
    Judge,
    Judgement,
    Limits,
    Progress,
    Recipe,
    Settings,
    Train,
    Truth,
    WriteSample,
)


def sample_of(package: str) -> WriteSample:
    """`write_sample` of the package's module `sample`."""

    def write_sample(folder: Path, /, *, seed: int, cases: int, size: int, settings: Settings) -> None:
        import_module(f"{package}.sample").write_sample(folder, seed=seed, cases=cases, size=size, settings=settings)

    return write_sample


def recipe_of(package: str) -> Callable[[], Recipe]:
    """Gives `RECIPE` of the package's module `predictor`."""

    def make_recipe() -> Recipe:
        recipe: Recipe = import_module(f"{package}.predictor").RECIPE
        return recipe

    return make_recipe


def train_of(package: str) -> Train:
    """`train` of the package's module `training`."""

    def train(folder: Path, run: Path, settings: Settings, progress: Progress, /) -> Mapping[str, float]:
        numbers: Mapping[str, float] = import_module(f"{package}.training").train(folder, run, settings, progress)
        return numbers

    return train


def judge_of(package: str) -> Judge:
    """`judge` of the package's module `judge`."""

    def judge(
        models: Sequence[Path], truth: Truth, settings: Settings, limits: Limits, progress: Progress, /
    ) -> Judgement:
        judgement: Judgement = import_module(f"{package}.judge").judge(models, truth, settings, limits, progress)
        return judgement

    return judge
