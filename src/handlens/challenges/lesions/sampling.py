"""How often a photograph is drawn in training: by its class, and by the folder that it comes from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from handlens.training.sources import Pool

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def draw_weights(codes: Codes, pooled: Pool[Any], power: float) -> tuple[float, ...]:
    """Sources are drawn by their weights, and classes as often as they would be from the first source alone.

    So a class that only one source has is not drawn less because of the others, and class offsets keep their meaning.
    `power` is that of the inverse class frequency.
    """
    source_of = np.array(pooled.source_of)
    own = within_sources(codes, source_of, power)
    drawn = np.array(pooled.draws(own.tolist()))
    first = source_of == 0
    count = int(codes.max()) + 1
    wanted = np.bincount(codes[first], own[first], minlength=count)
    found = np.bincount(codes, drawn, minlength=count)
    known = (wanted > 0) & (found > 0)
    factor = np.ones(count)
    factor[known] = wanted[known] / found[known] * (found[known].sum() / wanted[known].sum())
    return tuple((drawn * factor[codes]).tolist())


def within_sources(codes: Codes, source_of: npt.NDArray[Any], power: float) -> Floats:
    """How often each example is drawn, compared with one of the commonest class of its source."""
    often = np.ones(len(codes))
    for source in np.unique(source_of):
        own = source_of == source
        counts = np.bincount(codes[own])
        often[own] = (counts.max() / counts[codes[own]]) ** power
    return often
