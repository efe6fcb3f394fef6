"""What a challenge names but scoring never needs: sample, recipe and training, loaded when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from handlens.types import Progress, Recipe, Settings, Train, WriteSample


def sample_of(package: str) -> WriteSample:
    """`write_sample` of the package's module `sample`."""

    def write_sample(folder: Path, /, *, seed: int, cases: int, size: int, settings: Settings) -> None:
        import_module(f"{package}.sample").write_sample(folder, seed=seed, cases=cases, size=size, settings=settings)

    return write_sample


def recipe_of(package: str) -> Callable[[], Recipe]:
    """Gives `RECIPE` of the package's module `recipe`."""

    def make_recipe() -> Recipe:
        recipe: Recipe = import_module(f"{package}.recipe").RECIPE
        return recipe

    return make_recipe


def train_of(package: str) -> Train:
    """`train` of the package's module `training`."""

    def train(folder: Path, run: Path, settings: Settings, progress: Progress, /) -> Mapping[str, float]:
        numbers: Mapping[str, float] = import_module(f"{package}.training").train(folder, run, settings, progress)
        return numbers

    return train
