"""Honest figures as journals print them: charts, diagrams, tables, alignments, alone or beside a photograph.

matplotlib draws them in many styles; then they are resized and packed as journals do it. Everything in them repeats by
nature, nothing is a copy. `draw_figure(seed, number)` is the same picture each time.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence

import cv2
import matplotlib as mpl
import numpy as np
from drawn_elsewhere import GENES, GROUPS, as_printed
from matplotlib import patches, style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

Picture = np.ndarray
Rng = np.random.Generator

STYLES = (
    *("default", "default", "default", "classic", "bmh", "ggplot", "grayscale", "fivethirtyeight", "dark_background"),
    *("seaborn-v0_8", "seaborn-v0_8-whitegrid", "seaborn-v0_8-ticks", "Solarize_Light2", "tableau-colorblind10"),
)
FONTS = ("DejaVu Sans", "DejaVu Sans", "DejaVu Serif", "DejaVu Sans Mono", "STIXGeneral", "cmss10")
COLOURS = (
    "tab:blue",
    "tab:orange",
    "tab:green",
    "tab:red",
    "tab:purple",
    "0.3",
    "0.6",
    "0.85",
    "black",
    "white",
    "gold",
)


# --- what one pair of axes shows --------------------------------------------------------------------------------------


def names(rng: Rng, count: int) -> list[str]:
    return [str(name) for name in rng.choice(GROUPS if count <= len(GROUPS) else GENES, count, replace=count > 10)]


def stars(ax: Axes, rng: Rng, places: Sequence[float], height: float) -> None:
    """Brackets with stars, as between groups that differ."""
    for _ in range(int(rng.integers(0, 4))):
        low, high = sorted(rng.choice(len(places), 2, replace=False))
        height *= 1.08
        ax.plot([places[low]] * 2 + [places[high]] * 2, [height, height * 1.02, height * 1.02, height], "k", lw=0.8)
        ax.text((places[low] + places[high]) / 2, height * 1.01, str(rng.choice(["*", "**", "***", "ns"])), ha="center")


def bars(ax: Axes, rng: Rng) -> None:
    count, series = int(rng.integers(2, 8)), int(rng.integers(1, 4))
    width, places = 0.8 / series, np.arange(count)
    hatches = [None, "//", "..", "xx"] if rng.uniform() < 0.3 else [None] * 4
    top = 0.0
    for number in range(series):
        values = rng.uniform(0.2, 1, count) * rng.choice([1, 10, 100])
        errors = values * rng.uniform(0.02, 0.2, count)
        edge = str(rng.choice(["black", "none"]))
        ax.bar(places + number * width, values, width, yerr=errors, capsize=rng.uniform(0, 5), edgecolor=edge,
               hatch=hatches[number], label=names(rng, 1)[0])  # fmt: skip
        top = max(top, float((values + errors).max()))
        if rng.uniform() < 0.3:
            for place in places:
                dots = values[place] + errors[place] * rng.normal(0, 1, 6)
                ax.plot(place + number * width + rng.uniform(-0.2, 0.2, 6) * width, dots, "ko", ms=3, mfc="w")
    stars(ax, rng, places.tolist(), top)
    ax.set_xticks(places + 0.4 - width / 2, names(rng, count), rotation=int(rng.choice([0, 45, 90])))
    if rng.uniform() < 0.5:
        ax.legend()


def lines(ax: Axes, rng: Rng) -> None:
    x = np.linspace(0, rng.uniform(5, 100), int(rng.integers(5, 60)))
    for _ in range(int(rng.integers(1, 6))):
        y = np.cumsum(rng.normal(0.1, 0.3, len(x)))
        marker = str(rng.choice(["", "o", "s", "^", "D"]))
        if rng.uniform() < 0.5:
            ax.errorbar(
                x, y, yerr=rng.uniform(0.05, 0.4), marker=marker, capsize=rng.uniform(0, 4), label=names(rng, 1)[0]
            )
        else:
            ax.plot(x, y, marker=marker, label=names(rng, 1)[0])
            if rng.uniform() < 0.4:
                ax.fill_between(x, y - 0.3, y + 0.3, alpha=0.3)
    ax.legend()


def scatter(ax: Axes, rng: Rng) -> None:
    for _ in range(int(rng.integers(1, 6))):
        count = int(10 ** rng.uniform(1, 3.3))
        middle, slope = rng.uniform(-3, 3, 2), rng.uniform(-0.8, 0.8)
        x, y = rng.multivariate_normal(middle, [[1, slope], [slope, 1]], count).T
        edge = str(rng.choice(["none", "black", "white"]))
        ax.scatter(
            x, y, s=rng.uniform(4, 60), alpha=float(rng.choice([0.4, 1])), edgecolors=edge, label=names(rng, 1)[0]
        )
    if rng.uniform() < 0.4:
        ax.legend(markerscale=2)


def coloured_scatter(ax: Axes, rng: Rng) -> None:
    count = int(10 ** rng.uniform(1.5, 3.3))
    x, y = rng.normal(0, 1, (2, count)) + rng.choice([-3, 0, 3], (2, count))
    drawn = ax.scatter(
        x,
        y,
        c=x * y + rng.normal(0, 1, count),
        s=rng.uniform(3, 40),
        cmap=str(rng.choice(["viridis", "coolwarm", "magma"])),
    )
    ax.figure.colorbar(drawn, ax=ax)


def boxes(ax: Axes, rng: Rng) -> None:
    count = int(rng.integers(2, 9))
    data = [rng.normal(rng.uniform(0, 3), rng.uniform(0.5, 1.5), 40) for _ in range(count)]
    if rng.uniform() < 0.5:
        shown = ax.boxplot(data, patch_artist=True, notch=bool(rng.uniform() < 0.3))
        for box in shown["boxes"]:
            box.set_facecolor(str(rng.choice(COLOURS)))
    else:
        ax.violinplot(data, showmedians=True)
    if rng.uniform() < 0.4:
        for number, values in enumerate(data, 1):
            ax.plot(number + rng.uniform(-0.15, 0.15, len(values)), values, ".", color="k", ms=rng.uniform(2, 5))
    ax.set_xticks(range(1, count + 1), names(rng, count), rotation=int(rng.choice([0, 45])))


def heat_map(ax: Axes, rng: Rng) -> None:
    rows, columns = int(rng.integers(4, 30)), int(rng.integers(4, 16))
    values = rng.normal(0, 1, (rows, columns))
    drawn = ax.imshow(values, cmap=str(rng.choice(["viridis", "RdBu_r", "Greys", "hot", "bwr"])), aspect="auto")
    if rng.uniform() < 0.6:
        for row in range(rows):
            for column in range(columns):
                ax.text(column, row, f"{values[row, column]:.1f}", ha="center", va="center", fontsize=6)
    if rng.uniform() < 0.4:
        ax.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
        ax.grid(which="minor", color="w", lw=1)
    ax.set_yticks(range(rows), [str(rng.choice(GENES)) for _ in range(rows)], fontsize=6)
    ax.figure.colorbar(drawn, ax=ax)


def table(ax: Axes, rng: Rng) -> None:
    ax.axis("off")
    rows, columns = int(rng.integers(4, 18)), int(rng.integers(3, 8))
    content = int(rng.integers(3))
    cells = [[_cell(rng, content) for _ in range(columns)] for _ in range(rows)]
    shaded = [["0.9" if row % 2 and content else "w"] * columns for row in range(rows)]
    shown = ax.table(cells, colLabels=names(rng, columns), rowLabels=[str(rng.choice(GENES)) for _ in range(rows)],
                     cellColours=shaded, loc="center", cellLoc="center")  # fmt: skip
    shown.auto_set_font_size(False)
    shown.set_fontsize(rng.uniform(6, 11))
    shown.scale(1, rng.uniform(0.9, 1.6))


def _cell(rng: Rng, content: int) -> str:
    if content == 0:
        return f"{rng.uniform(0, 100):.1f} ± {rng.uniform(0, 9):.1f}"
    return str(rng.choice(["+", "-", "++", "n.d.", "yes", "no"])) if content == 1 else f"{rng.normal():.3f}"


def survival(ax: Axes, rng: Rng) -> None:
    for _ in range(int(rng.integers(2, 5))):
        times = np.sort(rng.exponential(rng.uniform(20, 80), 60))
        left = 1 - np.arange(60) / 60
        ax.step(times, left, where="post", label=names(rng, 1)[0])
        gone = rng.choice(60, 12)
        ax.plot(times[gone], left[gone], "|" if rng.uniform() < 0.5 else "+", color="k", ms=6)
    ax.set_ylim(0, 1.05)
    ax.legend(frameon=False)
    if rng.uniform() < 0.6:
        rows = [[str(int(rng.integers(0, 99))) for _ in range(5)] for _ in range(2)]
        ax.table(rows, loc="bottom", bbox=[0, -0.45, 1, 0.2], edges="open")


def volcano(ax: Axes, rng: Rng) -> None:
    change = rng.normal(0, 1.2, int(rng.integers(300, 3000)))
    unlikely = np.abs(change) * rng.exponential(1.2, len(change))
    colours = np.where((unlikely > 2) & (change > 1), "r", np.where((unlikely > 2) & (change < -1), "b", "0.6"))
    ax.scatter(change, unlikely, c=colours, s=rng.uniform(2, 14))
    ax.axhline(2, ls="--", c="k", lw=0.7)
    for side in (-1, 1):
        ax.axvline(side, ls="--", c="k", lw=0.7)
    for number in np.argsort(-unlikely)[: int(rng.integers(0, 12))]:
        ax.annotate(str(rng.choice(GENES)), (change[number], unlikely[number]), fontsize=7)


def forest(ax: Axes, rng: Rng) -> None:
    count = int(rng.integers(5, 18))
    middle, half = rng.normal(1, 0.4, count), rng.uniform(0.1, 0.6, count)
    ax.errorbar(middle, range(count), xerr=half, fmt="s", color="k", capsize=rng.uniform(0, 3), ms=rng.uniform(3, 7))
    ax.axvline(1, ls=":", c="0.5")
    words = [f"{m:.2f} ({m - h:.2f}-{m + h:.2f})" for m, h in zip(middle, half, strict=True)]
    ax.set_yticks(range(count), [f"{rng.choice(GENES)}   {word}" for word in words], fontsize=7)


def histogram(ax: Axes, rng: Rng) -> None:
    for _ in range(int(rng.integers(1, 4))):
        ax.hist(
            rng.normal(rng.uniform(-2, 2), 1, 800), bins=int(rng.integers(10, 60)), alpha=0.6, edgecolor="k", lw=0.4
        )


def pie(ax: Axes, rng: Rng) -> None:
    count = int(rng.integers(3, 8))
    ax.pie(rng.uniform(0.2, 1, count), labels=names(rng, count), autopct="%.0f%%", shadow=bool(rng.uniform() < 0.3))


def cytometry(ax: Axes, rng: Rng) -> None:
    """A density of events in colours, with gates and their shares."""
    x, y = np.concatenate([rng.normal(rng.uniform(0, 4, (2, 1)), 0.6, (2, 4000)) for _ in range(3)], axis=1)
    ax.hexbin(x, y, gridsize=int(rng.integers(30, 120)), cmap="jet", mincnt=1)
    for spot in rng.uniform(0, 3, (2, 2)):
        ax.add_patch(patches.Rectangle(spot, 1.5, 1.5, fill=False))
        ax.text(*spot, f"{rng.uniform(0, 99):.1f}")


def contours(ax: Axes, rng: Rng) -> None:
    x, y = np.meshgrid(np.linspace(-3, 3, 60), np.linspace(-3, 3, 60))
    z = np.sin(x * rng.uniform(0.5, 2)) * np.cos(y * rng.uniform(0.5, 2)) + 0.1 * x
    (ax.contourf if rng.uniform() < 0.5 else ax.contour)(x, y, z, levels=int(rng.integers(6, 20)))


def flow_chart(ax: Axes, rng: Rng) -> None:
    """Boxes or ovals of one size with words in them, and arrows between them."""
    ax.axis("off")
    ax.set(xlim=(0, 10), ylim=(0, 10))
    rows, columns = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    form, colour = (
        str(rng.choice(["round", "square", "oval"])),
        str(rng.choice(["w", "lightblue", "0.85", "wheat", "tab:green"])),
    )
    places = [(10 * (c + 0.5) / columns, 10 * (1 - (r + 0.5) / rows)) for r in range(rows) for c in range(columns)]
    wide, high = 6.5 / columns, 5 / rows
    for number, (x, y) in enumerate(places):
        if form == "oval":
            ax.add_patch(patches.Ellipse((x, y), wide, high, fc=colour, ec="k", lw=rng.uniform(0.8, 2)))
        else:
            ax.add_patch(
                patches.FancyBboxPatch(
                    (x - wide / 2, y - high / 2), wide, high, boxstyle=f"{form},pad=0.05", fc=colour, ec="k"
                )
            )
        ax.text(x, y, f"{rng.choice(GENES)}\n(n = {rng.integers(5, 200)})", ha="center", va="center")
        if number:
            ax.annotate(
                "",
                (x, y + high / 2),
                (places[number - 1][0], places[number - 1][1] - high / 2),
                arrowprops={"arrowstyle": "->"},
            )


def pathway(ax: Axes, rng: Rng) -> None:
    """Shaded ovals, membranes of little circles, receptors, as cartoons of cells have them."""
    ax.axis("off")
    ax.set(xlim=(0, 10), ylim=(0, 10))
    ax.add_patch(patches.Ellipse((5, 4.5), 9, 8, fc=str(rng.choice(["#fde9d9", "#e8f1fa", "#f4f4f4"])), ec="0.5"))
    for x in np.linspace(0.4, 9.6, int(rng.integers(15, 40))):
        ax.add_patch(patches.Circle((x, 8.8), 0.12, fc="orange", ec="k", lw=0.5))
        ax.plot([x, x], [8.68, 8.3], "k", lw=0.6)
    glow = np.exp(-(np.linspace(-2, 2, 60)[:, None] ** 2 + np.linspace(-2, 2, 60) ** 2))
    for _ in range(int(rng.integers(4, 12))):
        x, y = rng.uniform(1.5, 8.5), rng.uniform(1.5, 7.5)
        if rng.uniform() < 0.5:
            ax.imshow(
                glow,
                extent=(x - 0.8, x + 0.8, y - 0.5, y + 0.5),
                cmap=str(rng.choice(["Blues", "Reds"])),
                aspect="auto",
                zorder=3,
            )
        else:
            ax.add_patch(patches.Ellipse((x, y), 1.6, 0.9, fc=str(rng.choice(COLOURS)), ec="k", zorder=3))
        ax.text(x, y, str(rng.choice(GENES)), ha="center", va="center", fontsize=7, zorder=4)
    ax.set(xlim=(0, 10), ylim=(0, 10))


def alignment(ax: Axes, rng: Rng) -> None:
    """Sequences of letters under each other, conserved columns shaded."""
    ax.axis("off")
    rows, columns = int(rng.integers(4, 14)), int(rng.integers(20, 60))
    letters = np.array(list("ACDEFGHIKLMNPQRSTVWY" if rng.uniform() < 0.6 else "ACGT"))
    first = rng.choice(letters, columns)
    ax.set(xlim=(-6, columns), ylim=(-rows - 1, 1))
    size = rng.uniform(5, 9)
    for row in range(rows):
        ax.text(-6, -row, str(rng.choice(GENES)), fontsize=size, family="monospace", va="center")
        for column, letter in enumerate(
            np.where(rng.uniform(size=columns) < 0.75, first, rng.choice(letters, columns))
        ):
            if letter == first[column]:
                ax.add_patch(
                    patches.Rectangle(
                        (column - 0.5, -row - 0.5), 1, 1, fc=str(["0.8", "k", "gold"][column % 3]), ec="none"
                    )
                )
            ax.text(column, -row, letter, fontsize=size, family="monospace", ha="center", va="center",
                    color="w" if letter == first[column] and column % 3 == 1 else "k")  # fmt: skip


def prose(ax: Axes, rng: Rng) -> None:
    ax.axis("off")
    words = [str(rng.choice([*GENES, *GROUPS, "the", "of", "and", "in", "was", "cells"])) for _ in range(200)]
    size = rng.uniform(6, 12)
    for row in range(int(rng.integers(5, 20))):
        ax.text(
            0,
            1 - row * size / 130,
            " ".join(words[row * 8 : row * 8 + 8]),
            fontsize=size,
            transform=ax.transAxes,
            va="top",
        )


def tree(ax: Axes, rng: Rng) -> None:
    """A dendrogram."""
    ax.axis("off")
    places, depths = list(range(int(rng.integers(6, 20)))), 0.0
    for place in places:
        ax.text(0.2, place, f"{rng.choice(GENES)} {rng.integers(1, 9)}", va="center", fontsize=8)
    level = dict.fromkeys(places, 0.0)
    heights = [float(place) for place in places]
    while len(heights) > 1:
        at = int(rng.integers(len(heights) - 1))
        depths += 0.5
        low, high = heights[at], heights.pop(at + 1)
        ax.plot([-level.get(low, 0), -depths, -depths, -level.get(high, 0)], [low, low, high, high], "k", lw=1)
        heights[at] = (low + high) / 2
        level[heights[at]] = depths


KINDS: Mapping[str, tuple[Callable[[Axes, Rng], None], ...]] = {
    "chart": (
        bars,
        lines,
        scatter,
        boxes,
        survival,
        volcano,
        forest,
        histogram,
        pie,
        contours,
        coloured_scatter,
        cytometry,
    ),
    "heat map": (heat_map,),
    "diagram": (flow_chart, pathway, tree),
    "table and text": (table, alignment, prose),
}


# --- a figure ---------------------------------------------------------------------------------------------------------


def draw_figure(seed: int, number: int, photographs: Sequence[Picture] = ()) -> tuple[Picture, str]:
    """An honest figure (H, W, 3) uint8 and its kind; every fourth one has a photograph beside what is drawn."""
    rng = np.random.default_rng([seed, number])
    kind = str(rng.choice([*KINDS, "chart", "chart", "several kinds"]))
    with mpl.rc_context():
        drawn = _rendered(rng, kind)
    compound = bool(photographs) and number % 4 == 3
    if compound:
        drawn = beside(drawn, photographs[int(rng.integers(len(photographs)))], rng)
    return as_printed(drawn, rng), "beside a photograph" if compound else kind


def _rendered(rng: Rng, kind: str) -> Picture:
    style.use(str(rng.choice(STYLES)))
    family, size, width = str(rng.choice(FONTS)), rng.uniform(6, 13), rng.uniform(0.7, 2.5)
    mpl.rcParams.update({"font.family": family, "font.size": size, "lines.linewidth": width})
    mpl.rcParams.update({"axes.unicode_minus": False, "axes.formatter.use_mathtext": False})
    rows, columns = ((1, 1), (1, 1), (1, 2), (2, 2), (2, 3), (3, 3))[int(rng.integers(6))]
    size = (columns * rng.uniform(2.2, 4), rows * rng.uniform(1.8, 3.2))
    figure = Figure(figsize=size, layout="tight" if rng.uniform() < 0.8 else None)
    shared = bool(rng.uniform() < 0.2)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=shared, sharey=shared)
    same = rng.uniform() < 0.4
    choices = [paint for some in KINDS.values() for paint in some] if kind == "several kinds" else KINDS[kind]
    paint = choices[int(rng.integers(len(choices)))]
    for letter, ax in zip("ABCDEFGHI", axes.flat, strict=False):
        (paint if same else choices[int(rng.integers(len(choices)))])(ax, rng)
        ax.set_title(f"{letter}  {rng.choice(GENES)}" if rng.uniform() < 0.7 else letter, loc="left")
        if rng.uniform() < 0.5:
            ax.set(
                xlabel=str(rng.choice(["time (h)", "dose (µM)", "group"])),
                ylabel=str(rng.choice(["fold change", "cells (%)"])),
            )
    target = io.BytesIO()
    dpi = min(float(rng.choice([72, 96, 100, 150, 200, 300])), 2400 / max(size))
    figure.savefig(target, dpi=dpi, format="png")
    return np.asarray(Image.open(target).convert("RGB"))


def beside(drawn: Picture, photograph: Picture, rng: Rng) -> Picture:
    """A photograph to the left of what is drawn, or above it, on white paper."""
    down = bool(drawn.shape[1] > drawn.shape[0])
    picture = photograph if not down else photograph.transpose(1, 0, 2)
    other = drawn if not down else drawn.transpose(1, 0, 2)
    factor = other.shape[0] / picture.shape[0]
    if factor < 1:
        picture = cv2.resize(picture, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    high, gap = max(picture.shape[0], other.shape[0]), int(rng.integers(4, 30))
    sheet = np.full((high, picture.shape[1] + gap + other.shape[1], 3), 255, np.uint8)
    sheet[: picture.shape[0], : picture.shape[1]] = picture
    sheet[: other.shape[0], picture.shape[1] + gap :] = other
    return np.ascontiguousarray(sheet.transpose(1, 0, 2) if down else sheet)
