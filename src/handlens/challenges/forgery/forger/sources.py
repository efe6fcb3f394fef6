"""Clean pictures from a folder, with their objects: what forgeries are made of when there is more than textures."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np

from handlens.challenges.forgery.forger.textures import ByteArray, LabelArray, PaintedPanel
from handlens.errors import DataError
from handlens.io.images import list_images, read_header, read_image, shown
from handlens.types import Shape

LARGEST_ZOOM = 2.0
"""A picture is enlarged by at most this factor: more would only show its pixels."""

KEPT = 32
"""Pictures kept in memory after they were read."""

RELATIVES = 10
"""Pictures looked at to find those that pass for the same experiment."""


@dataclass(frozen=True, slots=True)
class CleanPicture:
    """One clean picture: its file, the file of its objects if there is one, its (height, width)."""

    picture: Path
    objects: Path | None
    shape: Shape


@dataclass(frozen=True, slots=True)
class Sources:
    """The clean pictures of a folder, sorted by name."""

    pictures: tuple[CleanPicture, ...]
    _read: dict[Path, tuple[ByteArray, LabelArray]] = field(default_factory=dict, compare=False, repr=False)

    def read(self, number: int) -> tuple[ByteArray, LabelArray]:
        """The picture (H, W, 3) and the number of the object at each pixel; 0 is none."""
        clean = self.pictures[number]
        if clean.picture not in self._read:
            picture = _read_picture(clean.picture)
            objects = _read_objects(clean) if clean.objects else cut_objects(picture)
            while len(self._read) >= KEPT:
                self._read.pop(next(iter(self._read)))
            self._read[clean.picture] = picture, objects
        return self._read[clean.picture]


def open_sources(folder: Path) -> Sources:
    """The pictures in a folder, or in its `microscopy` with label maps of the same stem in `microscopy_objects`."""
    pictures = list_images(folder) or list_images(folder / "microscopy")
    maps = {path.stem: path for path in list_images(folder / "microscopy_objects")}
    if not pictures:
        raise DataError("no PNG, JPEG or TIFF there, nor in `microscopy`: name a folder of clean pictures", file=folder)
    return Sources(tuple(CleanPicture(path, maps.get(path.stem), read_header(path).shape) for path in pictures))


def _read_picture(path: Path) -> ByteArray:
    """The picture as (H, W, 3); 16 bits are scaled by the largest value, as cameras of 12 bits fill a small part."""
    picture = read_image(path)
    if picture.dtype != np.uint8:
        picture = np.rint(picture * (255 / max(1, int(picture.max())))).astype(np.uint8)
    if picture.ndim == 2:
        picture = np.repeat(picture[:, :, None], 3, axis=2)
    return np.ascontiguousarray(picture[:, :, :3])


def _read_objects(clean: CleanPicture) -> LabelArray:
    assert clean.objects is not None
    labels = read_image(clean.objects)
    if labels.shape != clean.shape:
        raise DataError(
            f"{shown(labels.shape)}; expected one number a pixel, {shown(clean.shape)} as {clean.picture.name}: "
            "take the map away or mend it",
            file=clean.objects,
        )
    return labels.astype(np.int32)


def cut_objects(picture: ByteArray) -> LabelArray:
    """Objects by Otsu's threshold, for pictures without a label map: what is rarer, dark or bright, in pieces."""
    grey = cv2.GaussianBlur(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), (0, 0), 1.0)
    _level, above = cv2.threshold(grey, 0, 1, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    inside = above if above.mean() < 0.5 else 1 - above
    _count, labels, statistics, _centres = cv2.connectedComponentsWithStats(inside.astype(np.uint8), connectivity=4)
    areas = statistics[:, cv2.CC_STAT_AREA]
    kept = (areas >= 30) & (areas <= 0.05 * grey.size)
    kept[0] = False
    return np.asarray(np.where(kept[labels], labels, 0), np.int32)


@dataclass(frozen=True, slots=True)
class SourceBrush:
    """Gives panels of one experiment: pictures that look alike, each of them only once in a figure."""

    sources: Sources
    first: int
    scenery: int
    alike: bool
    used: set[int] = field(default_factory=set)

    def native(self, size: int) -> Shape:
        """The shape of the first picture, cut to `size`."""
        height, width = self.sources.pictures[self.first].shape
        return min(height, size), min(width, size)

    def __call__(self, shape: Shape, serial: int) -> PaintedPanel | None:
        """A panel of that shape; None where no picture that is left is large enough."""
        rng = np.random.default_rng([self.scenery, 3, serial])
        fits = [
            number
            for number, clean in enumerate(self.sources.pictures)
            if number not in self.used and _zoom(clean.shape, shape) <= LARGEST_ZOOM
        ]
        if not fits:
            return None
        number = self.first if self.first in fits else self._relative(fits, rng)
        self.used.add(number)
        return self._cut(number, shape, rng)

    def _relative(self, fits: list[int], rng: np.random.Generator) -> int:
        if not self.alike:
            return int(rng.choice(fits))
        like = self.sources.pictures[self.first].shape
        same = [number for number in fits if self.sources.pictures[number].shape == like] or fits
        some = rng.permutation(same)[:RELATIVES]
        want = _look(self.sources.read(self.first)[0])
        away = [float(np.abs(_look(self.sources.read(int(number))[0]) - want).sum()) for number in some]
        return int(some[int(np.argmin(away))])

    def _cut(self, number: int, shape: Shape, rng: np.random.Generator) -> PaintedPanel:
        picture, objects = self.sources.read(number)
        least = _zoom(objects.shape, shape)
        zoom = max(least, 1.0)
        if least < 0.9 and rng.uniform() < 0.5:  # a large picture made smaller, as figures often show it
            zoom = float(rng.uniform(max(least, 0.5), 1.0))
        if zoom != 1.0:
            size = (max(shape[1], round(objects.shape[1] * zoom)), max(shape[0], round(objects.shape[0] * zoom)))
            how = cv2.INTER_AREA if zoom < 1 else cv2.INTER_CUBIC
            picture = np.asarray(cv2.resize(picture, size, interpolation=how), np.uint8)
            small = objects.astype(np.float32)  # OpenCV resizes no 32-bit whole numbers
            objects = cv2.resize(small, size, interpolation=cv2.INTER_NEAREST_EXACT).astype(np.int32)
        top = int(rng.integers(objects.shape[0] - shape[0] + 1))
        left = int(rng.integers(objects.shape[1] - shape[1] + 1))
        window = (slice(top, top + shape[0]), slice(left, left + shape[1]))
        return PaintedPanel(picture[window].astype(np.float32), np.ascontiguousarray(objects[window]))


def _zoom(have: Shape, want: Shape) -> float:
    """The factor by which a picture must grow to fill a panel; below 1 it is larger."""
    return max(want[0] / have[0], want[1] / have[1])


def _look(picture: ByteArray) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Colour and contrast in a few numbers."""
    small = picture[::4, ::4].reshape(-1, 3).astype(np.float64)
    return np.concatenate([small.mean(axis=0), np.percentile(small.mean(axis=1), [5, 50, 99]) / 2])
