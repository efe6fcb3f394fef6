"""Clean pictures of one's own: read, cut, never twice in a figure; a broken one is named."""

from pathlib import Path

import numpy as np
import pytest

from handlens.challenges.forgery import CHALLENGE
from handlens.challenges.forgery.forger.made import FORGERIES, FigureRequest, make_figure, make_lookalike
from handlens.challenges.forgery.forger.sources import SourceBrush, cut_objects, open_sources
from handlens.challenges.forgery.sample import write_sample
from handlens.errors import DataError
from handlens.io.images import write_jpeg, write_png

SHARED = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "forgery" / "sources"


def blobs(seed, shape=(120, 140)):
    """A picture of bright discs with a grain of their own, and which pixel belongs to which."""
    rng = np.random.default_rng(seed)
    rows, columns = np.indices(shape)
    objects = np.zeros(shape, np.uint16)
    for number in range(1, 13):
        y, x = divmod(number - 1, 4)
        objects[(rows - 20 - 38 * y) ** 2 + (columns - 18 - 34 * x) ** 2 < 81] = number
    picture = 30 + 120 * (objects > 0) + rng.normal(0, 12, shape)
    return np.clip(np.repeat(picture[:, :, None], 3, axis=2), 0, 255).astype(np.uint8), objects


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    for number in range(12):
        picture, objects = blobs(number)
        write_png(folder / "microscopy" / f"{number:02}.png", picture)
        if number % 2:
            write_png(folder / "microscopy_objects" / f"{number:02}.png", objects)
    return folder


@pytest.fixture(scope="module")
def sources(folder):
    return open_sources(folder)


def test_pictures_and_maps_are_found(sources):
    assert [entry.picture.name for entry in sources.pictures] == [f"{number:02}.png" for number in range(12)]
    assert [entry.objects is not None for entry in sources.pictures] == [False, True] * 6
    assert {entry.shape for entry in sources.pictures} == {(120, 140)}
    assert np.array_equal(sources.read(1)[1], blobs(1)[1])


def test_pictures_may_lie_in_the_folder_itself(tmp_path):
    write_png(tmp_path / "a.png", blobs(0)[0])
    write_jpeg(tmp_path / "b.jpg", blobs(1)[0], quality=90)
    assert len(open_sources(tmp_path).pictures) == 2


def test_without_a_map_objects_are_cut_out(sources):
    picture, objects = blobs(0)
    found = cut_objects(picture)
    assert len(np.unique(found)) == 13
    assert np.mean((found > 0) == (objects > 0)) > 0.97


def test_a_single_picture_keeps_its_pixels(sources):
    """No enlarging: every pixel outside the forgery and the print is one of the file's."""
    kept = []
    for number in range(20):
        made = make_figure(
            1,
            number,
            FigureRequest(size=256, sources=sources, compound=False, plan="object clone", post_processed=False),
        )
        if made.honest.shape[:2] == (120, 140):
            same = [(sources.read(each)[0] == made.honest).all(axis=2).mean() for each in range(12)]
            kept.append(max(same))
    assert len(kept) >= 10
    assert min(kept) > 0.9  # letters, scale bars and arrows take the rest
    assert max(kept) == 1.0


def test_a_picture_is_enlarged_at_most_twice(sources):
    brush = SourceBrush(sources, 0, 1, True)
    panel = brush((240, 280), 0)
    assert panel is not None
    assert panel.picture.shape == (240, 280, 3)
    assert brush((250, 280), 1) is None


def test_no_picture_is_shown_twice(sources):
    brush = SourceBrush(sources, 0, 1, True)
    panels = [brush((100, 100), serial) for serial in range(13)]
    assert panels[12] is None  # there are twelve
    assert len(brush.used) == 12


@pytest.mark.parametrize("plan", FORGERIES)
def test_every_kind_is_made_of_sources(sources, plan):
    for number in range(3):
        made = make_figure(4, number, FigureRequest(size=200, sources=sources, plan=plan))
        assert made.kind == plan
        assert made.masks


def test_a_sample_of_sources(tmp_path, folder):
    write_sample(tmp_path / "one", seed=2, cases=4, size=160, settings=CHALLENGE.settings(sources=str(folder)))
    write_sample(tmp_path / "two", seed=2, cases=4, size=160, settings=CHALLENGE.settings(sources=folder))
    for path in (tmp_path / "one").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match="name a folder of clean pictures"):
        open_sources(tmp_path)


def test_a_broken_picture_is_named(tmp_path):
    write_png(tmp_path / "a.png", blobs(0)[0])
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes()[:500])
    with pytest.raises(DataError, match=r"b\.png"):
        write_sample(tmp_path / "out", seed=1, cases=2, size=100, settings=CHALLENGE.settings(sources=tmp_path))


def test_a_map_of_another_size_is_named(tmp_path):
    write_png(tmp_path / "microscopy" / "a.png", blobs(0)[0])
    write_png(tmp_path / "microscopy_objects" / "a.png", np.zeros((5, 6), np.uint16))
    with pytest.raises(DataError, match="5x6"):
        open_sources(tmp_path).read(0)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the clean microscopy pictures are not here")
@pytest.mark.parametrize("plan", FORGERIES)
def test_every_kind_is_made_of_real_pictures(plan):
    sources = open_sources(SHARED)
    for number in range(4):
        made = make_figure(6, number, FigureRequest(size=400, sources=sources, plan=plan, post_processed=False))
        outside = ~np.any(made.masks, axis=0)
        assert plan == "panel reuse" or np.array_equal(made.honest[outside], made.forged[outside])
        assert not np.array_equal(made.honest, made.forged)
    assert make_lookalike(6, 0, FigureRequest(size=400, sources=sources)).masks == ()


def test_sixteen_bits_fill_the_scale(tmp_path):
    values = blobs(0)[0][:, :, 0].astype(np.uint16) * 9  # a camera of 12 bits
    write_png(tmp_path / "a.png", values)
    picture, _objects = open_sources(tmp_path).read(0)
    assert picture.shape == (120, 140, 3)
    assert picture.max() == 255
