"""Marks: what was drawn over a picture is found, what was photographed is not."""

import cv2
import numpy as np
import pytest
from detector_pictures import nuclei, texture

from handlens.challenges.forgery.detect.canvas.marks import find_marks
from handlens.challenges.forgery.detect.findings import Panel


def marks_of(picture, colour=None):
    grey = np.asarray(picture, np.float32)
    whole = (Panel(0, 0, *grey.shape, "picture"),)
    return find_marks(grey, grey.astype(np.uint8) if colour is None else colour, whole)


def ground(ink):
    """A quiet picture on which the ink can be seen."""
    return texture(1, (300, 400), blur=3, contrast=10, level=60 if ink > 127 else 190).astype(np.uint8)


def drawn(ink, draw):
    """A picture with ink on it, and where the ink is."""
    picture = ground(ink)
    before = picture.copy()
    draw(picture, ink)
    return picture, cv2.absdiff(picture, before) > 60


def scale_bar(picture, ink, thick=3):
    cv2.rectangle(picture, (290, 270), (370, 269 + thick), ink, cv2.FILLED)
    cv2.putText(picture, "20 um", (296, 262), cv2.FONT_HERSHEY_SIMPLEX, 0.7, ink, 2)


def thick_bar(picture, ink):
    scale_bar(picture, ink, thick=7)


def panel_letter(picture, ink):
    cv2.putText(picture, "B", (12, 32), cv2.FONT_HERSHEY_SIMPLEX, 0.7, ink, 2)


def bold_letter(picture, ink):
    cv2.putText(picture, "B", (12, 38), cv2.FONT_HERSHEY_SIMPLEX, 1.1, ink, 3)


def words(picture, ink):
    cv2.putText(picture, "control", (120, 150), cv2.FONT_HERSHEY_SIMPLEX, 0.8, ink, 2)


def arrow(picture, ink):
    cv2.arrowedLine(picture, (200, 200), (240, 170), ink, 2, tipLength=0.3)


@pytest.mark.parametrize("ink", [255, 0], ids=["white", "black"])
@pytest.mark.parametrize(
    "draw",
    [
        scale_bar,
        panel_letter,
        words,
        arrow,
        thick_bar,
        bold_letter,
    ],
)
def test_what_was_drawn_is_marked(draw, ink):
    picture, true = drawn(ink, draw)
    found = marks_of(picture)
    assert found[true].mean() > 0.9
    assert found.mean() < 0.15  # and hardly anything else is


@pytest.mark.parametrize("draw", [scale_bar, panel_letter, arrow, bold_letter])
def test_what_was_drawn_is_marked_in_a_figure_that_was_made_smaller(draw):
    picture, true = drawn(255, draw)
    size = (round(0.8 * picture.shape[1]), round(0.8 * picture.shape[0]))
    small = cv2.resize(np.asarray(picture, np.float32), size, interpolation=cv2.INTER_AREA)
    drawn_there = cv2.resize(true.astype(np.float32), size, interpolation=cv2.INTER_AREA) > 0.6
    found = marks_of(small)
    assert found[drawn_there].mean() > 0.9
    assert found.mean() < 0.15


def test_coloured_ink_on_a_grey_picture_is_marked():
    grey = ground(255)
    colour = np.dstack([grey] * 3).astype(np.uint8)
    cv2.circle(colour, (200, 150), 30, (255, 30, 30), 2)
    true = colour.max(axis=2).astype(int) - colour.min(axis=2) > 100
    found = marks_of(colour @ np.array([0.299, 0.587, 0.114], np.float32), colour)
    assert found[true].all()
    assert found.mean() < 0.1


def test_a_coloured_picture_is_no_ink():
    colour = np.dstack(
        [texture(2, (200, 200), level=170), texture(3, (200, 200), level=90, contrast=20), np.full((200, 200), 120)]
    )
    found = marks_of(colour @ np.array([0.299, 0.587, 0.114]), colour.astype(np.uint8))
    assert found.mean() < 0.02


@pytest.mark.parametrize("seed", range(4))
def test_bright_nuclei_are_no_marks(seed):
    picture, masks = nuclei(seed)
    assert marks_of(picture)[np.any(masks, axis=0)].mean() < 0.02


@pytest.mark.parametrize("seed", range(4))
def test_saturated_nuclei_are_no_marks(seed):
    picture, masks = nuclei(seed)
    bright = np.clip(2.5 * cv2.GaussianBlur(picture, (0, 0), 2), 0, 255)  # as a lens shows them
    assert (bright == 255).mean() > 0.05
    assert marks_of(bright)[np.any(masks, axis=0)].mean() < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_irregular_bright_cells_are_no_marks(seed):
    field = texture(seed, (300, 400), blur=7, contrast=60, level=40)
    cells = cv2.GaussianBlur(np.where(field > 90, 235, 20).astype(np.float32), (0, 0), 1.2)
    assert marks_of(cells + texture(seed + 9, (300, 400), contrast=6, level=0))[field > 90].mean() < 0.05


@pytest.mark.parametrize("quality", [None, 75], ids=["exact", "jpeg"])
def test_thin_arrows_on_a_dim_picture_are_marked_and_its_cells_are_not(quality):
    """Of an arrow one pixel wide and smoothed no pixel is quite white."""
    picture, cells = nuclei(2)
    picture = np.rint(0.2 * picture).astype(np.uint8)
    before = picture.copy()
    for end in ((115, 100), (100, 222), (195, 200)):
        cv2.arrowedLine(picture, (end[0] - 9, end[1] - 7), end, 255, 1, cv2.LINE_AA, tipLength=0.5)
    ink = cv2.absdiff(picture, before) > 120
    if quality:
        _, packed = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, quality])
        picture = cv2.imdecode(packed, cv2.IMREAD_GRAYSCALE)
    found = marks_of(picture)
    assert found[ink].mean() > 0.95
    assert found[np.any(cells, axis=0)].mean() < 0.1


@pytest.mark.parametrize("other", ["letter", "yellow"])
def test_what_else_is_drawn_does_not_hide_a_thin_arrow(other):
    """Neither a small letter in the corner nor an arrow of another colour makes a dim picture bright."""
    picture = np.rint(0.2 * nuclei(2)[0][:120, :120]).astype(np.uint8)
    before = picture.copy()
    cv2.arrowedLine(picture, (76, 93), (85, 100), 255, 1, cv2.LINE_AA, tipLength=0.5)
    ink = cv2.absdiff(picture, before) > 120
    colour = np.repeat(picture[:, :, None], 3, axis=2)
    if other == "letter":
        cv2.putText(colour, "E", (4, 12), cv2.FONT_HERSHEY_SIMPLEX, 0.35, (255, 255, 255), 1)
    else:
        cv2.arrowedLine(colour, (20, 20), (40, 40), (255, 255, 0), 3)
    found = marks_of(colour @ np.array([0.299, 0.587, 0.114]), colour)
    assert found[ink].mean() > 0.95
    assert found.mean() < 0.2


def test_many_bright_rods_are_what_a_picture_shows():
    random = np.random.default_rng(0)
    picture = np.full((300, 400), 15.0, np.float32)
    for x, y, angle in zip(
        random.uniform(20, 380, 60), random.uniform(20, 280, 60), random.uniform(0, 3, 60), strict=True
    ):
        way = 12 * np.array([np.cos(angle), np.sin(angle)])
        ends = [tuple(round(each) for each in np.array([x, y]) + side * way) for side in (-1, 1)]
        cv2.line(picture, ends[0], ends[1], 220.0, 4)
    picture = cv2.GaussianBlur(picture, (0, 0), 0.5) + random.normal(0, 3, picture.shape)
    assert marks_of(np.clip(picture, 0, 255)).mean() < 0.1


@pytest.mark.parametrize("seed", range(4))
def test_small_bright_cells_on_a_dark_ground_are_no_marks(seed):
    random = np.random.default_rng(seed)
    picture = random.normal(8, 2, (300, 400)).astype(np.float32)
    for _ in range(40):
        spot = np.zeros_like(picture)
        place = (int(random.integers(15, 385)), int(random.integers(15, 285)))
        axes = (int(random.integers(3, 7)), int(random.integers(3, 7)))
        cv2.ellipse(spot, place, axes, float(random.uniform(0, 180)), 0, 360, 1.0, cv2.FILLED)
        picture += 250 * cv2.GaussianBlur(spot, (0, 0), 0.8)
    assert marks_of(np.clip(picture, 0, 255)).mean() < 0.02  # cells that touch can look like an arrow


def test_the_frame_of_a_panel_is_marked_and_its_middle_is_not():
    picture = texture(5, (200, 300), contrast=20)
    found = find_marks(picture, picture.astype(np.uint8), (Panel(20, 30, 180, 280, "picture"),))
    assert found[20, 30:280].all()
    assert found[20:180, 279].all()
    assert not found[40:160, 60:250].any()
    assert not found[:20].any()


def test_plots_have_no_marks():
    picture, _ = drawn(255, words)
    found = find_marks(picture.astype(np.float32), picture, (Panel(0, 0, 300, 400, "plot"),))
    assert not found.any()


def test_an_arrow_of_a_colour_that_the_slide_has_not_is_marked():
    slide = np.dstack([texture(2, (200, 200), level=180, contrast=15), texture(3, (200, 200), level=110, contrast=15)])
    slide = np.dstack([slide, np.full((200, 200), 190.0)]).astype(np.uint8)
    cv2.arrowedLine(slide, (60, 60), (110, 100), (255, 240, 0), 6)
    drawn = (slide == (255, 240, 0)).all(axis=2)
    found = marks_of(slide @ np.array([0.299, 0.587, 0.114]), slide)
    assert found[drawn].mean() > 0.95
    assert found[~cv2.dilate(drawn.astype(np.uint8), np.ones((25, 25))).astype(bool)].mean() < 0.02


def test_white_letters_on_red_light_are_marked():
    panel = np.zeros((200, 200, 3), np.uint8)
    panel[:, :, 0] = np.clip(texture(4, (200, 200), blur=6, level=60, contrast=60), 0, 230)
    cv2.putText(panel, "10 um", (120, 180), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (200, 200, 200), 1)
    drawn = panel.min(axis=2) > 120
    found = marks_of(panel @ np.array([0.299, 0.587, 0.114]), panel)
    assert found[drawn].all()
    assert found[:150].mean() < 0.1


def weave(level=140, contrast=90):
    """A texture with more dark and bright lines than there can be strokes, none quite black or white."""
    rows, columns = np.indices((300, 400))
    lines = np.where((rows // 4 + columns // 4) % 2 == 0, np.sin(rows * 2.1), np.sin(columns * 2.1))
    return np.clip(level + contrast * lines, 30, 225).astype(np.uint8)


@pytest.mark.parametrize("ink", [255, 0], ids=["white", "black"])
@pytest.mark.parametrize("draw", [arrow, scale_bar])
def test_ink_on_a_busy_texture_is_marked_and_the_texture_is_not(draw, ink):
    picture = weave(60 if ink else 180)
    before = picture.copy()
    draw(picture, ink)
    marked, where = marks_of(picture), picture != before
    assert marked[where].mean() > 0.9
    assert marked.mean() < 0.12
    assert not marks_of(before).any()


def test_a_coloured_arrow_on_a_bright_grey_photograph_is_marked_and_a_stain_is_not():
    grey = texture(1, (300, 400), blur=3, contrast=10, level=190).astype(np.uint8)
    photograph = np.repeat(grey[:, :, None], 3, axis=2)
    before = photograph.copy()
    cv2.arrowedLine(photograph, (200, 200), (240, 170), (230, 210, 0), 3, tipLength=0.3)
    marked = marks_of(photograph @ [0.299, 0.587, 0.114], photograph)
    assert marked[(photograph != before).any(axis=2)].all()
    assert marked.mean() < 0.02
    slide = np.clip(before * [1.0, 0.85, 0.95], 0, 255).astype(np.uint8)  # pink all over, with one strong stain
    cv2.circle(slide, (200, 150), 9, (200, 20, 60), cv2.FILLED)
    assert not marks_of(slide @ [0.299, 0.587, 0.114], slide).any()


@pytest.mark.parametrize("ink", [200, 50], ids=["grey", "dark"])
def test_words_and_bars_of_a_figure_whose_contrast_was_lowered_are_marked(ink):
    picture = texture(1, (300, 400), blur=3, contrast=10, level=60 if ink > 127 else 190).astype(np.uint8)
    before = picture.copy()
    scale_bar(picture, ink)
    assert marks_of(picture)[picture != before].mean() > 0.9
    assert not marks_of(before).any()


def test_a_thick_white_arrow_among_dim_cells_of_one_colour_is_marked():
    cells, _ = nuclei()
    panel = np.zeros((300, 300, 3), np.uint8)
    panel[:, :, 1] = 0.4 * cells
    before = panel.copy()
    cv2.arrowedLine(panel, (140, 60), (180, 60), (255, 255, 255), 9, cv2.LINE_AA, tipLength=0.4)
    panel = cv2.GaussianBlur(panel, (0, 0), 1.0)
    marked = marks_of(panel @ [0.299, 0.587, 0.114], panel)
    assert marked[panel[:, :, 0] > 128].mean() > 0.95
    assert marked.mean() < 0.08
    assert not marks_of(before @ [0.299, 0.587, 0.114], before).any()


@pytest.mark.parametrize("inset", [0, 3])
def test_a_thin_dark_frame_hides_nothing_that_it_encloses(inset):
    picture = ground(0)
    height, width = picture.shape
    cv2.rectangle(picture, (inset, inset), (width - 1 - inset, height - 1 - inset), 0, 1)
    assert marks_of(picture)[20:-20, 20:-20].mean() < 0.05


def test_textured_colour_on_grey_cloth_is_no_ink_and_even_colour_is():
    picture = np.repeat(texture(1, (300, 400), blur=3, contrast=10, level=60)[:, :, None], 3, axis=2).astype(np.uint8)
    grain = texture(2, (300, 400), blur=1, contrast=60, level=180)
    for x, colours in ((100, (1.2, 0.6, 0.05)), (300, (1.2, 0.6, 0.05))):
        spot = np.zeros((300, 400), np.uint8)
        cv2.ellipse(spot, (x, 150), (25, 60), 0, 0, 360, 1, cv2.FILLED)
        level = grain if x == 100 else np.full_like(grain, 180)
        picture[spot > 0] = np.clip(level[spot > 0][:, None] * np.array(colours), 0, 255).astype(np.uint8)
    found = marks_of(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), picture)
    assert not found[110:190, 85:115].any()
    assert found[110:190, 285:315].all()
