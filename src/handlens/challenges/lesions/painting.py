"""Synthetic photographs of skin: what each class tends to look like; how skin, lesion, hair and light are painted."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

Plane = npt.NDArray[np.float32]
"""One value per pixel; a Lab picture has three on its last axis (lightness 0 to 100, red, yellow)."""

Lab = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Look:
    """How a class is painted. Lengths are shares of the picture's shorter side.

    tint: factor on lightness, then shifts of red and yellow. ragged: how far the outline leaves a circle. soft: width
    of the edge. mottle: uneven colour, in units of lightness. blotches: further tints in patches. centre: tint of the
    middle. flecks: share covered by scales or crusts. dome: height, shown by shading. mimics: what it is taken for.
    """

    tint: Lab
    radius: tuple[float, float]
    ragged: float
    soft: float
    mottle: float
    mimics: tuple[str, ...]
    blotches: tuple[Lab, ...] = ()
    centre: Lab | None = None
    flecks: float = 0.0
    vessels: int = 0
    dome: float = 0.0


LOOKS = {
    "AK": Look((0.93, 13, 3), (0.10, 0.20), 0.25, 0.050, 4, ("SCC", "BCC", "NON"), flecks=0.16),
    "BCC": Look((0.98, 12, -3), (0.09, 0.17), 0.15, 0.030, 3, ("ON", "SCC", "AK"), vessels=7, dome=7),
    "SK": Look((0.66, 5, 7), (0.08, 0.19), 0.12, 0.008, 7, ("NV", "MEL", "AK"), flecks=0.06, dome=4),
    "SCC": Look((0.84, 19, 4), (0.11, 0.21), 0.18, 0.022, 5, ("AK", "BCC"), (), (0.75, 10, 12), 0.24, 0, 8),
    "VASC": Look((0.50, 24, -14), (0.06, 0.15), 0.10, 0.010, 6, ("MEL", "ON"), ((0.32, 12, -18),), dome=7),
    "DF": Look((0.72, 9, 5), (0.06, 0.11), 0.08, 0.035, 2, ("NV", "ON"), centre=(1.08, 3, -4)),
    "NV": Look((0.58, 8, 6), (0.06, 0.14), 0.07, 0.016, 3, ("MEL", "SK", "DF"), ((0.45, 7, 4),)),
    "NON": Look((0.92, 15, 1), (0.14, 0.30), 0.35, 0.090, 5, ("AK", "BCC"), ((0.97, 6, 1),), flecks=0.03),
    "MEL": Look((0.48, 7, 3), (0.09, 0.20), 0.26, 0.012, 6, ("NV", "SK"), ((0.22, 3, 1), (0.5, 0, -14), (0.75, 16, 2))),
    "ON": Look((1.02, 4, 0), (0.07, 0.15), 0.08, 0.020, 2, ("BCC", "DF", "NV"), vessels=2, dome=10),
}


def paint(
    look: Look, tone: Lab, shared: np.random.Generator, rng: np.random.Generator, *, size: int, close: bool
) -> npt.NDArray[np.uint8]:
    """A photograph as RGB; `close` is through a dermatoscope: larger, paler, bluer, without pores.

    `shared` is the randomness that the photographs of a lesion have in common: much the same outline and colours.
    """
    ratio = float(rng.choice((4 / 3, 3 / 2, 1.0), p=(0.7, 0.15, 0.15)))
    shape = (size, round(size * ratio))
    lab = _skin(tone, shape, rng, close)
    lab = _add_lesion(lab, look, shared, rng, close)
    _add_hairs(lab, rng)
    _add_pen(lab, rng)
    _light(lab, rng, close)
    lab = np.asarray(cv2.GaussianBlur(lab, (0, 0), size / 400 * float(rng.uniform(0.6, 1.8))), np.float32)
    lab += rng.normal(0, 0.7, lab.shape).astype(np.float32)
    rgb = cv2.cvtColor(lab, cv2.COLOR_LAB2RGB)
    return np.asarray(np.clip(rgb * 255 + 0.5, 0, 255), np.uint8)


def _noise(rng: np.random.Generator, shape: tuple[int, int], grain: float, stretch: float = 1.0) -> Plane:
    """Smooth noise around 0 with deviation near 1; `grain` is its coarseness in pixels, `stretch` times as wide."""
    rows = max(2, round(shape[0] / max(grain, 1)))
    columns = max(2, round(shape[1] / max(grain * stretch, 1)))
    field = rng.standard_normal((rows, columns), np.float32)
    return np.asarray(cv2.resize(field, shape[::-1], interpolation=cv2.INTER_CUBIC), np.float32)


def _step(values: Plane) -> Plane:
    """A soft step from 0 to 1, a half at 0."""
    return np.asarray(0.5 + 0.5 * np.tanh(values / 2), np.float32)


def _skin(tone: Lab, shape: tuple[int, int], rng: np.random.Generator, close: bool) -> Plane:
    """Skin with patches, fine lines, pores and a few freckles."""
    size = shape[0]
    lab = np.empty((*shape, 3), np.float32)
    lab[:] = np.add(tone, (9, 1, -14)) if close else tone
    patches = _noise(rng, shape, size / 4)
    lab += patches[:, :, None] * np.array([2.0, 1.2, 1.0], np.float32)
    flush = _noise(rng, shape, size / 14) * float(rng.uniform(0.5, 2.2))
    lab += flush[:, :, None] * np.array([-0.6, 1.0, 0.2], np.float32)
    relief = _noise(rng, shape, size / 70, float(rng.uniform(1, 3))) + _noise(rng, shape, size / 110)
    lab[:, :, 0] += relief * float(rng.uniform(0.5, 2.4)) * (0.4 if close else 1.0)
    freckles = np.clip(_noise(rng, shape, size / 26) - float(rng.uniform(1.6, 3.2)), 0, 1)
    lab += freckles[:, :, None] * np.array([-16, 3, 5], np.float32)
    return lab


def _add_lesion(lab: Plane, look: Look, shared: np.random.Generator, rng: np.random.Generator, close: bool) -> Plane:
    """Paint the lesion over the skin; what belongs to the lesion comes from `shared`, what to the shot from `rng`."""
    shape = lab.shape[:2]
    size = shape[0]
    depth, radius = _outline(shape, look, shared, rng, close)
    soft = look.soft * float(shared.uniform(0.7, 1.5)) / radius
    cover = _step(depth / soft * 2)[:, :, None]
    strength = float(np.clip(shared.normal(0.95, 0.25), 0.35, 1.35))
    layer = _tinted(lab, look.tint, strength)
    for tint in look.blotches:
        patch = _step(6 * (_noise(shared.spawn(1)[0], shape, radius * size * 0.6) - shared.uniform(0.1, 0.9)))
        layer += patch[:, :, None] * (_tinted(lab, tint, strength) - layer)
    if look.centre:
        middle = _step(12 * (depth - float(shared.uniform(0.4, 0.65))))
        layer += middle[:, :, None] * (_tinted(lab, look.centre, strength) - layer)
    layer[:, :, 0] += (
        look.mottle
        * float(shared.uniform(0.5, 1.3))
        * (_noise(rng, shape, size / 20) * 0.5 + _noise(rng, shape, size / 60) * 0.5)
    )
    _add_vessels(layer, look, depth, shared, rng)
    _add_flecks(layer, look, depth, shared, rng)
    _add_dome(layer, look, depth, rng)
    halo = np.exp(-np.square(np.minimum(depth, 0) * radius / 0.06))[:, :, None]
    lab = lab + halo * np.array([-1, float(shared.uniform(0, 6)), 0], np.float32)
    return np.asarray(lab + cover * (layer - lab), np.float32)


def _tinted(lab: Plane, tint: Lab, strength: float) -> Plane:
    """Skin under a tint; on dark skin a tint moves less, as there is less light to take."""
    factor = 1 + (tint[0] - 1) * strength
    shift = np.array([0, tint[1], tint[2]], np.float32) * np.float32(strength)
    return np.asarray(lab * np.array([factor, 1, 1], np.float32) + shift * (0.4 + lab[:, :, :1] / 110), np.float32)


def _outline(
    shape: tuple[int, int], look: Look, shared: np.random.Generator, rng: np.random.Generator, close: bool
) -> tuple[Plane, float]:
    """How deep inside the lesion a pixel lies: 1 in the middle, 0 on the edge, below 0 outside; and the radius."""
    size = shape[0]
    radius = float(shared.uniform(*look.radius)) * (float(rng.uniform(1.7, 2.3)) if close else 1.0)
    radius = min(radius, 0.42)
    middle = 0.5 + rng.normal(0, 0.03, 2)
    rows = (np.arange(shape[0], dtype=np.float32)[:, None] + 0.5) / size - middle[0]
    columns = (np.arange(shape[1], dtype=np.float32)[None, :] + 0.5) / size - middle[1] * shape[1] / size
    angle, stretch = float(shared.uniform(0, np.pi)), float(np.exp(shared.normal(0, 0.12 + 0.25 * look.ragged)))
    along = (columns * np.cos(angle) + rows * np.sin(angle)) / stretch
    across = (rows * np.cos(angle) - columns * np.sin(angle)) * stretch
    around = np.arctan2(across, along)
    edge = np.ones(shape, np.float32)
    for wave in range(2, 7):
        height = look.ragged * float(shared.normal(0, 0.6)) / wave**0.8
        edge += height * np.cos(wave * around + float(shared.uniform(0, 2 * np.pi)))
    edge += look.ragged * 0.35 * _noise(shared.spawn(1)[0], shape, size * radius * 0.3)
    edge += look.ragged * 0.12 * _noise(shared.spawn(1)[0], shape, size * radius * 0.1)
    distance = np.hypot(along, across)
    return np.asarray(1 - distance / (radius * np.maximum(edge, 0.3)), np.float32), radius


def _add_vessels(layer: Plane, look: Look, depth: Plane, shared: np.random.Generator, rng: np.random.Generator) -> None:
    """Fine red winding lines."""
    size = layer.shape[0]
    inside = np.argwhere(depth > 0.15)
    lines = np.zeros(layer.shape[:2], np.uint8)
    for _ in range(int(shared.poisson(look.vessels)) if len(inside) else 0):
        start = inside[int(rng.integers(len(inside)))][::-1]
        turns = np.cumsum(rng.normal(0, 0.5, 7)) + rng.uniform(0, 2 * np.pi)
        steps = np.stack([np.cos(turns), np.sin(turns)], 1).cumsum(axis=0) * size * 0.018
        cv2.polylines(lines, [np.round(start + steps).astype(np.int32)], False, 255, 1, cv2.LINE_AA)
    layer += (lines / np.float32(255))[:, :, None] * np.array([-9, 14, 2], np.float32)


def _add_flecks(layer: Plane, look: Look, depth: Plane, shared: np.random.Generator, rng: np.random.Generator) -> None:
    """Rough whitish or yellowish scales and crusts."""
    if not look.flecks:
        return
    shape = layer.shape[:2]
    rough = 0.6 * _noise(rng, shape, shape[0] / 22) + 0.7 * _noise(rng, shape, shape[0] / 65)
    limit = 1.15 - 3.2 * look.flecks * float(shared.uniform(0.3, 1.4))
    crust = np.clip((rough - limit) * 1.1, 0, 0.75) * _step(depth * 20)
    colour = np.array([76, 7, float(shared.uniform(8, 26))], np.float32)
    layer += np.asarray(crust, np.float32)[:, :, None] * (colour - layer)


def _add_dome(layer: Plane, look: Look, depth: Plane, rng: np.random.Generator) -> None:
    """Light from one side on a raised lesion, and a glint."""
    if not look.dome:
        return
    height = np.sqrt(np.clip(depth, 0, 1))
    down, right = (cv2.Sobel(height, cv2.CV_32F, *axis) / 8 for axis in ((0, 1), (1, 0)))
    angle = float(rng.uniform(0, 2 * np.pi))
    slope = (down * np.sin(angle) + right * np.cos(angle)) * layer.shape[0] * 0.12
    layer[:, :, 0] += look.dome * np.clip(slope, -1.5, 1.5)
    glint = np.clip(_noise(rng, depth.shape, layer.shape[0] / 40) + slope - 1.6, 0, 1) * (depth > 0.1)
    layer += np.asarray(glint, np.float32)[:, :, None] * np.array([30, -8, -6], np.float32) * (look.dome / 10)


def _add_hairs(lab: Plane, rng: np.random.Generator) -> None:
    """On some skin: bent dark hairs that lie roughly the same way."""
    if rng.random() > 0.45:
        return
    height, width = lab.shape[:2]
    drawn = np.zeros((height, width), np.uint8)
    direction, bend, thick = rng.uniform(0, 2 * np.pi), rng.normal(0, 0.12), max(1, round(height / 200))
    for _ in range(int(rng.integers(3, 28))):
        turns = direction + rng.normal(0, 0.35) + (bend + rng.normal(0, 0.06)) * np.arange(10)
        steps = np.stack([np.cos(turns), np.sin(turns)], 1).cumsum(axis=0) * height * rng.uniform(0.02, 0.06)
        points = steps - steps[5] + rng.uniform(0, 1, 2) * (width, height)
        dark = int(rng.integers(60, 256))  # a hair thinner than a pixel is a paler one
        cv2.polylines(drawn, [np.round(points * 8).astype(np.int32)], False, dark, thick, cv2.LINE_AA, 3)
    share = (drawn / np.float32(255))[:, :, None] * np.float32(rng.uniform(0.25, 0.7))
    lab += share * (np.array([14, 5, 6], np.float32) - lab)


def _add_pen(lab: Plane, rng: np.random.Generator) -> None:
    """Now and then the doctor has marked the place with a violet pen."""
    if rng.random() > 0.05:
        return
    height, width = lab.shape[:2]
    drawn = np.zeros((height, width), np.uint8)
    middle = (width // 2 + int(rng.normal(0, width / 30)), height // 2)
    axes = (round(height * rng.uniform(0.3, 0.42)), round(height * rng.uniform(0.28, 0.38)))
    first = float(rng.uniform(0, 360))
    thick = max(1, height // 50)
    cv2.ellipse(drawn, middle, axes, 0.0, first, first + float(rng.uniform(50, 280)), 255, thick, cv2.LINE_AA)
    share = (drawn / np.float32(255)) * np.clip(0.7 + 0.3 * _noise(rng, (height, width), height / 50), 0, 1)
    lab += share[:, :, None] * (np.array([30, 18, -26], np.float32) - lab)


def _light(lab: Plane, rng: np.random.Generator, close: bool) -> None:
    """Uneven light, dark corners, a cast of the lamp; sometimes the black rim of the dermatoscope."""
    height, width = lab.shape[:2]
    rows = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    columns = np.linspace(-1, 1, width, dtype=np.float32)[None, :]
    tilt = rng.normal(0, 0.03 if close else 0.09, 2)
    radius = np.square(rows) + np.square(columns)
    factor = (1 + tilt[0] * rows + tilt[1] * columns) * (1 - float(rng.uniform(0, 0.16)) * radius)
    factor *= float(rng.normal(1, 0.05))
    if close and rng.random() < 0.2:
        reach = np.square(rows) + np.square(columns * width / height)
        factor *= _step((float(rng.uniform(1.0, 1.7)) - reach) * 30)
    lab *= np.asarray(factor, np.float32)[:, :, None] ** np.array([1, 0.7, 0.7], np.float32)
    lab += rng.normal(0, (0, 1.5, 2.5)).astype(np.float32)
    np.clip(lab[:, :, 0], 0, 100, out=lab[:, :, 0])
