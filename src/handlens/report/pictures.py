"""Layers of a case as files that a browser shows: one picture each, or tiles at every scale for large ones."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from handlens.views import CaseView, Colour, Layer

Array = npt.NDArray[Any]

WHOLE_SIDE = 2048
"""Longest side of a picture that is shown as one; larger ones are cut into tiles, of which a screen needs a dozen."""

TILE = 512
"""Side of a tile: few enough files, small enough to come at once."""

THUMBNAIL = 360
"""Longest side of the small picture on a card: twice what it is shown at, for fine screens."""

SMALLEST_SIDE = 400
"""Longest side of marks above which there are smaller ones too: a phone is as wide."""

QUALITY, THUMBNAIL_QUALITY = 85, 80
"""Of JPEG: grain of papyrus and tissue stays visible."""

_KINDS = {"jpg": "jpeg", "png": "png"}


@dataclass(slots=True)
class PictureStore:
    """Where pictures go: into the page itself, or into a folder beside it; tiles always go there.

    `folder` lies beside the page and is made when it is needed.
    """

    folder: Path
    inline: bool
    written: int = field(default=0)

    def put(self, content: bytes, ending: str) -> str:
        """An address for the page: `data:`, or a file of the folder."""
        if self.inline:
            return f"data:image/{_KINDS[ending]};base64,{base64.b64encode(content).decode('ascii')}"
        return self.put_file(f"{self.number()}.{ending}", content)

    def put_file(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return quote(f"{self.folder.name}/{name}")

    def number(self) -> str:
        """A name that no other picture of the page has; nothing of a stranger's words is in it."""
        self.written += 1
        return f"{self.written:05d}"


def draw_case(view: CaseView, store: PictureStore) -> dict[str, Any]:
    """What the viewer needs of a case's pictures; no `layers` where there is no picture."""
    layers: list[dict[str, Any]] = []
    small: list[tuple[Layer, Array]] = []
    for layer in view.layers:
        shown, overview = _draw_layer(layer, store)
        layers.append(shown)
        small.append((layer, overview))
    page: dict[str, Any] = {"layers": layers, "slide": list(view.slide)}
    if layers:
        page |= {"width": layers[0]["width"], "height": layers[0]["height"]}
        seen = [small[0], *((layer, overview) for layer, overview in small[1:] if layer.name not in view.slide)]
        page["thumbnail"] = store.put(encode_jpeg(_thumbnail(seen), THUMBNAIL_QUALITY), "jpg")
    page["lines"] = [{"points": [*line.start, *line.end], "colour": hex_of(line.colour)} for line in view.lines]
    page["names"] = [{"text": name.text, "place": list(name.place)} for name in view.names]
    page["strips"] = [
        {"title": strip.title, "caption": strip.caption, "src": store.put(encode_jpeg(strip.pixels), "jpg")}
        for strip in view.strips
    ]
    return page


def hex_of(colour: Colour) -> str:
    """
    >>> hex_of((230, 159, 0))
    '#e69f00'
    """
    return "#{:02x}{:02x}{:02x}".format(*colour)


def encode_jpeg(pixels: Array, quality: int = QUALITY) -> bytes:
    """(H, W) or (H, W, 3) uint8."""
    import cv2

    bgr = pixels[:, :, ::-1] if pixels.ndim == 3 else pixels
    return bytes(cv2.imencode(".jpg", np.ascontiguousarray(bgr), [cv2.IMWRITE_JPEG_QUALITY, quality])[1])


def encode_marks(marks: Array, palette: Sequence[Colour]) -> bytes:
    """(H, W) numbers of colours as a PNG with a palette; 0 is transparent."""
    import io

    from PIL import Image

    numbers = np.ascontiguousarray(marks, np.uint8)
    indexed = Image.frombytes("P", (numbers.shape[1], numbers.shape[0]), numbers.tobytes())
    indexed.putpalette([0, 0, 0, *(value for colour in palette for value in colour)])
    stream = io.BytesIO()
    indexed.save(stream, "PNG", transparency=0, compress_level=4, bits=_bits(len(palette)))
    return stream.getvalue()


def _bits(colours: int) -> int:
    return 1 if colours < 2 else 2 if colours < 4 else 4 if colours < 16 else 8


def _draw_layer(layer: Layer, store: PictureStore) -> tuple[dict[str, Any], Array]:
    """What the viewer needs of a layer, and the layer at a small scale."""
    height, width = layer.shape
    page: dict[str, Any] = {
        "name": layer.name,
        "on": layer.on,
        "marks": bool(layer.palette),
        "colours": [hex_of(colour) for colour in layer.palette],
        "width": width,
        "height": height,
    }
    if max(layer.shape) > WHOLE_SIDE:
        pyramid = _Pyramid(layer, store)
        return {**page, **pyramid.write()}, pyramid.overview
    pixels = layer.read(0, height)
    content, ending = _encode(pixels, layer.palette)
    smaller = [store.put(*_encode(each, layer.palette)) for each in _smaller_marks(pixels)] if layer.palette else []
    return {**page, "src": store.put(content, ending), "smaller": smaller}, pixels


def _smaller_marks(marks: Array) -> Iterator[Array]:
    """Marks at a half, a quarter and so on: lines of a pixel, which a browser would let fade, stay seen."""
    while max(marks.shape) > SMALLEST_SIDE:
        marks = _halve(marks, marks=True)
        yield marks


def _encode(pixels: Array, palette: Sequence[Colour]) -> tuple[bytes, str]:
    return (encode_marks(pixels, palette), "png") if palette else (encode_jpeg(pixels), "jpg")


@dataclass(slots=True)
class _Pyramid:
    """Tiles of a layer at full size, half, a quarter and so on; a band of rows is in memory at each scale."""

    layer: Layer
    store: PictureStore
    overview: Array = field(default_factory=lambda: np.zeros((1, 1), np.uint8))

    def write(self) -> dict[str, Any]:
        name, ending = self.store.number(), "png" if self.layer.palette else "jpg"
        levels: list[dict[str, Any]] = []
        self._level(_bands(self.layer), self.layer.shape, 0, name, levels)
        return {"path": quote(f"{self.store.folder.name}/{name}"), "ending": ending, "tile": TILE, "levels": levels}

    def _level(
        self, bands: Iterator[Array], shape: tuple[int, int], level: int, name: str, levels: list[dict[str, Any]]
    ) -> None:
        """Write a scale's tiles while its rows come, and hand every two bands on, reduced to one."""
        height, width = shape
        rows, columns = -(-height // TILE), -(-width // TILE)
        levels.append({"columns": columns, "rows": rows, "there": ""})
        last = max(rows, columns) == 1
        reduced = self._written(bands, level, name, levels, keep=last)
        if last:
            for _ in reduced:
                continue
        else:
            self._level(_pairs(reduced), (-(-height // 2), -(-width // 2)), level + 1, name, levels)

    def _written(
        self, bands: Iterator[Array], level: int, name: str, levels: list[dict[str, Any]], *, keep: bool
    ) -> Iterator[Array]:
        for row, band in enumerate(bands):
            if keep:
                self.overview = band
            there = ""
            for column in range(levels[level]["columns"]):
                tile = band[:, column * TILE : (column + 1) * TILE]
                there += "1" if not self.layer.palette or tile.any() else "0"
                if there[-1] == "1":
                    content, ending = _encode(tile, self.layer.palette)
                    self.store.put_file(f"{name}/{level}-{column}-{row}.{ending}", content)
            levels[level]["there"] += there
            yield _halve(band, marks=bool(self.layer.palette))


def _bands(layer: Layer) -> Iterator[Array]:
    for top in range(0, layer.shape[0], TILE):
        yield layer.read(top, min(layer.shape[0], top + TILE))


def _pairs(bands: Iterator[Array]) -> Iterator[Array]:
    """Two half bands as one."""
    before: Array | None = None
    for band in bands:
        if before is None:
            before = band
        else:
            yield np.concatenate([before, band])
            before = None
    if before is not None:
        yield before


def _halve(band: Array, *, marks: bool) -> Array:
    """Half as high and wide, rounded up; marks do not fade: the highest of four stays."""
    import cv2

    height, width = band.shape[:2]
    padding = [(0, height % 2), (0, width % 2), *[(0, 0)] * (band.ndim - 2)]
    even = np.pad(band, padding, mode="edge") if height % 2 or width % 2 else band
    if marks:
        tall = np.maximum(even[0::2], even[1::2])
        return np.asarray(np.maximum(tall[:, 0::2], tall[:, 1::2]))
    size = (even.shape[1] // 2, even.shape[0] // 2)
    return np.asarray(cv2.resize(np.ascontiguousarray(even), size, interpolation=cv2.INTER_AREA))


def _thumbnail(layers: Sequence[tuple[Layer, Array]]) -> Array:
    """The picture at the size of a card, with the marks that are on."""
    import cv2

    base = layers[0][1]
    scale = min(1.0, THUMBNAIL / max(base.shape[:2]))
    size = max(1, round(base.shape[1] * scale)), max(1, round(base.shape[0] * scale))
    drawn = cv2.resize(np.ascontiguousarray(base), size, interpolation=cv2.INTER_AREA)
    drawn = np.repeat(drawn[:, :, None], 3, axis=2) if drawn.ndim == 2 else drawn
    for layer, marks in layers[1:]:
        if not layer.on:
            continue
        for number, colour in enumerate(layer.palette, 1):
            there = (marks == number).view(np.uint8) * np.uint8(255)
            share = cv2.resize(there, size, interpolation=cv2.INTER_AREA).astype(np.float32) / 255
            share = np.minimum(1, share * 2.5)[:, :, None]  # thin lines would fade away
            drawn = np.rint(drawn * (1 - share) + np.array(colour, np.float32) * share).astype(np.uint8)
    return np.asarray(drawn, np.uint8)
