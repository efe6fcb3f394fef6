"""What a challenge names but scoring never needs: its sample and its recipe, loaded when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from handlens.types import Recipe, WriteSample


def sample_of(package: str) -> WriteSample:
    """`write_sample` of the package's module `sample`."""

    def write_sample(folder: Path, /, *, seed: int, cases: int, size: int) -> None:
        import_module(f"{package}.sample").write_sample(folder, seed=seed, cases=cases, size=size)

    return write_sample


def recipe_of(package: str) -> Callable[[], Recipe]:
    """Gives `RECIPE` of the package's module `recipe`."""

    def make_recipe() -> Recipe:
        recipe: Recipe = import_module(f"{package}.recipe").RECIPE
        return recipe

    return make_recipe
