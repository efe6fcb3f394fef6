"""Which photographs are near copies of each other: encoded again, resized, shifted a little, lighter or darker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import cv2
import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

SIDE = 64
"""Side of the thumbnails that are compared."""

MARGIN = 5
"""Pixels of a thumbnail that a copy may be shifted."""

COARSE = 8
"""Rows and columns of the lowest frequencies, which make up a photograph's hash."""

ALIKE = 0.9
"""Cosine of two hashes above which thumbnails are compared; a copy shifted by a twentieth of its side has more."""

SAME_SHAPE, SAME_DETAIL = 0.8, 0.6
"""Correlation of thumbnails, and of their details, above which two photographs are near copies."""

SAME_CORE = 0.5
"""The same for details in the middle, where there are fewer."""

SAME_TINT = 0.02
"""Difference of the shares of red, green and blue up to which two photographs may be copies."""

LOUDEST = 4.0
"""Grey levels at which details are cut off: one dark spot must not drown all else, for many lesions are such spots."""

SCALES = (1.0, 0.985, 1.015, 0.97, 1.03, 0.95, 1.05, 0.925, 1.075)
"""How much a copy may be enlarged, because it was cut at its edges."""

FLAT = 1.0
"""Deviation of details, in grey levels, below which there are none to compare."""

FLAT_DIFFERENCE = 4.0
"""Mean difference of pixels up to which photographs without details are copies."""

BLOCK = 2048
"""Photographs whose hashes are compared at once."""


def join_copies(pictures: Sequence[Bytes], groups: Sequence[str]) -> tuple[list[str], int]:
    """Groups such that near copies share one, and how many pairs of copies lay in different groups before.

    A joined group has the name that comes first.
    """
    first = {group: group for group in groups}

    def find(group: str) -> str:
        while first[group] != group:
            first[group] = first[first[group]]
            group = first[group]
        return group

    joined = 0
    for one, other in near_copies(pictures):
        joined += groups[one] != groups[other]
        left, right = sorted((find(groups[one]), find(groups[other])))
        first[right] = left
    return [find(group) for group in groups], joined


def near_copies(pictures: Iterable[Bytes]) -> list[tuple[int, int]]:
    """Pairs of numbers of near copies, the smaller first.

    Low frequencies find candidates; lesions look alike there, so the details decide.
    """
    thumbnails, tints = [], []
    for picture in pictures:
        thumbnails.append(_thumbnail(picture))
        tints.append(_tint(picture))
    if not thumbnails:
        return []
    hashes = np.stack([_hash(thumbnail) for thumbnail in thumbnails])
    return [pair for pair in _candidates(hashes, np.stack(tints)) if _is_copy(thumbnails[pair[0]], thumbnails[pair[1]])]


def _thumbnail(picture: Bytes) -> Floats:
    """(SIDE, SIDE) grey."""
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.resize(grey, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.float32)


def _tint(picture: Bytes) -> Floats:
    """Shares of red, green and blue in all light."""
    means = picture.reshape(-1, 3).mean(axis=0) + 1
    return np.asarray(means / means.sum(), np.float32)


def _hash(thumbnail: Floats) -> Floats:
    """The lowest frequencies but for the mean, as a direction: zero for a flat picture."""
    lowest = np.asarray(cv2.dct(thumbnail), np.float32)[:COARSE, :COARSE].ravel()[1:]
    length = float(np.linalg.norm(lowest))
    return lowest / np.float32(length) if length > 1 else np.zeros_like(lowest)


def _candidates(hashes: Floats, tints: Floats) -> Iterator[tuple[int, int]]:
    flat = (hashes == 0).all(axis=1).reshape(-1)
    for start in range(0, len(hashes), BLOCK):
        block = slice(start, start + BLOCK)
        near = (hashes[block] @ hashes.T > ALIKE) | (flat[block, None] & flat[None, :])
        rows, columns = np.nonzero(near)
        for row, column in zip((rows + start).tolist(), columns.tolist(), strict=True):
            if row < column and np.abs(tints[row] - tints[column]).max() < SAME_TINT:
                yield row, column


def _is_copy(one: Floats, other: Floats) -> bool:
    """Whether the middle of one thumbnail lies somewhere in the other, details and all."""
    inside = slice(MARGIN, SIDE - MARGIN)
    middle = one[inside, inside]
    if middle.std() < FLAT or other[inside, inside].std() < FLAT:
        return bool(np.abs(one - other).mean() <= FLAT_DIFFERENCE)
    if float(cv2.matchTemplate(other, middle, cv2.TM_CCOEFF_NORMED).max()) < SAME_SHAPE:
        return False
    fine = _details(other)
    if _details(one)[inside, inside].std() < FLAT or fine.std() < FLAT:
        return bool(_least_difference(other, middle) <= FLAT_DIFFERENCE)
    return any(_fits(_middle(one, scale), fine) for scale in SCALES)


def _details(picture: Floats) -> Floats:
    details = picture - cv2.GaussianBlur(picture, (0, 0), 2.0)
    return np.asarray(np.clip(details, -LOUDEST, LOUDEST), np.float32)


def _middle(picture: Floats, scale: float) -> Floats:
    """Details of the middle of a thumbnail that was enlarged so much."""
    side = round(SIDE * scale)
    resized = np.asarray(cv2.resize(picture, (side, side), interpolation=cv2.INTER_LINEAR), np.float32)
    begin = (side - SIDE) // 2 + MARGIN
    inside = slice(begin, begin + SIDE - 2 * MARGIN)
    return _details(resized)[inside, inside]


def _fits(part: Floats, picture: Floats) -> bool:
    """Whether details agree where they agree best, in the middle too: a dark rim is common to many photographs."""
    _, best, _, (left, top) = cv2.minMaxLoc(cv2.matchTemplate(picture, part, cv2.TM_CCOEFF_NORMED))
    if best < SAME_DETAIL:
        return False
    side = len(part)
    core = slice(side // 5, side - side // 5)
    one, other = part[core, core].ravel(), picture[top : top + side, left : left + side][core, core].ravel()
    if min(one.std(), other.std()) < FLAT:
        return bool(np.abs(one - other).mean() <= FLAT)
    return bool(np.corrcoef(one, other)[0, 1] >= SAME_CORE)


def _least_difference(picture: Floats, part: Floats) -> float:
    """Root of the mean squared difference where the part fits best."""
    return float(np.sqrt(max(0.0, cv2.matchTemplate(picture, part, cv2.TM_SQDIFF).min()) / part.size))
