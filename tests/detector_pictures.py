"""Small pictures with known copies, and a decision that needs no file: for the tests of the forgery detector."""

import cv2
import numpy as np
import pytest

from handlens.challenges.forgery.detect.canvas import prepare
from handlens.challenges.forgery.detect.canvas.panels import PanelSplitter
from handlens.challenges.forgery.detect.findings import Match, Patch
from handlens.challenges.forgery.detect.geometry.points import interior
from handlens.challenges.forgery.detect.verifier.curves import Curve, LogisticVerifier
from handlens.challenges.forgery.detect.verifier.decision import FILE, Decision, included
from handlens.challenges.forgery.detect.verifier.tier import TIERS
from handlens.errors import ModelError

PLAIN = Decision(
    LogisticVerifier(
        {
            str(tier): Curve(("detail", "grain", "strength"), (1.2, 1.2, 3.2), (0.2, 0.2, 0.2), (1.0, 1.0, 4.0), 0.0)
            for tier in TIERS
        }
    ),
    worth=0.8,
)
"""Sure of a match of more than a few pixels whose detail and grain are alike, whatever was fitted."""


def shipped_or_skip():
    """The decision that comes with the program; tests that need it wait until it is there."""
    try:
        return included()
    except ModelError:
        pytest.skip(f"there is no {FILE} yet")


def texture(seed=0, shape=(200, 260), blur=2.0, contrast=45, level=128):
    """A grey picture of which no two places are alike, smooth enough to be turned without loss."""
    noise = np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)
    fine = cv2.GaussianBlur(noise, (0, 0), blur)
    return np.clip(level + contrast * fine / fine.std(), 0, 255).astype(np.float32)


PLACES = [(50, 50), (60, 150), (45, 250), (150, 60), (140, 160), (160, 250), (250, 50), (245, 150)]
"""Middles, as row and column, of the nuclei."""

FREE = (250, 250)
"""Where there is none."""


def nuclei(seed=0, places=PLACES):
    """Nuclei of like shape, each with a grain of its own, on a dark ground; and the mask of each."""
    random = np.random.default_rng(seed)
    picture, masks = random.normal(12, 1.5, (300, 300)).astype(np.float32), []
    for row, column in places:
        grain = cv2.GaussianBlur(random.normal(0, 1, (300, 300)).astype(np.float32), (0, 0), 1.6)
        mask = np.zeros((300, 300), np.uint8)
        cv2.ellipse(mask, (column, row), (22, 16), float(random.uniform(0, 180)), 0, 360, 1, cv2.FILLED)
        picture += cv2.GaussianBlur(mask.astype(np.float32), (0, 0), 1) * (110 + 120 * grain)
        masks.append(mask > 0)
    return np.clip(picture, 0, 255), masks


def similarity(turn=0.0, scale=1.0, mirror=False, *, around=(0.0, 0.0), to=(0.0, 0.0)):
    """Brings `around` to `to`, both x, y; mirrored left and right first, then turned clockwise in degrees."""
    angle = np.deg2rad(turn)
    linear = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    if mirror:
        linear = linear @ np.diag([-1.0, 1.0])
    return np.column_stack([linear, np.array(to) - linear @ np.array(around)])


def moved(matrix, point):
    return matrix[:, :2] @ np.asarray(point, float) + matrix[:, 2]


def inverse(matrix):
    return cv2.invertAffineTransform(np.asarray(matrix, np.float64))


def as_patch(mask):
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    inner = mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return Patch(int(rows[0]), int(columns[0]), np.ascontiguousarray(inner, bool))


def box(top, left, height, width):
    return Patch(top, left, np.ones((height, width), bool))


def painted(patch, shape):
    mask = np.zeros(shape, bool)
    patch.paint(mask)
    return mask


def centre(mask):
    rows, columns = np.nonzero(mask)
    return float(columns.mean()), float(rows.mean())


def paste(picture, mask, to, turn=0.0, scale=1.0, mirror=False, gain=0.95):
    """Copies what is under the mask so that its middle lies at `to` (row, column): picture, mask of the copy, matrix."""
    matrix = similarity(turn, scale, mirror, around=centre(mask), to=to[::-1])
    size = picture.shape[::-1]
    there = cv2.warpAffine(mask.astype(np.float32), matrix, size) > 0.5
    copy = gain * cv2.warpAffine(picture, matrix, size, flags=cv2.INTER_CUBIC)
    return np.clip(np.where(there, copy, picture), 0, 255).astype(np.float32), there, matrix


def stored(picture, noise=0.0, seed=9):
    """The picture as a file has it, with a little noise of its own."""
    random = np.random.default_rng(seed)
    return np.clip(np.rint(picture + random.normal(0, 1, picture.shape) * noise), 0, 255).astype(np.uint8)


def canvas_of(picture, side=1600):
    return prepare(stored(picture), side=side, enlargement=1.0, splitter=PanelSplitter())


def points_of(mask):
    return interior(as_patch(mask))


def f1(said, true):
    return 2 * (said & true).sum() / (said.sum() + true.sum())


def turn_between(one, other):
    """Degrees between two turns, whichever way round."""
    return abs((one - other + 180) % 360 - 180)


def match_of(source, copy, matrix=None, probability=0.9, tier="objects", **evidence):
    """A match as a tier gives it; the matrix is the move from middle to middle where none is given."""
    if matrix is None:
        matrix = similarity(around=source.centre, to=copy.centre)
    found = {"detail": 0.8, "grain": 0.8, "correlation": 0.9, "pixels": float(source.area)} | evidence
    return Match(source, copy, np.asarray(matrix, float), tier, found, probability)


def explains(match, matrix, mask, pixels=2.5):
    """Whether a match says what the matrix says, either way round, at all corners of what was copied."""
    patch = as_patch(mask)
    (rows, columns) = patch.window
    corners = [(x, y) for x in (columns.start, columns.stop) for y in (rows.start, rows.stop)]

    def furthest(said, true, some):
        return max(float(np.linalg.norm(moved(said, point) - moved(true, point))) for point in some)

    forward = furthest(match.matrix, matrix, corners)
    back = furthest(inverse(match.matrix), matrix, corners)
    return min(forward, back) < pixels
