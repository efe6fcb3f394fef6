"""What results have in common: outlines, pictures and tables as HTML that is safe in any notebook."""

import base64
import io
import re

import numpy as np
from PIL import Image

from handlens.results import COLOURS, SHOWN_SIDE, outline, picture_html, table_html

IMAGE = np.full((40, 60, 3), 90, np.uint8)


def disc(x, y, radius=8):
    rows, columns = np.ogrid[:40, :60]
    return (rows - y) ** 2 + (columns - x) ** 2 <= radius**2


def test_each_mask_is_outlined_in_a_colour_of_its_own():
    masks = [disc(12, 20), disc(45, 20)]
    drawn = outline(IMAGE, masks, thickness=1)
    assert (IMAGE == 90).all(), "the image itself is left alone"
    for mask, colour in zip(masks, COLOURS, strict=False):
        ours = (drawn == colour).all(axis=2)
        assert ours.any()
        assert not (ours & ~mask).any()
    assert (drawn[20, 12] == 90).all(), "nothing hides the region itself"


def test_more_masks_than_colours_and_none_at_all():
    assert np.array_equal(outline(IMAGE, []), IMAGE)
    assert outline(IMAGE, [disc(30, 20)] * (len(COLOURS) + 2)).shape == IMAGE.shape
    assert np.array_equal(outline(IMAGE[:, ::-1], [np.zeros((40, 60), bool)]), IMAGE)


def test_a_picture_is_inside_its_html_and_not_too_large():
    html = picture_html(np.zeros((3000, 1500, 3), np.uint8), 'a "caption" <script>')
    assert "<script" not in html
    assert "a &quot;caption&quot; &lt;script&gt;" in html
    data = re.search(r"base64,([^\"]+)", html)[1]
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (SHOWN_SIDE // 2, SHOWN_SIDE)


def test_tables_are_escaped_and_cut():
    html = table_html({"<b>": list(range(25)), "share": [0.123456] * 25}, rows=10)
    assert "&lt;b&gt;" in html
    assert html.count("<tr>") == 11
    assert "0.1235" in html
    assert "15 more rows" in html
    assert "more rows" not in table_html({"a": ["<i>"]})
    assert "&lt;i&gt;" in table_html({"a": ["<i>"]})
    assert table_html({}) == "<table><thead><tr></tr></thead><tbody></tbody></table>"
