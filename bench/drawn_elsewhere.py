"""Honest figures that no plotting library drew: Pillow and OpenCV in place of matplotlib, as other programs draw.

Tables of words, flow charts, heat maps, dot plots, Venn diagrams, survival steps, phylogenetic trees, chemical
structures; with hard edges, or drawn larger and made smaller, as screenshots and exports are; some as JPEG. Nothing is
fitted to them. `draw_other_figure(seed, number)` is the same picture each time.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

Picture = np.ndarray
Rng = np.random.Generator
Colour = tuple[int, int, int]

GENES = ("ACTB", "GAPDH", "TP53", "MYC", "EGFR", "KRAS", "CDK4", "BRCA1", "PTEN", "STAT3", "AKT1", "MTOR", "RB1", "IL6")
GROUPS = ("control", "siRNA", "vehicle", "treated", "WT", "KO", "mock", "low", "high", "rescue")
INKS: tuple[Colour, ...] = ((0, 0, 0), (40, 40, 40), (200, 30, 30), (30, 80, 190), (20, 140, 60), (230, 150, 20))
FILLS: tuple[Colour, ...] = ((255, 255, 255), (221, 235, 247), (226, 239, 218), (255, 242, 204), (230, 230, 230))
SIDES = (420, 640, 900)
FINER = 3
"""How many times larger is drawn what is made smaller afterwards."""


class Sheet:
    """A white sheet; lengths are pixels of the finished picture, whatever the drawing's own scale is."""

    def __init__(self, rng: Rng, scale: int) -> None:
        self.rng, self.scale = rng, scale
        self.wide, self.high = (int(rng.choice(SIDES)) for _ in range(2))
        self.image = Image.new("RGB", (self.wide * scale, self.high * scale), "white")
        self.pen = ImageDraw.Draw(self.image)
        self.font = ImageFont.load_default(int(rng.integers(10, 18)) * scale)
        self.ink, self.fill = self.colour(INKS), self.colour(FILLS)
        self.width = int(rng.integers(1, 4)) * scale

    def colour(self, some: tuple[Colour, ...]) -> Colour:
        return some[int(self.rng.integers(len(some)))]

    def at(self, *numbers: float) -> list[int]:
        return [round(number * self.scale) for number in numbers]

    def line(self, *places: float, ink: Colour | None = None) -> None:
        self.pen.line(self.at(*places), fill=ink or self.ink, width=self.width)

    def box(self, left: float, top: float, right: float, bottom: float, fill: Colour | None = None) -> None:
        self.pen.rectangle(self.at(left, top, right, bottom), fill=fill, outline=self.ink, width=self.width)

    def oval(self, x: float, y: float, across: float, down: float, fill: Colour | None = None) -> None:
        self.pen.ellipse(
            self.at(x - across, y - down, x + across, y + down), fill=fill, outline=self.ink, width=self.width
        )

    def word(self, x: float, y: float, text: str | None = None) -> None:
        text = text or f"{self.rng.choice([*GENES, *GROUPS])}"
        self.pen.text(self.at(x, y), text, fill=(0, 0, 0), font=self.font, anchor="mm")


def word_table(sheet: Sheet) -> None:
    rows, columns = sheet.rng.integers((4, 2), (14, 7))
    words = [f"{word}" for word in sheet.rng.choice([*GENES, "yes", "no", "n.d.", "+", "++", "0.05"], 8)]
    for row in range(rows):
        for column in range(columns):
            left, top = (20 + column * (sheet.wide - 40) / columns, 20 + row * (sheet.high - 40) / rows)
            right, bottom = left + (sheet.wide - 40) / columns, top + (sheet.high - 40) / rows
            sheet.box(left, top, right, bottom, sheet.fill if row % 2 else None)
            sheet.word((left + right) / 2, (top + bottom) / 2, str(sheet.rng.choice(words)))


def flow_chart(sheet: Sheet) -> None:
    rows, columns = sheet.rng.integers((2, 1), (6, 5))
    across, down, round_ones = sheet.wide / columns, sheet.high / rows, sheet.rng.uniform() < 0.5
    for row in range(rows):
        for column in range(columns):
            x, y = (column + 0.5) * across, (row + 0.5) * down
            if round_ones:
                sheet.oval(x, y, 0.35 * across, 0.28 * down, sheet.fill)
            else:
                sheet.box(x - 0.35 * across, y - 0.28 * down, x + 0.35 * across, y + 0.28 * down, sheet.fill)
            sheet.word(x, y)
            if row:
                sheet.line(x, y - 0.72 * down, x, y - 0.28 * down)
                sheet.line(x - 6, y - 0.28 * down - 8, x, y - 0.28 * down, x + 6, y - 0.28 * down - 8)


def heat_map(sheet: Sheet) -> None:
    rows, columns = sheet.rng.integers((5, 5), (24, 20))
    values = sheet.rng.integers(0, 256, (rows, columns)).astype(np.uint8)
    shades = cv2.applyColorMap(values, int(sheet.rng.choice([cv2.COLORMAP_HOT, cv2.COLORMAP_JET, cv2.COLORMAP_BONE])))
    across, down = (sheet.wide - 80) / columns, (sheet.high - 40) / rows
    for row in range(rows):
        for column in range(columns):
            left, top = 70 + column * across, 10 + row * down
            shade = tuple(int(each) for each in shades[row, column])
            sheet.pen.rectangle(sheet.at(left, top, left + across - 1, top + down - 1), fill=shade)
        sheet.word(35, 10 + (row + 0.5) * down)


def dot_plot(sheet: Sheet) -> None:
    groups, radius = int(sheet.rng.integers(2, 8)), float(sheet.rng.uniform(2, 6))
    for group in range(groups):
        x = (group + 0.7) * sheet.wide / (groups + 0.5)
        heights = np.clip(sheet.rng.normal(sheet.rng.uniform(0.3, 0.7), 0.12, 25), 0.05, 0.95) * (sheet.high - 60)
        ink = sheet.colour(INKS)
        for height in heights:
            sheet.oval(x + sheet.rng.uniform(-18, 18), sheet.high - 40 - height, radius, radius, ink)
        middle = sheet.high - 40 - heights.mean()
        sheet.line(x - 24, middle, x + 24, middle)
        sheet.word(x, sheet.high - 15)
    axes(sheet)


def axes(sheet: Sheet) -> None:
    sheet.line(35, 10, 35, sheet.high - 35, sheet.wide - 10, sheet.high - 35)
    for tick in range(6):
        y = 20 + tick * (sheet.high - 60) / 5
        sheet.line(28, y, 35, y)
        sheet.word(14, y, f"{5 - tick}")


def venn(sheet: Sheet) -> None:
    count, radius = int(sheet.rng.integers(2, 4)), 0.27 * min(sheet.wide, sheet.high)
    for turn in np.arange(count) * 2 * np.pi / count:
        x, y = sheet.wide / 2 + 0.6 * radius * np.cos(turn), sheet.high / 2 + 0.6 * radius * np.sin(turn)
        sheet.oval(x, y, radius, radius)
        sheet.word(x + 0.5 * radius * np.cos(turn), y + 0.5 * radius * np.sin(turn), f"{sheet.rng.integers(5, 900)}")
    sheet.word(sheet.wide / 2, sheet.high / 2, f"{sheet.rng.integers(5, 90)}")


def survival(sheet: Sheet) -> None:
    axes(sheet)
    for _ in range(int(sheet.rng.integers(2, 5))):
        ink, x, y = sheet.colour(INKS), 35.0, 15.0
        while x < sheet.wide - 20 and y < sheet.high - 60:
            across, down = sheet.rng.exponential(sheet.wide / 25), sheet.rng.uniform(3, sheet.high / 25)
            sheet.line(x, y, x + across, y, x + across, y + down, ink=ink)
            if sheet.rng.uniform() < 0.5:
                sheet.line(x + across / 2, y - 4, x + across / 2, y + 4, ink=ink)
            x, y = x + across, y + down


def phylogeny(sheet: Sheet) -> None:
    count = int(sheet.rng.integers(6, 22))
    nodes = [(sheet.wide - 90.0, 15 + place * (sheet.high - 30) / count) for place in range(count)]
    for x, y in nodes:
        sheet.word(x + 45, y, f"{sheet.rng.choice(GENES)} {sheet.rng.integers(1, 9)}")
    while len(nodes) > 1:
        at = int(sheet.rng.integers(len(nodes) - 1))
        (right, high), (other, low) = nodes[at], nodes.pop(at + 1)
        x = max(15.0, min(right, other) - sheet.rng.uniform(0.3, 1) * (sheet.wide - 120) / count * 2)
        sheet.line(right, high, x, high, x, low, other, low)
        nodes[at] = (x, (high + low) / 2)


def structures(sheet: Sheet) -> None:
    """Rings of six with bonds and letters, as chemists draw them."""
    side = float(sheet.rng.uniform(18, 34))
    for _ in range(int(sheet.rng.integers(3, 12))):
        x, y = sheet.rng.uniform(70, sheet.wide - 70), sheet.rng.uniform(70, sheet.high - 70)
        turns = np.arange(7) * np.pi / 3 + np.pi / 6
        sheet.line(*np.column_stack([x + side * np.cos(turns), y + side * np.sin(turns)]).ravel().tolist())
        for bond in (0, 2, 4):
            ends = turns[bond : bond + 2]
            sheet.line(
                *np.column_stack([x + 0.8 * side * np.cos(ends), y + 0.8 * side * np.sin(ends)]).ravel().tolist()
            )
        out = turns[int(sheet.rng.integers(6))]
        tip = x + 1.9 * side * np.cos(out), y + 1.9 * side * np.sin(out)
        sheet.line(x + side * np.cos(out), y + side * np.sin(out), *tip)
        sheet.word(*tip, str(sheet.rng.choice(["OH", "NH2", "Cl", "CH3", "O", "F"])))


KINDS: Mapping[str, Callable[[Sheet], None]] = {
    "table of words": word_table,
    "flow chart": flow_chart,
    "heat map": heat_map,
    "dot plot": dot_plot,
    "Venn diagram": venn,
    "survival steps": survival,
    "phylogeny": phylogeny,
    "chemical structures": structures,
}


def draw_other_figure(seed: int, number: int) -> tuple[Picture, str]:
    """An honest figure (H, W, 3) uint8 and its kind, each kind in turn."""
    rng = np.random.default_rng([seed, number])
    kind = list(KINDS)[number % len(KINDS)]
    scale = FINER if rng.uniform() < 0.6 else 1
    sheet = Sheet(rng, scale)
    KINDS[kind](sheet)
    picture = sheet.image.resize((sheet.wide, sheet.high), Image.Resampling.LANCZOS) if scale > 1 else sheet.image
    return as_printed(np.asarray(picture), rng), kind


def as_printed(picture: Picture, rng: Rng) -> Picture:
    """Often made smaller, and packed as JPEG."""
    if rng.uniform() < 0.4:
        factor = float(rng.uniform(0.4, 0.95))
        how = (Image.Resampling.BICUBIC, Image.Resampling.LANCZOS, Image.Resampling.BILINEAR)[int(rng.integers(3))]
        size = (max(80, round(picture.shape[1] * factor)), max(80, round(picture.shape[0] * factor)))
        picture = np.asarray(Image.fromarray(picture).resize(size, how))
    if rng.uniform() < 0.65:
        packed = io.BytesIO()
        Image.fromarray(picture).save(packed, "JPEG", quality=int(rng.integers(60, 96)))
        picture = np.asarray(Image.open(packed))
    return np.ascontiguousarray(picture)
