"""Which pictures show bands: gels and blots, whose slopes are much stronger downwards than sideways."""

from __future__ import annotations

import cv2
import numpy as np

from handlens.challenges.forgery.detect.canvas.canvas import Canvas
from handlens.challenges.forgery.detect.findings import BoolArray, FloatArray, Panel

ACROSS = 1.6
"""A panel is a blot if its slopes are so much stronger downwards than sideways, squared: bands lie across. By hand."""

EDGE, BLUR, FEWEST = 13, 3.0, 576
"""Pixels across what is left out around marks and edges when bands are sought, the blur before that, and the fewest
pixels that are left. By hand."""


def look_for_bands(canvas: Canvas, panel: Panel, across: float = ACROSS) -> tuple[FloatArray, BoolArray] | None:
    """The blurred panel and its pixels away from marks and edges, where it shows bands; None where it does not."""
    open_ones = ~canvas.blocked[panel.window]
    inner = cv2.erode(open_ones.astype(np.uint8), np.ones((EDGE, EDGE)), borderValue=0) > 0
    if inner.sum() < FEWEST:
        return None
    soft = np.asarray(cv2.GaussianBlur(canvas.grey[panel.window], (0, 0), BLUR), np.float32)
    down, sideways = (cv2.Sobel(soft, cv2.CV_32F, *way)[inner] for way in ((0, 1), (1, 0)))
    return (soft, inner) if float((down**2).mean()) > across * float((sideways**2).mean()) else None
