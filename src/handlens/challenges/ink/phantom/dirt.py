"""What lies on papyrus and is no ink: loose fibres, lumps, sand, smears.

It is as high and as rough as ink, in patches as wide as strokes: height or roughness alone do not tell, shape does.
"""

from __future__ import annotations

import cv2
import numpy as np

from handlens.challenges.ink.phantom.fields import Map, Plane, PlaneWindow, blur
from handlens.challenges.ink.phantom.ink import Coat

BEND = 12
"""Pixels by which a loose fibre may be bent."""


def scatter(plane: Plane, window: PlaneWindow, *, pen: float, scale: float) -> Coat:
    """Dirt in a window, in the terms of a coat; heights in 24ths of the stack."""
    smear = plane.smooth("smear", window, down=0.5 * pen, across=0.6 * pen) > 1.5
    sandy = _patches(plane, "sandy", window, pen, 1.5)
    frayed = _patches(plane, "frayed", window, pen, 1.4)
    lumps = np.clip(plane.smooth("lumps", window, down=8 * scale, across=10 * scale) - 1.9, 0, 1)
    sand = np.clip(plane.smooth("sand", window, down=1.9, across=1.9) - 0.5, 0, 2.5)
    much = 1 + 1.25 * max(0.0, scale - 0.6)  # broad strokes are easily told by their mean: there is more to mistake
    height = 4.5 * lumps + much * (3 * _fibres(plane, window, frayed, scale) + sandy * (0.3 + sand))
    fill = np.maximum(0.85 * blur(smear, down=2, across=2), 0.8 * sandy)
    return Coat(np.asarray(fill, np.float32), np.asarray(height, np.float32))


def _patches(plane: Plane, name: str, window: PlaneWindow, pen: float, rare: float) -> Map:
    """Spots about as wide as a stroke and longer, from 0 to 1."""
    field = plane.smooth(f"{name} where", window, down=0.4 * pen, across=0.4 * pen)
    return np.asarray(np.clip((field - rare) * 3 + 0.5, 0, 1), np.float32)


def _fibres(plane: Plane, window: PlaneWindow, frayed: Map, scale: float) -> Map:
    """Fibres that have come loose from both layers, bent; few everywhere, many in frayed patches."""
    wide = PlaneWindow(window.top - BEND, window.left - BEND, window.height + 2 * BEND, window.width + 2 * BEND)
    bends = [BEND / 3 * plane.smooth(f"bend {axis}", window, down=9, across=9) for axis in "xy"]
    x = np.arange(window.width, dtype=np.float32)[None, :] + BEND + np.clip(bends[0], -BEND, BEND)
    y = np.arange(window.height, dtype=np.float32)[:, None] + BEND + np.clip(bends[1], -BEND, BEND)
    loose = np.zeros(window.shape, np.float32)
    for name, down, across in (("loose across", 0.9, 11 * scale), ("loose along", 11 * scale, 0.9)):
        straight = plane.smooth(name, wide, down=down, across=across)
        bent = cv2.remap(straight, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        loose += np.clip(bent - 2.1 + 1.1 * frayed, 0, 1)
    return loose
