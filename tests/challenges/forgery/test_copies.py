"""The forgeries: nothing outside a mask changes, and what is in a mask is truly a copy."""

import cv2
import numpy as np
import pytest

from handlens.challenges.forgery.forger import copies, post_processing
from handlens.challenges.forgery.forger.changes import Change, changed
from handlens.challenges.forgery.forger.figures import draw_figure
from handlens.challenges.forgery.forger.made import FORGERIES, FigureRequest, make_figure
from handlens.challenges.forgery.forger.reuse import reuse_panel


def plain(plan, number, **options):
    return make_figure(3, number, FigureRequest(size=256, plan=plan, post_processed=False, **options))


def pieces(mask):
    """Its connected parts: their boxes, and the mask of each in its box."""
    from scipy.ndimage import find_objects, label

    labels, _count = label(mask, structure=np.ones((3, 3)))
    return [(box, labels[box] == number) for number, box in enumerate(find_objects(labels), start=1)]


def eight(picture):
    for quarter in range(4):
        yield np.rot90(picture, quarter)
        yield np.rot90(picture[:, ::-1], quarter)


def likeness(one, other):
    """Largest correlation, in size, over the eight flips and turns; `other` is brought to the size of `one`."""
    import cv2

    one, other = (cv2.GaussianBlur(each, (0, 0), 1.2) for each in (one, other))  # a zoomed copy has lost its noise
    best = 0.0
    for turned in eight(other.mean(axis=2)):
        scaled = cv2.resize(np.ascontiguousarray(turned, np.float32), one.shape[1::-1], interpolation=cv2.INTER_AREA)
        best = max(best, abs(np.corrcoef(one.mean(axis=2).ravel(), scaled.ravel())[0, 1]))
    return best


@pytest.mark.parametrize("plan", [plan for plan in FORGERIES if plan != "panel reuse"])
def test_outside_the_masks_twins_are_the_same(plan):
    for number in range(12):
        made = plain(plan, number)
        changed_pixels = (made.honest != made.forged).any(axis=2)
        assert made.kind == plan
        assert changed_pixels.any()
        assert not changed_pixels[~np.any(made.masks, axis=0)].any()
        for mask in made.masks:
            assert (changed_pixels & mask).any()  # every forgery did something
            assert (mask & ~changed_pixels).any()  # and has a source, which it left alone


@pytest.mark.parametrize("plan", FORGERIES)
def test_forgeries_do_not_overlap(plan):
    for number in range(12):
        assert np.sum(plain(plan, number).masks, axis=0).max() == 1


@pytest.mark.parametrize(
    "change",
    [
        Change(),
        Change(turn=90.0),
        Change(turn=270.0, mirrored=True),
        Change(turn=33.0, size=1.1),
        Change(turn=200.0, contrast=0.8),
    ],
    ids=str,
)
@pytest.mark.parametrize("plan", ["object clone", "region copy"])
def test_a_paste_is_its_source_changed(monkeypatch, change, plan):
    monkeypatch.setattr(copies, "draw_change", lambda rng, **shares: change)
    checked = 0
    for number in range(20):
        made = plain(plan, number)
        parts = pieces(made.masks[0])
        sources = [
            part for part in parts if np.array_equal(made.honest[part[0]][part[1]], made.forged[part[0]][part[1]])
        ]
        if len(sources) != 1:
            continue
        (source, source_mask) = sources[0]
        patch, shape = changed(made.honest[source], source_mask, change)
        for box, mask in parts:
            if box != source and abs(int(mask.sum()) - int(shape.sum())) < 0.2 * shape.sum():  # else two that touch
                assert np.array_equal(mask, shape)
                pasted = made.forged[box].astype(float)[shape].ravel()
                assert np.corrcoef(pasted, patch[shape].ravel())[0, 1] > 0.99
                if change in (Change(), Change(turn=90.0), Change(turn=270.0, mirrored=True)):
                    assert np.array_equal(pasted, patch[shape].ravel())  # to the last bit
                checked += 1
    assert checked >= 5


@pytest.mark.parametrize(
    "change", [Change(mirrored=True), Change(turn=90.0), Change(turn=40.0, size=0.9, mirrored=True)]
)
def test_picture_and_mask_are_changed_together(change):
    mask = np.zeros((40, 60), bool)
    mask[5:35, 3:20] = mask[20:35, 3:50] = True
    patch, shape = changed(np.repeat(mask[:, :, None], 3, axis=2).astype(np.uint8) * 200, mask, change)
    assert np.mean((patch[:, :, 0] > 100) == shape) > 0.98
    assert shape.sum() == pytest.approx(mask.sum() * change.size**2, rel=0.05)


def test_a_reused_panel_shows_the_same_picture():
    checked = 0
    for number in range(30):
        rng = np.random.default_rng([8, number])
        draft = copies.start(draw_figure(rng, size=300, sources=None, compound=True))
        mask = reuse_panel(draft, rng)
        parts = [] if mask is None else pieces(mask)
        if len(parts) == 2:  # panels may touch
            assert likeness(*(draft.forged[box] for box, _mask in parts)) > 0.95
            assert likeness(*(draft.honest[box] for box, _mask in parts)) < 0.7
            differs = (draft.honest != draft.forged).any(axis=2)
            panels = [panel for panel in draft.panels if differs[panel.box.window].any()]
            assert len(panels) == 1  # all of the second panel is another picture, and nothing else
            differs[panels[0].box.window] = False
            assert not differs.any()
            checked += 1
    assert checked >= 10


def test_a_reused_lane_is_the_same_lane():
    checked = 0
    for number in range(20):
        made = plain("lane reuse", number)
        parts = pieces(made.masks[0])
        if len(parts) == 2:
            first, second = (made.forged[box] for box, _mask in parts)
            assert first.shape == second.shape
            assert likeness(first, second) > 0.9
            checked += 1
    assert checked >= 10


def test_a_covered_object_lies_under_background():
    checked = 0
    for number in range(20):
        made = plain("cover-up", number)
        boxes = [box for box, _mask in pieces(made.masks[0])]
        covered = [box for box in boxes if not np.array_equal(made.honest[box], made.forged[box])]
        if len(boxes) == 2 and len(covered) == 1:
            (source,) = (box for box in boxes if box != covered[0])
            assert made.forged[covered[0]].std() < made.honest[covered[0]].std()
            patch, ground = made.forged[covered[0]].astype(int), made.honest[source].astype(int)
            same = [(np.abs(patch - each).max(axis=2) <= 1).mean() for each in (ground, ground[:, ::-1])]
            assert max(same) > 0.35  # all but the soft edge, which is much of a small patch
            checked += 1
    assert checked >= 8


# --- afterwards -------------------------------------------------------------------------------------------


def test_half_of_the_figures_are_left_alone():
    picture = np.zeros((4, 4, 3), np.uint8)
    drawn = [post_processing.draw_post_processing(np.random.default_rng(number), picture) for number in range(400)]
    assert 0.42 < np.mean([what == post_processing.PostProcessing() for what in drawn]) < 0.58


def test_twins_share_what_happened_afterwards():
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)
    what = post_processing.PostProcessing(size=0.7, blur=0.6, contrast=1.1, noise=3.0, quality=80, seed=9)
    assert np.array_equal(post_processing.apply(picture, what), post_processing.apply(picture.copy(), what))
    assert post_processing.apply(picture, what).shape == (28, 35, 3)


@pytest.mark.parametrize("size", [0.6, 0.77, 0.95])
def test_a_mask_is_resized_with_its_figure(size):
    mask = np.zeros((200, 300), bool)
    mask[50:90, 100:170] = True
    what = post_processing.PostProcessing(size=size)
    picture = post_processing.apply(np.repeat(mask[:, :, None], 3, axis=2).astype(np.uint8) * 255, what)
    shown = picture[:, :, 0].astype(int)
    resized = post_processing.apply_to_mask(mask, what)
    assert shown[resized].min() >= 127
    assert shown[~resized].max() <= 128


def test_cut_outs_are_small_and_bring_no_ground_with_them():
    """Half of them and more are the object and nothing else, and some are smaller than other clones may be."""
    made = [
        make_figure(9, number, FigureRequest(size=256, plan="cut-out", post_processed=False)) for number in range(30)
    ]
    parts = [part for figure in made for mask in figure.masks for part in components(mask)]
    assert min(part.sum() for part in parts) < copies.SMALLEST
    assert min(part.sum() for part in parts) > 0.6 * copies.SMALLEST_CUT_OUT
    assert max(len(components(mask)) for figure in made for mask in figure.masks) >= 3


def components(mask):
    count, numbers = cv2.connectedComponents(mask.astype(np.uint8))
    return [numbers == number for number in range(1, count)]
