"""What results have in common: pictures with outlines on them, tables as mappings of columns, drawn by Jupyter."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

ByteImage = npt.NDArray[np.uint8]

SHOWN_SIDE = 1024
"""Longer side in pixels of a picture in a notebook: larger ones make notebooks of many megabytes."""

COLOURS = ((230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (213, 94, 0), (204, 121, 167))
"""Okabe and Ito's colours, which colour-blind people can tell apart."""


def outline(image: ByteImage, masks: Sequence[npt.NDArray[np.bool_]], *, thickness: int = 2) -> ByteImage:
    """A copy of an (H, W, 3) image with the outline of each mask drawn on it, each in a colour of its own."""
    import cv2

    drawn = np.ascontiguousarray(image).copy()
    for number, mask in enumerate(masks):
        contours, _ = cv2.findContours(np.ascontiguousarray(mask).view(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(drawn, contours, -1, COLOURS[number % len(COLOURS)], thickness)
    return drawn


def picture_html(image: ByteImage, caption: str) -> str:
    """An image as HTML with its pixels inside, reduced to SHOWN_SIDE; the caption is escaped."""
    from PIL import Image

    picture = Image.fromarray(image)
    picture.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    data = base64.b64encode(stream.getvalue()).decode()
    return (
        f'<figure style="margin:0"><img alt="{html.escape(caption)}" style="max-width:100%" '
        f'src="data:image/png;base64,{data}"><figcaption>{html.escape(caption)}</figcaption></figure>'
    )


def table_html(columns: Mapping[str, Sequence[Any]], *, rows: int = 10) -> str:
    """The first rows of a table as HTML, every cell escaped."""
    names = list(columns)
    count = len(columns[names[0]]) if names else 0
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(columns[name][row]))}</td>" for name in names) + "</tr>"
        for row in range(min(rows, count))
    )
    more = f"<p>{count - rows:,} more rows</p>" if count > rows else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
