"""Slice stacks: every way a TIFF may lie on the disk gives the same rows, and every fault is named."""

from __future__ import annotations

import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from stacks import make_volume, refusal

from handlens.errors import DataError
from handlens.io import tiff, volumes

LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "strips": {"rowsperstrip": 3},
    "tiles": {"tile": (16, 32)},
    "deflate": {"compression": "zlib", "rowsperstrip": 4},
    "deflate-predicted": {"compression": "zlib", "predictor": True, "rowsperstrip": 4},
    "lzw": {"compression": "lzw", "rowsperstrip": 5},
    "lzw-tiles": {"compression": "lzw", "tile": (16, 16)},
    "zstd": {"compression": "zstd", "tile": (32, 16)},
    "packbits": {"compression": "packbits", "rowsperstrip": 7},
}


def write_stack(folder: Path, volume: Any, **layout: Any) -> Path:
    folder.mkdir(exist_ok=True)
    options = {"photometric": "minisblack", "metadata": None, "software": False, **layout}
    for number, plane in enumerate(volume):
        with tifffile.TiffWriter(
            folder / f"{number:02d}.tif",
            bigtiff=options.get("bigtiff", False),
            byteorder=options.get("byteorder", "<"),
        ) as writer:
            writer.write(plane, **{k: v for k, v in options.items() if k not in ("bigtiff", "byteorder")})
    return folder


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    return write_stack(tmp_path / "surface_volume", make_volume(4, 20, 17))


# --- what is read --------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    layout=st.sampled_from(sorted(LAYOUTS)),
    dtype=st.sampled_from([np.uint8, np.uint16]),
    bigtiff=st.booleans(),
    byteorder=st.sampled_from("<>"),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 50), st.integers(1, 50)),
    data=st.data(),
)
def test_a_band_is_that_part_of_the_whole(
    layout: str, dtype: Any, bigtiff: bool, byteorder: str, shape: tuple[int, int, int], data: Any
) -> None:
    volume = make_volume(*shape, dtype)
    with tempfile.TemporaryDirectory() as name:
        folder = write_stack(Path(name), volume, bigtiff=bigtiff, byteorder=byteorder, **LAYOUTS[layout])
        stack = volumes.open_stack(folder)
        assert (stack.depth, *stack.shape) == shape
        assert stack.dtype == dtype
        for _ in range(4):
            top, bottom = sorted(data.draw(st.tuples(*[st.integers(0, shape[1])] * 2)))
            first, last = sorted(data.draw(st.tuples(*[st.integers(0, shape[0])] * 2)))
            left, right = sorted(data.draw(st.tuples(*[st.integers(0, shape[2])] * 2)))
            band = stack.read_band(top, bottom, first, last)
            assert band.dtype == dtype
            np.testing.assert_array_equal(band, volume[first:last, top:bottom])
            part = stack.read_band(top, bottom, first, last, left=left, right=right)
            np.testing.assert_array_equal(part, volume[first:last, top:bottom, left:right])


def test_strips_in_another_order_in_the_file_are_found(tmp_path: Path) -> None:
    volume = make_volume(1, 12, 9)
    path = write_stack(tmp_path, volume, rowsperstrip=4) / "00.tif"
    _move_first_strip_to_the_end(path)
    np.testing.assert_array_equal(volumes.open_stack(tmp_path).read_band(2, 11, 0, 1), volume[:, 2:11])


def _move_first_strip_to_the_end(path: Path) -> None:
    with tifffile.TiffFile(path) as file:
        page = file.pages.first
        offsets, counts, tag = page.dataoffsets, page.databytecounts, page.tags["StripOffsets"]
        kind = {3: "<u2", 4: "<u4"}[int(tag.dtype)]
        place = tag.valueoffset
    content = bytearray(path.read_bytes())
    moved = [len(content), *offsets[1:]]
    content += content[offsets[0] : offsets[0] + counts[0]]
    content[offsets[0] : offsets[0] + counts[0]] = bytes(counts[0])
    content[place : place + len(moved) * int(kind[-1])] = np.array(moved, kind).tobytes()
    path.write_bytes(content)


def test_names_sort_by_number(tmp_path: Path) -> None:
    volume = make_volume(12, 5, 6)
    write_stack(tmp_path, volume)
    names = [*(f"{number}.tif" for number in range(9)), "9.TIF", "10.tiff", "11.tif"]
    for number, name in enumerate(names):
        (tmp_path / f"{number:02d}.tif").rename(tmp_path / name)
    (tmp_path / "._10.tif").write_bytes(b"left by another system")
    (tmp_path / "notes.txt").write_text("not a slice")
    stack = volumes.open_stack(tmp_path)
    assert [path.name for path in stack.paths] == names
    np.testing.assert_array_equal(stack.read_band(0, 5, 0, 12), volume)


def test_numbers_start_at_0(tmp_path: Path) -> None:
    write_stack(tmp_path, make_volume(4, 5, 6))
    (tmp_path / "00.tif").unlink()
    assert [problem.what for problem in volumes.problems(tmp_path)] == ["slice 00 is missing: copy it again"]


def test_opening_65_slices_is_quick_and_reads_no_pixels(tmp_path: Path) -> None:
    write_stack(tmp_path, np.zeros((65, 600, 500), np.uint16), rowsperstrip=1)
    tifffile.TiffFile(tmp_path / "00.tif").close()
    tracemalloc.start()
    begin = time.process_time()
    volumes.open_stack(tmp_path)
    assert time.process_time() - begin < 2
    assert tracemalloc.get_traced_memory()[1] < 5e6
    tracemalloc.stop()


@pytest.mark.parametrize("layout", ["contiguous", "strips", "deflate", "zstd"])
def test_a_thin_band_needs_little_memory(tmp_path: Path, layout: str) -> None:
    write_stack(tmp_path, np.zeros((2, 2000, 1000), np.uint16), **LAYOUTS[layout])
    stack = volumes.open_stack(tmp_path)
    stack.read_band(0, 1, 0, 1)
    tracemalloc.start()
    stack.read_band(1000, 1008, 0, 2)
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


@pytest.mark.parametrize("wanted", [(-1, 2, 0, 1), (2, 1, 0, 1), (0, 21, 0, 1), (0, 1, 0, 5), (0, 1, 2, 1)])
def test_a_band_outside_the_stack_is_refused(stack: Path, wanted: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="the stack has 20 rows and 4 slices"):
        volumes.open_stack(stack).read_band(*wanted)


# --- what is refused -----------------------------------------------------------------------------


def test_a_sound_stack_has_no_problems(stack: Path) -> None:
    assert volumes.problems(stack) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    message = refusal(tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in message
    assert "cannot be listed" in message


def test_a_folder_without_slices_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tif").write_bytes(b"")
    message = refusal(tmp_path)
    assert str(tmp_path) in message
    assert "no slices; expected" in message


def test_a_missing_slice_is_named(tmp_path: Path) -> None:
    write_stack(tmp_path, make_volume(12, 3, 3))
    (tmp_path / "07.tif").unlink()
    assert "slice 07 is missing" in refusal(tmp_path)


def test_a_wide_gap_is_one_problem(stack: Path) -> None:
    (stack / "03.tif").rename(stack / "90000.tif")
    assert [problem.what for problem in volumes.problems(stack)] == ["slices 03 to 89999 are missing: copy them again"]


def test_a_number_twice_is_named(stack: Path) -> None:
    (stack / "2.tif").write_bytes((stack / "02.tif").read_bytes())
    message = refusal(stack)
    assert "slice 2 is duplicated" in message
    assert "02.tif" in message


def test_a_slice_of_another_size_is_named(stack: Path) -> None:
    tifffile.imwrite(stack / "02.tif", np.zeros((20, 18), np.uint16))
    assert "02.tif: 20x18 uint16, but 00.tif is 20x17 uint16" in refusal(stack)


def test_a_slice_of_another_type_is_named(stack: Path) -> None:
    tifffile.imwrite(stack / "02.tif", np.zeros((20, 17), np.uint8))
    assert "02.tif: 20x17 uint8, but 00.tif is 20x17 uint16" in refusal(stack)


@pytest.mark.parametrize(
    ("pixels", "options", "said"),
    [
        (np.zeros((20, 17), np.float32), {}, "32-bit float32 pixels"),
        (np.zeros((20, 17), np.int16), {}, "16-bit int16 pixels"),
        (np.zeros((20, 17, 3), np.uint8), {"photometric": "rgb"}, "3 samples a pixel (RGB)"),
        (np.zeros((20, 17), np.uint16), {"photometric": "miniswhite"}, "black is 0"),
        (np.zeros((2, 20, 17), np.uint16), {"photometric": "minisblack"}, "more than one page"),
    ],
)
def test_only_single_grey_pages_are_slices(stack: Path, pixels: Any, options: Any, said: str) -> None:
    tifffile.imwrite(stack / "01.tif", pixels, **options)
    message = refusal(stack)
    assert "01.tif: " in message
    assert said in message


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_a_truncated_slice_is_named(tmp_path: Path, layout: str) -> None:
    write_stack(tmp_path, make_volume(3, 40, 40), **LAYOUTS[layout])
    path = tmp_path / "01.tif"
    path.write_bytes(path.read_bytes()[:-20])
    assert "01.tif: truncated; its pixels end at byte" in refusal(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a picture", b"II*\0\xff\xff\xff\0", b"II*\0\x08\0\0\0\x01\0"])
def test_an_unreadable_slice_is_named(stack: Path, content: bytes) -> None:
    (stack / "01.tif").write_bytes(content)
    message = refusal(stack)
    assert "01.tif: not a readable TIFF" in message
    assert "copy it again" in message


@settings(max_examples=150, deadline=None)
@given(layout=st.sampled_from(sorted(LAYOUTS)), data=st.data())
def test_damage_is_refused_or_read_but_never_crashes(layout: str, data: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = write_stack(Path(name), make_volume(1, 20, 20), **LAYOUTS[layout])
        content = bytearray((folder / "00.tif").read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            place = data.draw(st.integers(0, min(len(content) - 1, 260)))
            content[place] = data.draw(st.integers(0, 255))
        (folder / "00.tif").write_bytes(content)
        said = "00.tif is read"
        try:
            stack = volumes.open_stack(folder)
            stack.read_band(0, min(20, stack.shape[0]), 0, 1)
        except DataError as error:
            said = str(error)
        assert "00.tif" in said


def test_damaged_pixels_are_named_when_read(tmp_path: Path) -> None:
    path = write_stack(tmp_path, np.zeros((1, 40, 40), np.uint16), **LAYOUTS["deflate"]) / "00.tif"
    with tifffile.TiffFile(path) as file:
        start, count = file.pages.first.dataoffsets[3], file.pages.first.databytecounts[3]
    content = bytearray(path.read_bytes())
    content[start : start + count] = b"\xff" * count
    path.write_bytes(content)
    stack = volumes.open_stack(tmp_path)
    assert stack.read_band(0, 8, 0, 1).shape == (1, 8, 40)
    with pytest.raises(DataError, match=r"00\.tif: damaged, its pixels cannot be decoded"):
        stack.read_band(10, 20, 0, 1)


def test_a_slice_that_changed_after_opening_is_named(stack: Path) -> None:
    opened = volumes.open_stack(stack)
    for shape in ((20, 18), (19, 17)):
        tifffile.imwrite(stack / "01.tif", np.zeros(shape, np.uint16))
        with pytest.raises(DataError, match=r"01\.tif: changed since"):
            opened.read_band(0, 5, 0, 2)
    (stack / "01.tif").unlink()
    with pytest.raises(DataError, match=r"01\.tif: no such file"):
        opened.read_band(0, 5, 0, 2)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    write_stack(tmp_path, make_volume(9, 6, 6))
    (tmp_path / "02.tif").unlink()
    (tmp_path / "3.tif").write_bytes((tmp_path / "03.tif").read_bytes())
    (tmp_path / "05.tif").write_bytes(b"x")
    tifffile.imwrite(tmp_path / "06.tif", np.zeros((6, 7), np.uint16))
    found = volumes.problems(tmp_path)
    assert len(found) == 4
    assert {problem.file for problem in found} == {"", "3.tif", "05.tif", "06.tif"}
    assert all(problem.what for problem in found)


def test_slices_that_lie_plainly_are_read_without_their_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = make_volume(3, 20, 30)
    stack = volumes.open_stack(write_stack(tmp_path / "stack", volume))
    monkeypatch.setattr(tiff, "opened", None)
    assert np.array_equal(stack.read_band(4, 9, 1, 3), volume[1:3, 4:9])
    assert np.array_equal(stack.read_band(4, 9, 0, 2, left=5, right=11), volume[:2, 4:9, 5:11])
