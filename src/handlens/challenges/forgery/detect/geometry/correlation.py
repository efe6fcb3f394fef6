"""The one normalised correlation: of two samples, of many rows, around every pixel, and of a template in a window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from handlens.challenges.forgery.detect.findings import FloatArray

FLAT = 1e-3
"""Product of two standard deviations, in grey levels, up to which one of the samples is flat. Rule: far below a level
of the file."""

FLAT_WINDOW = 2.0**4
"""Product of two variances, in grey levels, up to which one of two windows is flat. By hand."""

INVERTED = -0.3
"""Correlation below which a copy has dark and bright exchanged. By hand."""

CERTAIN = 0.999
"""Correlations are clipped to this before Fisher's z, which is infinite at 1. Rule."""

Inner = Callable[[npt.NDArray[Any], npt.NDArray[Any]], Any]


def fisher(correlation: float) -> float:
    """A correlation as Fisher's z, in which equal steps are equally unlikely."""
    return float(np.arctanh(np.clip(correlation, -CERTAIN, CERTAIN)))


def sign_of(correlation: float) -> float:
    """-1 for a copy with dark and bright exchanged, which is one too; otherwise 1."""
    return -1.0 if correlation < INVERTED else 1.0


def dot(one: FloatArray, other: FloatArray) -> np.float64:
    """Inner product of two samples, as double: what `correlation` is made of."""
    return np.float64(one @ other)


def row_dot(ones: FloatArray, others: FloatArray) -> FloatArray:
    """Inner products of rows, in one pass."""
    return np.asarray(np.einsum("ij,ij->i", ones, others))


def row_sum(ones: FloatArray, others: FloatArray) -> FloatArray:
    """Inner products of rows, summed by halves."""
    return np.asarray((ones * others).sum(axis=1))


def cosine(ones: FloatArray, others: FloatArray, *, inner: Inner, flat: float = FLAT) -> npt.NDArray[Any]:
    """Normalised inner product along the last axis; 0 where one is flat, which is up to `flat` for each pixel.

    Of samples less their mean this is the correlation. The last digits depend on how products are summed, and limits
    were set with each of the three ways: `inner` says which (`dot` for one pair, `row_dot` and `row_sum` for rows).
    """
    spread = np.sqrt(inner(ones, ones) * inner(others, others))
    is_flat = ~(spread > flat * ones.shape[-1])
    return np.where(is_flat, 0, inner(ones, others) / np.where(is_flat, 1, spread))


def centred(rows: FloatArray) -> FloatArray:
    """Samples along the last axis less their mean."""
    return np.asarray(rows - rows.mean(axis=-1, keepdims=True))


def correlation(one: FloatArray, other: FloatArray) -> float:
    """Of two samples of the same places; 0 where one is flat.

    >>> correlation(np.array([1, 2, 3], np.float32), np.array([20, 40, 60], np.float32))
    1.0
    """
    return float(cosine(centred(one), centred(other), inner=dot))


def correlations(ones: FloatArray, others: FloatArray) -> FloatArray:
    """Of each row of samples with the same row of others; 0 where one is flat."""
    return np.asarray(cosine(centred(ones), centred(others), inner=row_dot), np.float32)


def local_correlation(one: FloatArray, other: FloatArray, window: int) -> FloatArray:
    """Of two pictures around each pixel; 0 where one of them is flat."""

    def mean(picture: FloatArray) -> FloatArray:
        return np.asarray(cv2.blur(picture, (window, window)), np.float32)

    first, second = mean(one), mean(other)
    spread = (mean(one * one) - first * first) * (mean(other * other) - second * second)
    both = mean(one * other) - first * second
    return np.where(spread > FLAT_WINDOW, both / np.sqrt(np.maximum(spread, FLAT)), 0).astype(np.float32)


def template_correlation(around: FloatArray, template: FloatArray) -> FloatArray | None:
    """Of a template with every place of a window; None where the template or the window is flat."""
    if template.std() < FLAT or around.std() < FLAT:
        return None
    table = np.asarray(cv2.matchTemplate(around, template, cv2.TM_CCOEFF_NORMED), np.float32)
    return np.clip(np.nan_to_num(table, nan=0.0, posinf=0.0, neginf=0.0), -1, 1)


def fit_tone(one: FloatArray, other: FloatArray) -> tuple[float, float]:
    """Gain and bias that make the second sample like the first; 1 and 0 where it is flat."""
    if other.std() <= FLAT:
        return 1.0, 0.0
    exact = other.size * np.finfo(np.float64).eps  # that of 32 bits drops the bias where there are 100,000 samples
    gain, bias = (float(number) for number in np.polyfit(other, one, 1, rcond=exact))
    return gain, bias
