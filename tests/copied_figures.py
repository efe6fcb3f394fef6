"""Figures with copied regions, and what a perfect detector says of them: for the tests of inspection."""

import cv2
import numpy as np

from handlens.challenges.forgery.detect.findings import Findings, Group, Match, Panel, Patch

SHAPE = (240, 320)


def disc(x, y, size, shape=SHAPE):
    """An ellipse as a patch."""
    mask = np.zeros(shape, np.uint8)
    cv2.ellipse(mask, (x, y), (size, round(0.7 * size)), 20, 0, 360, 1, cv2.FILLED)
    return cut(mask > 0)


def cut(mask):
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return Patch(int(rows[0]), int(columns[0]), mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].astype(bool))


def grain(shape=SHAPE, seed=0):
    """A picture without two equal places, smooth enough to be turned without loss."""
    random = np.random.default_rng(seed)
    field = cv2.GaussianBlur(random.normal(0, 1, (*shape, 3)).astype(np.float32), (0, 0), 2.5)
    return np.clip(128 + 300 * field, 0, 255).astype(np.float32)


def copy_region(picture, source, *, to, turn=0.0, scale=1.0, mirror=False, probability=0.9):
    """Paste a copy into the picture; the true match."""
    x, y = np.rint(source.centre)
    matrix = np.vstack([cv2.getRotationMatrix2D((x, y), -turn, scale), [0, 0, 1]])
    if mirror:
        matrix = matrix @ np.array([[-1, 0, 2 * x], [0, 1, 0], [0, 0, 1.0]])
    matrix[:2, 2] += to[0] - x, to[1] - y
    height, width = picture.shape[:2]
    mask = np.zeros((height, width), np.uint8)
    mask[source.window] = source.mask
    moved = cv2.warpAffine(picture, matrix[:2], (width, height), flags=cv2.INTER_CUBIC)
    there = cv2.warpAffine(mask, matrix[:2], (width, height), flags=cv2.INTER_NEAREST) > 0
    picture[there] = np.clip(moved[there], 0, 255)
    return Match(source, cut(there), matrix[:2], "keypoints", {"inliers": 34.0, "correlation": 0.974}, probability)


def forged():
    """A picture with a region copied twice and another once, and the findings; one doubtful group in them."""
    picture = grain()
    twice = disc(60, 60, 30)
    matches = (
        copy_region(picture, twice, to=(200, 70), probability=0.98),
        copy_region(picture, twice, to=(70, 180), turn=90, mirror=True, probability=0.97),
    )
    small = copy_region(picture, disc(280, 40, 10), to=(250, 200), turn=30, scale=1.12, probability=0.8)
    doubt = Match(disc(150, 200, 12), disc(190, 150, 12), np.array([[1, 0, 40.0], [0, 1, -50]]), "objects", {}, 0.3)
    findings = Findings(
        shape=SHAPE,
        panels=(Panel(0, 0, 240, 320, "picture"),),
        groups=(Group(matches, 0.98), Group((small,), 0.8)),
        doubtful=(Group((doubt,), 0.3),),
        probability=0.98,
    )
    return np.rint(picture).astype(np.uint8), findings


def nothing(shape, cut=()):
    return Findings(shape=shape, panels=(), groups=(), doubtful=(), probability=0.02, cut=cut)


def make_look():
    """A detector that knows `forged()` wherever it is stored without loss, and finds nothing elsewhere."""
    known, findings = forged()

    def look(picture):
        if picture.ndim == 3 and np.array_equal(picture[:, :, :3], known):
            return findings
        return nothing(picture.shape[:2])

    return look
