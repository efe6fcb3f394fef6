"""Panels: cut where a figure has gutters, left whole where it only looks so, named for what they show."""

import cv2
import numpy as np
import pytest
from detector_pictures import nuclei, texture

from handlens.challenges.forgery.detect.canvas.panels import PanelSplitter, _is_thin


def compound(heights, widths, gutter, paper, *, margin=0, levels=(90, 150)):
    """A grid of textured panels of these sizes, and their boxes: top, left, bottom, right."""
    shape = [sum(sides) + gutter * (len(sides) - 1) + 2 * margin for sides in (heights, widths)]
    figure, boxes = np.full(shape, paper, np.float32), []
    top = margin
    for row, height in enumerate(heights):
        left = margin
        for column, width in enumerate(widths):
            level = levels[(row + column) % len(levels)]
            figure[top : top + height, left : left + width] = texture(
                10 * row + column, (height, width), blur=3, contrast=20, level=level
            )
            boxes.append((top, left, top + height, left + width))
            left += width + gutter
        top += height + gutter
    return np.rint(figure).astype(np.uint8), boxes


def split(figure, **options):
    return PanelSplitter(**options).split(figure)


def places(panels):
    return sorted((panel.top, panel.left, panel.bottom, panel.right) for panel in panels)


def assert_near(panels, boxes, pixels=4):
    found = places(panels)
    assert len(found) == len(boxes)
    for box in boxes:
        assert min(np.abs(np.subtract(box, place)).max() for place in found) <= pixels


@pytest.mark.parametrize("paper", [255, 248, 0, 128], ids=["white", "off-white", "black", "grey"])
@pytest.mark.parametrize("gutter", [3, 12])
def test_a_grid_is_cut_along_its_gutters(paper, gutter):
    figure, boxes = compound([120, 120], [150, 150, 150], gutter, paper, levels=(70, 190))
    panels = split(figure)
    assert_near(panels, boxes)
    assert {panel.kind for panel in panels} == {"picture"}


@pytest.mark.parametrize("paper", [255, 200])
def test_a_thin_line_is_a_gutter(paper):
    figure, boxes = compound([140, 140], [160, 160], 2, paper, levels=(60, 110))
    assert_near(split(figure), boxes)


def test_panels_of_unequal_sizes_are_cut():
    figure, boxes = compound([60, 150, 90], [200, 80], 8, 255)
    assert_near(split(figure), boxes)


def test_rows_may_have_other_columns_each():
    above, first = compound([120], [100, 200], 10, 255)
    below, second = compound([100], [150, 60, 80], 10, 255)
    figure = np.full((230, 310), 255, np.uint8)
    figure[:120, : above.shape[1]] = above
    figure[130:, : below.shape[1]] = below
    second = [(top + 130, left, bottom + 130, right) for top, left, bottom, right in second]
    assert_near(split(figure), first + second)


def test_margins_are_no_part_of_a_panel():
    figure, boxes = compound([120, 120], [150, 150], 10, 255, margin=25)
    assert_near(split(figure), boxes)


def test_panels_that_touch_are_cut():
    figure, boxes = compound([140, 140], [160, 160], 0, 255, levels=(50, 200))
    assert_near(split(figure), boxes)


@pytest.mark.parametrize("gutter", [0, 8], ids=["touching", "black gutter"])
def test_pictures_of_cells_on_the_same_dark_ground_are_cut_where_cells_are(gutter):
    """The ground tells nothing: only cells that end at one line do."""
    one, other = (np.concatenate([nuclei(seed + row)[0] for row in (0, 20)]) - 10 for seed in (1, 2))
    one, other = (np.clip(picture, 0, 255)[:, 30:250] for picture in (one, other))
    figure = np.zeros((600, 440 + gutter), np.uint8)
    figure[:, :220], figure[:, 220 + gutter :] = one, other
    panels = split(figure)
    assert_near(panels, [(0, 0, 600, 220), (0, 220 + gutter, 600, 440 + gutter)], pixels=gutter or 1)


def test_the_edge_of_a_pasted_region_is_no_seam():
    picture = np.clip(nuclei(3)[0] - 10, 0, 255).astype(np.uint8)
    picture[140:200, 90:190] = np.clip(texture(1, (60, 100), contrast=20, level=90), 0, 255)
    assert places(split(picture)) == [(0, 0, 300, 300)]


@pytest.mark.parametrize("seed", range(6))
def test_one_picture_of_cells_is_not_cut(seed):
    picture, _ = nuclei(seed)
    assert places(split(np.clip(picture - 10, 0, 255).astype(np.uint8))) == [(0, 0, 300, 300)]


@pytest.mark.parametrize("ink", [255, 0], ids=["white", "black"])
def test_scale_bars_side_by_side_are_no_seam(ink):
    picture = np.clip(np.concatenate([nuclei(seed)[0] for seed in (1, 2)], axis=1) - 10, 0, 200).astype(np.uint8)
    picture = picture if ink else 225 - picture
    for left in (60, 360):
        cv2.rectangle(picture, (left, 200), (left + 90, 203), ink, -1)
        cv2.putText(picture, "20 um", (left, 190), cv2.FONT_HERSHEY_SIMPLEX, 0.6, ink, 1)
    assert not any(90 < place < 210 for panel in split(picture) for place in (panel.top, panel.bottom))


def test_a_noisy_gutter_is_one():
    figure, boxes = compound([140, 140], [160, 160], 10, 0, levels=(120, 180))
    noisy = figure + np.random.default_rng(1).normal(3, 1.5, figure.shape)
    assert_near(split(np.clip(noisy, 0, 255).astype(np.uint8)), boxes)


@pytest.mark.parametrize("quality", [None, 80], ids=["exact", "jpeg"])
@pytest.mark.parametrize("level", [1, 4], ids=["black ground", "dark ground"])
def test_an_inverted_picture_of_cells_is_a_panel_and_not_paper(level, quality):
    """Its ground is nearly as white as the paper around it."""
    cells, _ = nuclei(1)
    cells = np.clip(cells - 12 + level, 0, 255)
    figure = np.full((320, 640), 255, np.uint8)
    figure[10:310, 10:310], figure[10:310, 330:630] = cells, 255 - cells
    if quality:
        _, packed = cv2.imencode(".jpg", figure, [cv2.IMWRITE_JPEG_QUALITY, quality])
        figure = cv2.imdecode(packed, cv2.IMREAD_GRAYSCALE)
    panels = split(figure)
    assert_near(panels, [(10, 10, 310, 310), (10, 330, 310, 630)], pixels=8)
    assert {panel.kind for panel in panels} == {"picture"}


def test_on_paper_that_is_nearly_white_plots_stay_plots():
    """A picture with blown-out places has more pure white than the paper around it."""
    figure = np.full((320, 700), 251, np.uint8)
    figure[10:310, 10:310] = texture(1, (300, 300), blur=3)
    figure[40:120, 40:120] = 255
    for row in (60, 120, 180, 240):
        cv2.line(figure, (380, row), (680, row + 20), 0, 2)
    kinds = {panel.kind for panel in split(figure) if panel.left > 320}
    assert "picture" not in kinds


def test_panels_come_in_reading_order():
    figure, _ = compound([100, 100], [120, 120], 8, 255)
    corners = [(panel.top, panel.left) for panel in split(figure)]
    assert corners == sorted(corners)


@pytest.mark.parametrize("level", [40, 128, 215])
def test_a_single_picture_stays_one(level):
    picture = texture(3, (300, 400), blur=4, contrast=25, level=level).astype(np.uint8)
    assert places(split(picture)) == [(0, 0, 300, 400)]


@pytest.mark.parametrize("noise", [0, 1, 4])
def test_empty_rows_of_a_fluorescence_picture_are_no_gutter(noise):
    picture, _ = nuclei(places=[(60, 60), (60, 200), (240, 100), (240, 220)])
    picture = np.where(picture > 40, picture, 0) + np.abs(np.random.default_rng(2).normal(0, 1, picture.shape)) * noise
    assert places(split(np.clip(picture, 0, 255).astype(np.uint8))) == [(0, 0, 300, 300)]


def test_a_large_figure_is_cut_at_the_same_places():
    figure, boxes = compound([120, 120], [150, 150], 10, 255)
    large = cv2.resize(figure, None, fx=5, fy=5, interpolation=cv2.INTER_LINEAR)
    assert_near(split(large), [tuple(5 * side for side in box) for box in boxes], pixels=15)
    panels = split(large)
    assert max(panel.bottom for panel in panels) <= large.shape[0]
    assert max(panel.right for panel in panels) <= large.shape[1]


def plot(shape=(160, 220)):
    figure = np.full(shape, 255, np.uint8)
    cv2.line(figure, (20, 10), (20, 140), 0, 2)
    cv2.line(figure, (20, 140), (210, 140), 0, 2)
    points = np.array([(30 + 18 * step, 120 - 11 * step + 10 * (step % 2)) for step in range(10)])
    cv2.polylines(figure, [points], False, 60, 2)
    return figure


def test_a_plot_beside_a_picture_is_named_so():
    figure = np.full((160, 460), 255, np.uint8)
    figure[:, :220] = texture(4, (160, 220), blur=3).astype(np.uint8)
    figure[:, 240:] = plot()
    kinds = {panel.kind: panel for panel in split(figure)}
    assert kinds["picture"].right <= 230
    assert any(panel.kind in ("plot", "text") and panel.left >= 230 for panel in split(figure))
    assert all(panel.left < 230 for panel in split(figure) if panel.kind == "picture")


def test_a_line_of_words_is_no_picture():
    figure = np.full((260, 400), 255, np.uint8)
    figure[:200] = texture(5, (200, 400), blur=3).astype(np.uint8)
    cv2.putText(figure, "Figure 1. Cells at day 3", (8, 240), cv2.FONT_HERSHEY_SIMPLEX, 0.9, 0, 2)
    pictures = [panel for panel in split(figure) if panel.kind == "picture"]
    assert places(pictures) == [(0, 0, 200, 400)]


def words(shape=(200, 300)):
    """A page of small grey letters, blurred, so that they have every shade between ink and paper."""
    page = np.full(shape, 255, np.uint8)
    for row in range(18, shape[0], 22):
        cv2.putText(page, "siRNA, vehicle, gypsy (control)", (4, row), cv2.FONT_HERSHEY_SIMPLEX, 0.6, 60, 1)
    return cv2.GaussianBlur(page, (0, 0), 1.2)


def test_words_stay_words_when_they_are_blurred():
    page = words()
    shades = np.sort(np.bincount(page.ravel() >> 2))[::-1] / page.size
    assert shades[:4].sum() < 0.7  # too many for a drawing
    assert PanelSplitter()._name(page, (0, 0, *page.shape)).kind == "plot"


def test_cells_and_tissue_on_white_are_no_words():
    cells = np.where(nuclei(1)[0] > 60, np.clip(nuclei(1)[0], 0, 240), 255).astype(np.uint8)
    tissue = np.full((300, 300), 254, np.uint8)
    tissue[:, :150] = np.clip(texture(2, (300, 150), contrast=8, level=200), 0, 240)
    for row, column in np.random.default_rng(0).integers(5, 145, (150, 2)):
        cv2.circle(tissue, (int(column), int(2 * row)), 2, 90, cv2.FILLED)
    for picture in (cells, tissue):
        assert not _is_thin(picture, picture < 245)
    assert PanelSplitter()._name(tissue, (0, 0, 300, 300)).kind == "picture"


def test_paper_between_a_pale_picture_and_a_plot_is_a_gutter():
    figure = np.full((380, 220), 255, np.uint8)
    figure[:200] = np.random.default_rng(3).normal(228, 8, (200, 220)).clip(0, 255)
    figure[220:] = plot()
    (picture,) = [panel for panel in split(figure) if panel.kind == "picture"]
    assert (picture.top, picture.left, picture.right) == (0, 0, 220)
    assert 196 <= picture.bottom <= 212


def test_a_figure_of_charts_and_text_alone_shows_no_picture():
    bars = np.full((160, 220), 255, np.uint8)
    for number, high in enumerate((40, 90, 60)):
        bars[140 - high : 140, 30 + 60 * number : 60 + 60 * number] = 90
    stacked, lined = np.full((400, 500), 255, np.uint8), plot()
    for left in range(40, 460, 70):
        stacked[60:160, left : left + 40], stacked[160:260, left : left + 40], stacked[260:370, left : left + 40] = (
            200,
            150,
            90,
        )
    lined[20:140:20, 20:210] = np.minimum(lined[20:140:20, 20:210], 225)
    for figure in (plot(), bars, np.hstack([plot(), bars]), stacked, lined):
        assert all(panel.kind in ("plot", "text") for panel in split(figure))


def test_things_photographed_on_white_are_looked_at():
    """They have few shades, as charts do, but are nowhere plain."""
    disks = np.zeros((160, 220), np.uint8)
    for place in ((24, 24), (60, 55), (100, 90), (140, 60), (180, 120), (60, 130)):
        cv2.circle(disks, place, 22, 1, -1)
    shades = (60 + 30 * (texture(4, disks.shape, blur=1) > 128)).astype(np.uint8)
    (panel,) = split(np.where(disks > 0, shades, np.uint8(255)))
    assert (panel.kind, panel.shape) == ("picture", (160, 220))


def test_a_photograph_beside_a_chart_is_looked_at_where_neither_is_called_a_picture():
    beads = np.full((160, 220), 255, np.uint8)
    shades = (60 + 30 * (texture(4, beads.shape, blur=1) > 128)).astype(np.uint8)
    disks = np.zeros(beads.shape, np.uint8)
    for place in ((24, 24), (60, 55), (100, 90), (140, 60), (180, 120), (60, 130)):
        cv2.circle(disks, place, 22, 1, -1)
    beads[disks > 0] = shades[disks > 0]
    panels = split(np.vstack([beads, plot()]))
    assert [panel.bottom <= 160 for panel in panels if panel.kind == "picture"] == [True]


@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (500, 1), (31, 31), (20, 3000)])
@pytest.mark.parametrize("level", [0, 128, 255])
def test_odd_figures_have_a_panel_inside_them(shape, level):
    for picture in (np.full(shape, level, np.uint8), np.random.default_rng(0).integers(0, 256, shape, np.uint8)):
        panels = split(picture)
        assert panels
        for panel in panels:
            assert 0 <= panel.top < panel.bottom <= shape[0]
            assert 0 <= panel.left < panel.right <= shape[1]
