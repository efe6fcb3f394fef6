"""Panels shown again: found for each way to lay a rectangle on another, in part, inverted, zoomed."""

import cv2
import numpy as np
import pytest
from detector_pictures import canvas_of, f1, painted, texture

from handlens.challenges.forgery.detect.clock import Clock
from handlens.challenges.forgery.detect.geometry.turns import TURNS
from handlens.challenges.forgery.detect.tiers.panels import PanelFinder

GAP = 12


def side_by_side(one, other):
    """A figure of two panels on white paper; the mask of each."""
    height = max(len(one), len(other))
    figure = np.full((height, one.shape[1] + GAP + other.shape[1]), 255, np.float32)
    masks = np.zeros((2, *figure.shape), bool)
    for picture, mask, left in ((one, masks[0], 0), (other, masks[1], one.shape[1] + GAP)):
        window = (slice(0, picture.shape[0]), slice(left, left + picture.shape[1]))
        figure[window], mask[window] = picture, True
    return figure, masks


def field(seed=1, shape=(140, 180)):
    """A picture with objects of many sizes, as panels have."""
    return 0.5 * (texture(seed, shape, blur=2) + texture(seed + 50, shape, blur=6))


def find(figure, **options):
    return PanelFinder(**options).find(canvas_of(figure), Clock(60))


@pytest.mark.parametrize(("turn", "mirrored"), TURNS)
def test_each_way_of_laying_a_panel_again_is_found(turn, mirrored):
    panel = field()
    again = np.rot90(panel[:, ::-1] if mirrored else panel, turn)
    figure, masks = side_by_side(panel, 0.8 * again + 20)
    (match,) = find(figure)
    assert match.tier == "panels"
    assert match.mirrored == mirrored
    assert abs(match.scale - 1) < 0.02
    assert match.evidence["detail"] > 0.9
    assert f1(painted(match.source, figure.shape) | painted(match.copy, figure.shape), masks.any(axis=0)) > 0.9


def test_a_partial_overlap_is_found_and_no_more_than_that():
    wide = field(2, (140, 260))
    figure, _masks = side_by_side(wide[:, :160], wide[:, 100:])
    (match,) = find(figure)
    shared = np.zeros(figure.shape, bool)
    shared[:, 100:160] = shared[:, 160 + GAP : 160 + GAP + 60] = True
    assert f1(painted(match.source, figure.shape) | painted(match.copy, figure.shape), shared) > 0.85


def test_an_inverted_panel_is_found():
    panel = field()
    figure, masks = side_by_side(panel, 240 - panel[::-1])
    (match,) = find(figure)
    assert match.evidence["inverted"] == 1
    assert match.evidence["detail"] > 0.9
    assert (
        f1(painted(match.copy, figure.shape), masks[1]) > 0.9 or f1(painted(match.source, figure.shape), masks[1]) > 0.9
    )


@pytest.mark.parametrize("zoom", [0.7, 1.4])
def test_a_panel_of_another_size_is_found(zoom):
    panel = field()
    figure, _ = side_by_side(panel, cv2.resize(panel, None, fx=zoom, fy=zoom, interpolation=cv2.INTER_AREA))
    (match,) = find(figure)
    assert max(match.scale, 1 / match.scale) == pytest.approx(max(zoom, 1 / zoom), rel=0.02)


@pytest.mark.parametrize("inverted", [False, True], ids=["as it is", "inverted"])
@pytest.mark.parametrize(("turn", "mirrored"), [(0, False), (1, True)])
@pytest.mark.parametrize("zoom", [0.72, 0.87, 1.15, 1.38])
def test_a_part_of_a_panel_shown_at_any_zoom_is_found(zoom, turn, mirrored, inverted):
    panel = field(3, (150, 200))
    shown = cv2.resize(panel[20:130, 30:170], None, fx=zoom, fy=zoom, interpolation=cv2.INTER_LINEAR)
    shown = np.rot90(shown[:, ::-1] if mirrored else shown, turn)
    figure, masks = side_by_side(panel, 250 - shown if inverted else shown)
    (match,) = find(figure)
    assert max(match.scale, 1 / match.scale) == pytest.approx(max(zoom, 1 / zoom), rel=0.02)
    assert match.mirrored == mirrored
    assert match.evidence["inverted"] == inverted
    truth = masks[1].copy()
    truth[20:130, 30:170] = True
    assert f1(painted(match.source, figure.shape) | painted(match.copy, figure.shape), truth) > 0.9


def test_letters_on_the_copy_do_not_hide_it():
    panel = np.rint(0.25 * field(4)).astype(np.uint8)
    again = panel[:, ::-1].copy()
    for row in (30, 60, 90, 120):
        cv2.putText(again, "control", (10, row), cv2.FONT_HERSHEY_SIMPLEX, 0.8, 255, 2)
    figure, _ = side_by_side(panel, again)
    (match,) = find(figure)
    assert match.evidence["correlation"] > 0.95


@pytest.mark.parametrize("zoom", [0.45, 0.5, 2.0])
def test_a_whole_panel_much_smaller_or_larger_is_found(zoom):
    panel = field(5, (150, 200))
    shown = cv2.resize(panel[::-1], None, fx=zoom, fy=zoom, interpolation=cv2.INTER_AREA)
    figure, _ = side_by_side(panel, shown)
    (match,) = find(figure)
    assert max(match.scale, 1 / match.scale) == pytest.approx(max(zoom, 1 / zoom), rel=0.03)


@pytest.mark.parametrize("side", ["left", "right", "top", "bottom"])
def test_a_zoomed_part_at_any_side_is_found(side):
    """Shifts that go over the edge of a transform come back at its other end."""
    wide = field(6, (280, 280))
    parts = {"left": wide[:, :90], "right": wide[:, -90:], "top": wide[:90], "bottom": wide[-90:]}
    rest = field(7, (280, 280))
    part = cv2.resize(parts[side], None, fx=1.38, fy=1.38, interpolation=cv2.INTER_LINEAR)
    other = rest.copy()
    height, width = (min(sides) for sides in zip(part.shape, other.shape, strict=True))
    window = {  # what lies at the left of one panel lies at the right of the other
        "left": (slice(0, height), slice(-width, None)),
        "right": (slice(0, height), slice(0, width)),
        "top": (slice(-height, None), slice(0, width)),
        "bottom": (slice(0, height), slice(0, width)),
    }[side]
    other[window] = part[:height, :width] if side != "top" else part[-height:, :width]
    figure, _ = side_by_side(wide, other)
    assert any(abs(match.scale - 1.38) < 0.03 or abs(match.scale - 1 / 1.38) < 0.03 for match in find(figure))


@pytest.mark.parametrize("seed", range(3))
def test_other_pictures_of_the_same_kind_are_left_alone(seed):
    figure, _ = side_by_side(field(seed), field(seed + 10))
    assert find(figure) == []


def test_a_single_picture_has_no_pairs():
    assert find(field()) == []


def test_a_flat_panel_is_no_copy_of_another():
    figure, _ = side_by_side(np.full((140, 180), 90.0), np.full((140, 180), 92.0))
    assert find(figure) == []


def test_three_panels_of_one_picture_give_all_pairs():
    panel = field()
    two, _ = side_by_side(panel, panel[:, ::-1])
    figure, _ = side_by_side(two, panel[::-1])
    assert len(find(figure)) == 3


def test_without_time_it_says_so():
    figure, _ = side_by_side(field(), field())
    clock = Clock(0)
    assert PanelFinder().find(canvas_of(figure), clock) == []
    assert clock.cut == ["panels"]
