"""The canvas: every kind of stored picture becomes the same grey picture, and its pixels find back to the figure."""

import cv2
import numpy as np
import pytest
from detector_pictures import as_patch, canvas_of, f1, moved, nuclei, painted, similarity, texture
from hypothesis import given, settings
from hypothesis import strategies as st

from handlens.challenges.forgery.detect.canvas import prepare
from handlens.challenges.forgery.detect.canvas.panels import PanelSplitter
from handlens.challenges.forgery.detect.findings import Patch


def prepared(picture, side=1600, enlargement=1.0):
    return prepare(picture, side=side, enlargement=enlargement, splitter=PanelSplitter())


GREY = np.full((180, 240), 255, np.uint8)
GREY[:, :115], GREY[:, 125:] = (texture(seed, (180, 115), blur=3, contrast=25) for seed in (1, 2))
KINDS = {
    "grey": GREY,
    "16 bits": GREY.astype(np.uint16) * 257,
    "colour": np.dstack([GREY] * 3),
    "alpha": np.dstack([GREY] * 3 + [np.full_like(GREY, 255)]),
    "16 bits in colour": np.dstack([GREY.astype(np.uint16) * 257] * 3),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_picture_gives_the_same_canvas(kind):
    plain, other = prepared(GREY), prepared(KINDS[kind])
    assert np.abs(plain.grey - other.grey).max() < 0.1
    assert np.array_equal(plain.blocked, other.blocked)
    assert plain.panels == other.panels


@pytest.mark.parametrize("gain", [0.3, 1.6])
def test_brightness_and_contrast_make_no_difference(gain):
    picture = texture(2, (180, 240), blur=3, contrast=20, level=70)
    plain, other = (prepared((65535 / 255 * gain * picture).astype(np.uint16)) for gain in (1.0, gain))
    assert np.abs(plain.grey - other.grey).max() < 1


@pytest.mark.parametrize("level", [0, 77, 255])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_of_a_flat_picture_everything_is_blocked(level, kind):
    canvas = prepared(np.full((60, 90), level, kind))
    assert canvas.blocked.all()
    assert not canvas.grain.any()
    assert not canvas.residual_noise.any()


def test_noise_is_finer_than_grain():
    coarse, fine = (canvas_of(texture(1, (150, 200), blur=blur)) for blur in (2.0, 0.3))
    for canvas in (coarse, fine):
        assert canvas.residual_noise.std() < canvas.grain.std() < canvas.grey.std()
    assert coarse.residual_noise.std() < 0.3 * fine.residual_noise.std()


@pytest.mark.parametrize("level", [255, 120])
def test_what_is_as_bright_as_can_be_is_saturated(level):
    """By the camera, or because so few pixels of a dim panel are so bright."""
    picture = texture(0, (200, 260), level=30, contrast=5)
    cv2.circle(picture, (100, 80), 5, level, cv2.FILLED)
    canvas = canvas_of(picture)
    assert canvas.saturated[80, 100]
    assert not canvas.saturated[:, 120:].any()
    assert not canvas.saturated[80, 105]  # its edge has darker neighbours


def test_a_plateau_below_white_is_saturated_and_a_bright_nucleus_is_not():
    """Contrast that was lowered later brings what was saturated to one level below white."""
    rows, columns = np.indices((200, 260))
    dome = 400 * np.exp(-(((rows - 100) / 30) ** 2) - ((columns - 130) / 30) ** 2)
    flat, round_ = (canvas_of(20 + 0.5 * np.minimum(dome, most)) for most in (255, 400))
    assert flat.saturated[95:105, 125:135].all()
    assert round_.saturated[dome > 255].mean() < 0.2
    assert not flat.saturated[dome < 200].any()


def test_panels_are_numbered_and_gutters_blocked():
    figure = np.full((120, 310), 255, np.uint8)
    figure[:, :150], figure[:, 160:] = (texture(seed, (120, 150), blur=3) for seed in (1, 2))
    canvas = canvas_of(figure)
    assert canvas.blocked[:, 151:159].all()
    assert [number for number, _ in canvas.pictures] == [1, 2]
    assert not canvas.blocked[60, 20]
    assert canvas.blocked[60, 155]
    assert not canvas.blocked[60, 290]


def test_a_dim_panel_is_stretched_like_a_bright_one():
    figure = np.full((120, 310), 255, np.float32)
    bright = texture(1, (120, 150), blur=3, contrast=40, level=120)
    figure[:, :150], figure[:, 160:] = bright, 20 + 0.25 * bright
    canvas = canvas_of(figure)
    inner = slice(10, 110)
    assert np.abs(canvas.grey[inner, 10:140] - canvas.grey[inner, 170:300]).mean() < 4


@pytest.mark.parametrize("shape", [(4000, 3000), (400, 4000)])
def test_a_large_figure_gets_a_small_canvas(shape):
    canvas = prepared(np.zeros(shape, np.uint8), side=500)
    assert max(canvas.shape) == 500
    assert canvas.scaling.figure == shape
    assert canvas.scaling.factor == pytest.approx(500 / max(shape))


def test_small_figures_are_enlarged_only_where_that_is_asked_for():
    assert prepared(GREY).shape == GREY.shape
    assert prepared(GREY, enlargement=2.0).shape == (360, 480)


# --- back to the figure ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    """A canvas a third as large as its figure."""
    return prepared(np.zeros((900, 1200), np.uint8), side=400)


def in_figure(point, factor):
    """Where the middle of a canvas pixel lies in the figure: whole numbers are middles in both."""
    return (np.asarray(point) + 0.5) / factor - 0.5


@settings(max_examples=30)
@given(
    turn=st.floats(-180, 180),
    scale=st.floats(0.5, 2),
    mirror=st.booleans(),
    point=st.tuples(st.floats(0, 400), st.floats(0, 300)),
    to=st.tuples(st.floats(0, 400), st.floats(0, 300)),
)
def test_a_transform_means_the_same_in_the_figure(small, turn, scale, mirror, point, to):
    matrix = similarity(turn, scale, mirror, around=(200, 150), to=to)
    there = moved(small.scaling.matrix_to_figure(matrix), in_figure(point, small.scaling.factor))
    assert there == pytest.approx(in_figure(moved(matrix, point), small.scaling.factor), abs=1e-6)


def test_a_region_lies_where_it_lies_in_the_figure(small):
    patch = as_patch(cv2.ellipse(np.zeros((300, 400), np.uint8), (150, 120), (60, 40), 20, 0, 360, 1, -1) > 0)
    found = small.scaling.patch_to_figure(patch)
    large = cv2.resize(painted(patch, (300, 400)).astype(np.uint8), (1200, 900), interpolation=cv2.INTER_NEAREST) > 0
    assert f1(painted(found, (900, 1200)), large) > 0.98
    assert found.centre == pytest.approx(in_figure(patch.centre, small.scaling.factor), abs=1)


@pytest.mark.parametrize("corner", [(0, 0), (280, 380)])
def test_a_region_at_the_border_stays_inside_the_figure(small, corner):
    found = small.scaling.patch_to_figure(Patch(*corner, np.ones((20, 20), bool)))
    mask = painted(found, small.scaling.figure)  # raises where it lies outside
    assert mask.sum() == pytest.approx(60 * 60, rel=0.07)


def test_with_an_odd_factor_nothing_leaves_the_figure():
    canvas = prepared(np.zeros((1001, 777), np.uint8), side=333)
    height, width = canvas.shape
    found = canvas.scaling.patch_to_figure(Patch(0, 0, np.ones((height, width), bool)))
    missing = np.subtract(canvas.scaling.figure, found.mask.shape)
    assert missing.min() >= 0
    assert missing.max() <= 2
    assert found.mask[5:-5, 5:-5].all()


def test_a_region_with_much_ink_is_not_free():
    picture, masks = nuclei()
    canvas = canvas_of(picture)
    assert canvas.is_free(as_patch(masks[0]))
    canvas.blocked[as_patch(masks[0]).window] = True
    assert not canvas.is_free(as_patch(masks[0]))
    assert canvas.is_free(as_patch(masks[1]))


def test_a_shrunk_canvas_has_this_one_as_its_figure():
    canvas = prepare(
        texture(1, (240, 320), blur=6).astype(np.uint8), side=1600, enlargement=1.0, splitter=PanelSplitter()
    )
    small = canvas.shrunk(0.25)
    assert small.shape == (60, 80)
    assert small.scaling.figure == canvas.shape
    assert small.panels[0].shape == (60, 80)
    shift = small.scaling.matrix_to_figure(np.array([[1.0, 0, 5], [0, 1, -3]]))
    assert shift == pytest.approx(np.array([[1.0, 0, 20], [0, 1, -12]]))
    again = cv2.resize(small.grey, (320, 240), interpolation=cv2.INTER_LINEAR)
    assert np.corrcoef(again.ravel(), canvas.grey.ravel())[0, 1] > 0.95


def test_a_shrunk_canvas_is_to_scale_at_its_far_end():
    picture = texture(1, (97, 1195), contrast=5, level=30).astype(np.uint8)
    picture[30:70, 1080:1140] = cv2.GaussianBlur(np.pad(np.full((20, 40), 200, np.uint8), 10), (0, 0), 3)
    small = prepare(picture, side=1600, enlargement=1.0, splitter=PanelSplitter()).shrunk(0.125)
    bright = np.where(small.grey > 120, small.grey, 0)
    middle = (bright * np.arange(small.shape[1])).sum() / bright.sum()
    assert (middle + 0.5) / 0.125 - 0.5 == pytest.approx(1109.5, abs=1)


def test_a_canvas_is_never_shrunk_to_nothing():
    canvas = prepare(np.zeros((3, 900), np.uint8), side=1600, enlargement=1.0, splitter=PanelSplitter())
    assert min(canvas.shrunk(0.01).shape) == 1
