"""Charts as SVG inside a page: lines, points, and a scale of scores. Colours come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from handlens.views import Chart

if TYPE_CHECKING:
    from markupsafe import Markup

WIDTH, HEIGHT = 560, 320
LEFT, RIGHT, TOP, BOTTOM = 68, 16, 14, 44
"""Container for the words at the axes."""

COLOURS = 8
"""Classes `s0` and so on of the style sheet; each has a dash of its own too."""

SCALE_HEIGHT, LANE, LETTER = 96, 20, 6.6
"""Of the scale of scores: its height without lanes, the height of a lane, the width of a letter."""

MOST_POINTS = 400
"""Of a line; a screen has no more columns."""


def ticks(low: float, high: float, *, most: int = 6) -> list[float]:
    """Round numbers within a range.

    >>> ticks(0, 1), ticks(0.62, 0.71, most=4)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.62, 0.64, 0.66, 0.68, 0.7])
    """
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.75)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def short(value: float) -> str:
    """A number as an axis has it.

    >>> short(0.2), short(12000), short(3)
    ('0.2', '12,000', '3')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 or value == round(value) else f"{value:.4g}"


class _Axes:
    """From numbers to places in a drawing."""

    def __init__(self, points: Sequence[tuple[float, float]], *, unit: bool) -> None:
        xs, ys = [x for x, _ in points] or [0.0, 1.0], [y for _, y in points] or [0.0, 1.0]
        self.x = (0.0, 1.0) if unit else _widened(min(xs), max(xs), 0.0)
        self.y = (0.0, 1.0) if unit else _widened(min(ys), max(ys), 0.05)

    def place(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return round(LEFT + across * (WIDTH - LEFT - RIGHT), 1), round(
            HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM), 1
        )


def _widened(low: float, high: float, share: float) -> tuple[float, float]:
    if low == high:
        return low - (abs(low) / 2 or 0.5), high + (abs(low) / 2 or 0.5)
    return low - share * (high - low), high + share * (high - low)


def draw_chart(chart: Chart) -> Markup:
    """A chart with axes and, where there are several series, their names."""
    from markupsafe import Markup, escape

    every = [point for points in chart.series.values() for point in points]
    axes = _Axes(every, unit=chart.diagonal)
    parts = [_frame(axes, str(escape(chart.x)), str(escape(chart.y)))]
    if chart.diagonal:
        (x1, y1), (x2, y2) = axes.place(0, 0), axes.place(1, 1)
        parts.append(f'<line class="guide" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')
    if chart.chosen is not None:
        x, top = axes.place(chart.chosen, axes.y[1])
        _, bottom = axes.place(chart.chosen, axes.y[0])
        parts.append(f'<line class="chosen" x1="{x}" y1="{top}" x2="{x}" y2="{bottom}"/>')
        anchor = "end" if x > WIDTH / 2 else "start"
        shift = -5 if x > WIDTH / 2 else 5
        label = f"chosen {chart.chosen:.3g}"
        parts.append(f'<text class="word" x="{x + shift}" y="{bottom - 8}" text-anchor="{anchor}">{label}</text>')
    for number, (name, points) in enumerate(chart.series.items()):
        words = chart.names.get(name, ())
        parts.append(_series(axes, points, number % COLOURS, [str(escape(word)) for word in words], chart.points))
    label = f"{chart.title}: {chart.y} against {chart.x}"
    legend = "" if len(chart.series) < 2 else _legend([str(escape(name)) for name in chart.series], chart.points)
    head = f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
    return Markup(f"{head}{''.join(parts)}</svg>{legend}")


def _frame(axes: _Axes, x_name: str, y_name: str) -> str:
    parts = []
    for value in ticks(*axes.x):
        x, y = axes.place(value, axes.y[0])
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{y}"/>')
        parts.append(f'<text x="{x}" y="{y + 15}" text-anchor="middle">{short(value)}</text>')
    for value in ticks(*axes.y, most=5):
        x, y = axes.place(axes.x[0], value)
        parts.append(f'<line class="grid" x1="{x}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end">{short(value)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="axis" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{x_name}</text>')
    at = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 14 {at})"'
    parts.append(f'<text class="axis" x="14" y="{at}" text-anchor="middle" {turned}>{y_name}</text>')
    return "".join(parts)


def _series(
    axes: _Axes, points: Sequence[tuple[float, float]], number: int, words: Sequence[str], as_points: bool
) -> str:
    few = points[:: max(1, -(-len(points) // MOST_POINTS))]
    places = [axes.place(x, y) for x, y in few]
    if as_points:
        parts = [f'<circle class="s{number}" cx="{x}" cy="{y}" r="5"/>' for x, y in places]
        parts += [
            f'<text class="word" x="{x + (8 if x < WIDTH - 150 else -8)}" y="{y + 4}" '
            f'text-anchor="{"start" if x < WIDTH - 150 else "end"}">{word}</text>'
            for (x, y), word in zip(places, words, strict=False)
        ]
        return "".join(parts)
    path = " ".join(f"{x},{y}" for x, y in places)
    dots = "".join(f'<circle class="dot s{number}" cx="{x}" cy="{y}" r="3"/>' for x, y in places if len(places) <= 12)
    return f'<polyline class="line s{number}" points="{path}"/>{dots}'


def _legend(names: Sequence[str], as_points: bool) -> str:
    def sign(number: int) -> str:
        colour = f"s{number % COLOURS}"
        if as_points:
            return f'<circle class="{colour}" cx="19" cy="4" r="4"/>'
        return f'<line class="line {colour}" x1="0" x2="24" y1="4" y2="4"/>'

    items = "".join(
        f'<li><svg viewBox="0 0 24 8" aria-hidden="true">{sign(number)}</svg>{name}</li>'
        for number, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'


def draw_scale(
    value: float,
    interval: tuple[float, float] | None,
    references: Sequence[tuple[str, float]],
    *,
    name: str = "this run",
) -> Markup:
    """Where a score lies between 0 and 1, its interval, and others to compare with, each with a line and a name."""
    from markupsafe import Markup, escape

    width, side = 760, 12
    low = min([0.0, value, *(number for _, number in references)])
    high = max([1.0, value, *(number for _, number in references)])

    def across(number: float) -> float:
        return round(side + (number - low) / (high - low) * (width - 2 * side), 1)

    lanes = _lanes([(across(number), f"{word} {number:.3f}") for word, number in references], width)
    base = 52 + LANE * (1 + max((lane for _, _, lane in lanes), default=-1))
    parts = [f'<line class="rail" x1="{side}" x2="{width - side}" y1="{base}" y2="{base}"/>']
    for number in ticks(low, high):
        x = across(number)
        parts.append(f'<text x="{x}" y="{base + 24}" text-anchor="middle">{short(number)}</text>')
        parts.append(f'<line class="tick" x1="{x}" x2="{x}" y1="{base}" y2="{base + 8}"/>')
    at = across(value)
    parts.append(f'<line class="here" x1="{at}" x2="{at}" y1="24" y2="{base - 7}"/>')  # names stand over it
    for x, words, lane in lanes:
        y = 44 + LANE * lane
        anchor, shift = ("start", 4) if x + LETTER * len(words) < width else ("end", -4)
        parts.append(f'<line class="reference" x1="{x}" x2="{x}" y1="{y - 10}" y2="{base}"/>')
        parts.append(f'<text class="word" x="{x + shift}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>')
    if interval:
        parts.append(
            f'<line class="interval" x1="{across(interval[0])}" x2="{across(interval[1])}" y1="{base}" y2="{base}"/>'
        )
    parts.append(f'<circle class="here" cx="{at}" cy="{base}" r="7"/>')
    anchor = "start" if at < 80 else "end" if at > width - 80 else "middle"
    parts.append(f'<text class="here" x="{at}" y="18" text-anchor="{anchor}">{escape(name)} {value:.4f}</text>')
    height = base + 32
    words = ", ".join(f"{word} {number:.4f}" for word, number in [(name, value), *references])
    label = escape(f"Scale of scores: {words}")
    return Markup(
        f'<svg class="scale" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )


def _lanes(references: Sequence[tuple[float, str]], width: float) -> list[tuple[float, str, int]]:
    """Each name with the first lane in which it covers no other."""
    found: list[tuple[float, str, int]] = []
    taken: list[list[tuple[float, float]]] = []
    for x, words in sorted(references):
        long = LETTER * len(words) + 8
        span = (x, x + long) if x + long < width else (x - long, x)
        lane = 0
        while lane < len(taken) and any(span[0] < end and start < span[1] for start, end in taken[lane]):
            lane += 1
        if lane == len(taken):
            taken.append([])
        taken[lane].append(span)
        found.append((x, words, lane))
    return found
