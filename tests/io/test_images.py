"""Pictures and arrays: what is read equals what Pillow reads, and a damaged file is refused, never guessed at."""

from __future__ import annotations

import base64
import io
import os
import pickle
import re
import struct
import time
import tracemalloc
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from handlens.errors import DataError
from handlens.io import images, npy

HEIGHT, WIDTH = 23, 37


def colours(height: int = HEIGHT, width: int = WIDTH) -> Any:
    return np.random.default_rng(0).integers(0, 256, (height, width, 4), np.uint8)


def picture(mode: str, height: int = HEIGHT, width: int = WIDTH) -> Image.Image:
    if mode == "I;16":
        return Image.fromarray(np.random.default_rng(1).integers(0, 65536, (height, width), np.uint16))
    drawn = Image.fromarray(colours(height, width))
    return drawn.convert("RGB").convert(mode) if mode not in ("RGBA", "LA") else drawn.convert(mode)


def grey_palette() -> Image.Image:
    drawn = Image.fromarray(colours()[:, :, 0] // 16)
    drawn = Image.frombytes("P", drawn.size, drawn.tobytes())
    drawn.putpalette([17 * level for level in range(16) for _ in range(3)])
    return drawn


PICTURES: dict[str, Callable[[], Image.Image]] = {
    **{mode: (lambda mode=mode: picture(mode)) for mode in ("1", "L", "P", "LA", "RGB", "RGBA", "I;16", "CMYK")},
    "P grey": grey_palette,
}
PNG = ("1", "L", "P", "P grey", "LA", "RGB", "RGBA", "I;16")
JPEG = ("L", "RGB", "CMYK")
TIFF = ("1", "L", "P", "P grey", "RGB", "RGBA", "I;16", "CMYK")
FILES = [*(("PNG", name) for name in PNG), *(("JPEG", name) for name in JPEG), *(("TIFF", name) for name in TIFF)]
EIGHT_BITS = [(kind, name) for kind, name in FILES if name != "I;16"]
ENDINGS = {"PNG": "png", "JPEG": "jpg", "TIFF": "tif"}


def save(folder: Path, kind: str, name: str, **options: Any) -> Path:
    path = folder / f"picture.{ENDINGS[kind]}"
    PICTURES[name]().save(path, format=kind, **options)
    return path


def pillow(path: Path, mode: str) -> Any:
    with Image.open(path) as opened:
        return np.asarray(opened.convert(mode))


def chunk(name: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width: int, height: int, depth: int, colour: int, content: bytes) -> bytes:
    """A PNG made by hand; `content` are its rows, each after its filter byte."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    data = zlib.compress(content, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def patch_png(content: bytes, width: int, height: int) -> bytes:
    """The same PNG with another size in its header, and the checksum that goes with it."""
    header = b"IHDR" + struct.pack(">II", width, height) + content[24:29]
    return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]


def patch_jpeg(content: bytes, width: int, height: int) -> bytes:
    place = content.index(b"\xff\xc0") + 5
    return content[:place] + struct.pack(">HH", height, width) + content[place + 4 :]


def refusal(read: Callable[[Path], Any], path: Path) -> str:
    with pytest.raises(DataError) as caught:
        read(path)
    assert caught.value.file == path
    assert str(path) in str(caught.value)
    return str(caught.value)


# --- what is read --------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_the_header_agrees_with_the_pixels(tmp_path: Path, kind: str, name: str) -> None:
    path = save(tmp_path, kind, name)
    header = images.read_header(path)
    with Image.open(path) as opened:
        assert (header.mode, header.format) == (opened.mode, kind)
    assert header.shape == (HEIGHT, WIDTH) == images.read_image(path).shape[:2]


@pytest.mark.parametrize(("kind", "name"), EIGHT_BITS)
def test_rgb_and_grey_are_those_of_pillow(tmp_path: Path, kind: str, name: str) -> None:
    path = save(tmp_path, kind, name)
    rgb, grey = images.read_rgb(path), images.read_grey(path)
    assert rgb.dtype == grey.dtype == np.uint8
    np.testing.assert_array_equal(rgb, pillow(path, "RGB"))
    np.testing.assert_array_equal(grey, pillow(path, "L"))


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_a_mask_is_where_pillows_grey_is_above_127(tmp_path: Path, kind: str, name: str) -> None:
    path = save(tmp_path, kind, name)
    mask = images.read_mask(path)
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask, pillow(path, "L") > 127)


def test_a_mask_is_split_between_127_and_128(tmp_path: Path) -> None:
    images.write_png(tmp_path / "mask.png", np.array([[0, 127, 128, 255]], np.uint8))
    assert images.read_mask(tmp_path / "mask.png").tolist() == [[False, False, True, True]]


def test_white_may_be_255_in_a_mask_of_16_bits(tmp_path: Path) -> None:
    images.write_png(tmp_path / "mask.png", np.array([[0, 127, 128, 255, 256, 65535]], np.uint16))
    assert images.read_mask(tmp_path / "mask.png").tolist() == [[False, False, True, True, True, True]]


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bits_are_kept_and_reduced_only_when_asked(tmp_path: Path, kind: str) -> None:
    path = save(tmp_path, kind, "I;16")
    stored = np.asarray(picture("I;16"))
    whole = images.read_image(path)
    assert whole.dtype == np.uint16
    np.testing.assert_array_equal(whole, stored)
    np.testing.assert_array_equal(images.read_grey(path), stored >> 8)
    np.testing.assert_array_equal(images.read_rgb(path), np.repeat((stored >> 8)[:, :, None], 3, axis=2))


def test_16_bit_colours_are_reduced_too(tmp_path: Path) -> None:
    stored = colours()[:, :, :3].astype(np.uint16) * 200
    tifffile.imwrite(tmp_path / "a.tif", stored, photometric="rgb")
    assert images.read_image(tmp_path / "a.tif").dtype == np.uint16
    np.testing.assert_array_equal(images.read_rgb(tmp_path / "a.tif"), stored >> 8)


def test_alpha_is_kept_in_the_image_and_dropped_from_rgb(tmp_path: Path) -> None:
    path = save(tmp_path, "PNG", "RGBA")
    np.testing.assert_array_equal(images.read_image(path), colours())
    np.testing.assert_array_equal(images.read_rgb(path), colours()[:, :, :3])


@pytest.mark.parametrize("compression", ["lzw", "zlib", "packbits", "zstd"])
def test_compressed_tiffs_are_read(tmp_path: Path, compression: str) -> None:
    stored = colours()[:, :, :3]
    tifffile.imwrite(tmp_path / "a.tif", stored, photometric="rgb", compression=compression, rowsperstrip=5)
    np.testing.assert_array_equal(images.read_rgb(tmp_path / "a.tif"), stored)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint32, np.int16, np.int8])
def test_other_pixels_than_8_and_16_bits_are_refused(tmp_path: Path, dtype: Any) -> None:
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((5, 6), dtype), photometric="minisblack")
    for read in (images.read_image, images.read_rgb, images.read_grey, images.read_mask):
        assert "pixels; expected 8 or 16 bits without sign: convert it" in refusal(read, tmp_path / "a.tif")


@pytest.mark.parametrize("array", [colours()[:, :, 0], colours()[:, :, :3], colours(), np.asarray(picture("I;16"))])
def test_what_is_written_as_png_is_read_back(tmp_path: Path, array: Any) -> None:
    images.write_png(tmp_path / "new" / "a.png", array)
    back = images.read_image(tmp_path / "new" / "a.png")
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_a_boolean_array_is_written_as_black_and_white(tmp_path: Path) -> None:
    mask = colours()[:, :, 0] > 99
    images.write_png(tmp_path / "a.png", mask)
    np.testing.assert_array_equal(images.read_image(tmp_path / "a.png"), mask * np.uint8(255))
    np.testing.assert_array_equal(images.read_mask(tmp_path / "a.png"), mask)


def test_a_jpeg_is_written_close_to_the_array(tmp_path: Path) -> None:
    smooth = np.repeat(np.linspace(0, 255, 64).astype(np.uint8)[:, None], 64, axis=1)
    images.write_jpeg(tmp_path / "new" / "a.jpg", smooth, quality=95)
    assert np.abs(images.read_image(tmp_path / "new" / "a.jpg").astype(int) - smooth).max() < 8


def test_the_smallest_picture_is_read(tmp_path: Path) -> None:
    images.write_png(tmp_path / "a.png", np.array([[7]], np.uint8))
    assert images.read_rgb(tmp_path / "a.png").tolist() == [[[7, 7, 7]]]


@pytest.mark.parametrize(("depth", "row"), [(1, 1000), (2, 2000), (4, 4000)])
def test_a_blank_picture_of_few_bits_is_no_bomb(tmp_path: Path, depth: int, row: int) -> None:
    (tmp_path / "a.png").write_bytes(png(8000, 3000, depth, 0, bytes((row + 1) * 3000)))
    assert images.read_header(tmp_path / "a.png").shape == (3000, 8000)


@pytest.mark.parametrize("progressive", [False, True])
def test_a_blank_jpeg_is_no_bomb(tmp_path: Path, progressive: bool) -> None:
    Image.new("L", (8000, 3000)).save(tmp_path / "a.jpg", progressive=progressive, optimize=True, quality=5)
    assert images.read_header(tmp_path / "a.jpg").shape == (3000, 8000)


@pytest.mark.parametrize(("kind", "name"), [("PNG", "RGB"), ("JPEG", "RGB")])
@pytest.mark.parametrize("extra", [3, 5000])
def test_bytes_after_the_end_do_no_harm(tmp_path: Path, kind: str, name: str, extra: int) -> None:
    path = save(tmp_path, kind, name)
    before = images.read_rgb(path)
    path.write_bytes(path.read_bytes() + bytes(extra))
    np.testing.assert_array_equal(images.read_rgb(path), before)


def test_a_jpeg_with_a_second_picture_after_it_is_read_and_its_truncation_found(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    big = picture("RGB", 200, 300)
    big.save(path, format="MPO", save_all=True, append_images=[picture("RGB", 20, 30)])
    assert images.read_header(path) == images.Header((200, 300), "RGB", "JPEG")
    assert images.read_rgb(path).shape == (200, 300, 3)
    path.write_bytes(path.read_bytes()[:9000])
    assert "truncated JPEG" in refusal(images.read_header, path)


# --- what is listed ------------------------------------------------------------------------------


def test_pictures_are_listed_by_name_whatever_their_endings_case(tmp_path: Path) -> None:
    for name in ("b.PNG", "a.jpeg", "c.Tif", "d.tiff", "e.JPG", "notes.txt", ".hidden.png", "._b.PNG", "f.png.bak"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "folder.png").mkdir()
    assert [path.name for path in images.list_images(tmp_path)] == ["a.jpeg", "b.PNG", "c.Tif", "d.tiff", "e.JPG"]


def test_links_are_listed_and_a_broken_one_is_not_lost(tmp_path: Path) -> None:
    images.write_png(tmp_path / "elsewhere" / "x.png", np.zeros((3, 4), np.uint8))
    folder = tmp_path / "im"
    folder.mkdir()
    (folder / "0.png").symlink_to(tmp_path / "elsewhere" / "x.png")
    (folder / "1.png").symlink_to(tmp_path / "nowhere.png")
    (folder / "2.png").symlink_to(folder / "2.png")
    (folder / "3.png").symlink_to(tmp_path / "elsewhere")
    sound, *broken = images.list_images(folder)
    assert (sound.name, [path.name for path in broken]) == ("0.png", ["1.png", "2.png"])
    assert images.read_header(sound).shape == (3, 4)
    for path in broken:
        assert re.search("no such file|symbolic links", refusal(images.read_header, path))


def test_a_folder_that_is_not_there_has_no_pictures(tmp_path: Path) -> None:
    assert images.list_images(tmp_path / "nowhere") == []


def test_what_is_skipped_in_a_folder_is_said_with_a_reason(tmp_path: Path) -> None:
    for name, form in (
        ("b.bmp", "BMP"),
        ("w.webp", "WEBP"),
        ("good.png", "PNG"),
        ("nameless", "PNG"),
        ("t.svs", "TIFF"),
    ):
        picture("RGB").save(tmp_path / name, format=form)
    for name in ("notes.txt", "labels.csv", ".hidden.bmp", "broken.gif"):
        (tmp_path / name).write_bytes(b"x,y")
    images.write_png(tmp_path / "more" / "inside.png", np.zeros((3, 4), np.uint8))
    images.write_png(tmp_path / "folder.png" / "inside.png", np.zeros((3, 4), np.uint8))
    (tmp_path / "empty").mkdir()
    np.save(tmp_path / "a.npy", np.zeros(3))
    os.mkfifo(tmp_path / "pipe.bmp")
    assert [str(problem) for problem in images.skipped(tmp_path)] == [
        "b.bmp: BMP is not read here: save it as PNG or TIFF",
        "broken.gif: GIF is not read here: save it as PNG or TIFF",
        "folder.png: a sub-folder with 1 picture, not read: move its pictures up",
        "more: a sub-folder with 1 picture, not read: move its pictures up",
        "nameless: a PNG without the ending .png: rename it",
        "t.svs: a TIFF without the ending .tif: rename it",
        "w.webp: WebP is not read here: save it as PNG or TIFF",
    ]
    assert images.skipped(tmp_path / "nowhere") == []


# --- what is refused -----------------------------------------------------------------------------

READERS = (images.read_header, images.read_image, images.read_rgb, images.read_grey, images.read_mask)


@pytest.mark.parametrize("read", [*READERS, npy.read_npy, npy.read_npy_header])
def test_missing_empty_and_strange_files_are_refused(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    path = tmp_path / "a.png"
    assert "no such file" in refusal(read, path)
    path.write_bytes(b"")
    assert "empty" in refusal(read, path)
    path.write_bytes(b"this is a text, whatever its name says\n" * 99)
    assert "not a readable" in refusal(read, path)
    path.unlink()
    path.mkdir()
    assert "a folder, not a regular file" in refusal(read, path)


@pytest.mark.parametrize("kind", ["BMP", "GIF", "EPS", "WebP", "PDF", "PNM", "JPEG 2000", "AVIF"])
def test_other_formats_under_a_known_name_are_named(tmp_path: Path, kind: str) -> None:
    form = {"PNM": "PPM", "JPEG 2000": "JPEG2000"}.get(kind, kind.upper())
    picture("RGB").save(tmp_path / "a.png", format=form)
    message = refusal(images.read_image, tmp_path / "a.png")
    assert f"a.png: {kind} is not read here: " in message
    assert "PNG or TIFF" in message


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        ("HEIC", b"\0\0\0\x18ftypheic\0\0\0\0"),
        ("SVG", b'<?xml version="1.0"?>\n<svg width="3">'),
        ("SVG", b'<svg xmlns="http://www.w3.org/2000/svg"/>'),
        ("PSD", b"8BPS\0\1"),
        ("DICOM", bytes(128) + b"DICM"),
        ("HDF5", b"\x89HDF\r\n\x1a\n"),
        ("JPEG XL", b"\xff\x0a\0"),
        ("NumPy array", b"\x93NUMPY\1\0"),
    ],
)
def test_formats_are_known_by_their_first_bytes(tmp_path: Path, kind: str, start: bytes) -> None:
    (tmp_path / "a.jpg").write_bytes(start + bytes(500))
    assert f"{kind} is not read here: " in refusal(images.read_header, tmp_path / "a.jpg")


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_a_truncated_file_is_refused_by_its_header_alone(tmp_path: Path, kind: str, name: str) -> None:
    path = save(tmp_path, kind, name)
    whole = path.read_bytes()
    # A TIFF of Pillow's may end with padding; a JPEG and a PNG need their very last byte.
    cuts = {1, 2, 8, 20, len(whole) // 4, len(whole) // 2, len(whole) - 200, len(whole) - 9, len(whole) - 1}
    for cut in sorted(cut for cut in cuts if cut > 0):
        path.write_bytes(whole[:cut])
        for read in READERS:
            refusal(read, path)


@pytest.mark.parametrize("options", [{}, {"compression": "tiff_lzw"}, {"compression": "tiff_deflate"}])
def test_a_tiff_is_sound_or_refused_at_every_cut(tmp_path: Path, options: dict[str, Any]) -> None:
    path = save(tmp_path, "TIFF", "RGB", **options)
    whole, expected = path.read_bytes(), images.read_image(path)
    for cut in range(1, len(whole), 41):
        path.write_bytes(whole[:cut])
        refusal(images.read_header, path)
    path.write_bytes(whole)
    np.testing.assert_array_equal(images.read_image(path), expected)


def test_the_end_of_a_thumbnail_is_not_the_end_of_its_photograph(tmp_path: Path) -> None:
    content = io.BytesIO()
    picture("L", 8, 8).save(content, format="JPEG")
    thumbnail = content.getvalue()
    path = save(tmp_path, "JPEG", "RGB")
    whole = path.read_bytes()
    segment = b"\xff\xe5" + struct.pack(">H", len(thumbnail) + 2) + thumbnail
    whole = whole[:2] + segment + whole[2:]
    path.write_bytes(whole)
    assert images.read_header(path).shape == (HEIGHT, WIDTH)
    scan = whole.rindex(b"\xff\xda")
    for cut in (scan + 20, scan + 300, len(whole) - 2):
        path.write_bytes(whole[:cut])
        assert "truncated JPEG" in refusal(images.read_header, path)


def test_a_truncated_file_is_told_to_be_copied_again(tmp_path: Path) -> None:
    for kind in ENDINGS:
        path = save(tmp_path, kind, "RGB")
        path.write_bytes(path.read_bytes()[:-100])
        message = refusal(images.read_header, path)
        assert "truncated" in message
        assert "copy it again" in message


@pytest.mark.parametrize("size", [(60_000, 60_000), (20_000, 20_000), (2**31 - 1, 2**31 - 1), (499_999_999, 1)])
def test_a_png_that_lies_about_its_size_is_refused_before_anything_is_made(tmp_path: Path, size: Any) -> None:
    path = save(tmp_path, "PNG", "RGB")
    path.write_bytes(patch_png(path.read_bytes(), *size))
    refuse_quickly(path)


def test_a_packed_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(60_000, 60_000, 1, 0, bytes(7501 * 60_000)[: 2**22]))
    assert "60000x60000 is 3,600,000,000 pixels" in refuse_quickly(path)


@pytest.mark.parametrize("size", [(65_500, 65_500), (20_000, 20_000)])
def test_a_jpeg_that_lies_about_its_size_is_refused_before_anything_is_made(tmp_path: Path, size: Any) -> None:
    path = save(tmp_path, "JPEG", "RGB")
    path.write_bytes(patch_jpeg(path.read_bytes(), *size))
    refuse_quickly(path)


@pytest.mark.parametrize("size", [(60_000, 60_000), (50, 9_000_000), (9_000_000, 40)])
@pytest.mark.parametrize("compression", [None, "lzw"])
def test_a_tiff_that_lies_about_its_size_is_refused(tmp_path: Path, size: Any, compression: str | None) -> None:
    path = tmp_path / "a.tif"
    stored = np.zeros((40, 50, 3), np.uint8)
    tifffile.imwrite(path, stored, photometric="rgb", compression=compression, rowsperstrip=9, tile=None)
    with tifffile.TiffFile(path, mode="r+") as file:
        for name, value in zip(("ImageWidth", "ImageLength"), size, strict=True):
            file.pages.first.tags[name].overwrite(value, dtype="I")
    if size[1] > 40 or compression is None:
        refuse_quickly(path)
    else:
        refusal(images.read_image, path)


def test_a_png_chunk_that_claims_gigabytes_is_refused_before_they_are_made(tmp_path: Path) -> None:
    path = save(tmp_path, "PNG", "RGB")
    content = path.read_bytes()
    path.write_bytes(content[:-12] + struct.pack(">I", 2**31 - 1) + b"IDAT" + content[-12:])
    assert "truncated PNG" in refuse_quickly(path)


@pytest.mark.parametrize("layout", [{"tile": (16, 32)}, {"planarconfig": "separate"}, {"rowsperstrip": 4}])
@pytest.mark.parametrize("compression", [None, "lzw"])
def test_a_tiff_may_lie_on_the_disk_in_any_way(tmp_path: Path, layout: Any, compression: str | None) -> None:
    stored = colours()[:, :, :3]
    path = tmp_path / "a.tif"
    array = stored.transpose(2, 0, 1).copy() if "planarconfig" in layout else stored
    tifffile.imwrite(path, array, photometric="rgb", compression=compression, **layout)
    np.testing.assert_array_equal(images.read_rgb(path), stored)


def refuse_quickly(path: Path) -> str:
    refusal(images.read_header, path)  # libraries are imported
    tracemalloc.start()
    begin = time.process_time()
    message = refusal(images.read_image, path)
    assert time.process_time() - begin < 1
    assert tracemalloc.get_traced_memory()[1] < 2**21
    tracemalloc.stop()
    return message


def test_a_png_whose_rows_are_missing_is_refused_by_its_pixels(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(40, 40, 8, 2, bytes(121 * 7)))
    assert images.read_header(path).shape == (40, 40)
    assert "damaged" in refusal(images.read_image, path)


def test_a_png_whose_pixels_go_on_after_another_chunk_is_refused(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.png", png(40, 40, 8, 2, bytes(121 * 40))
    other = chunk(b"gAMA", struct.pack(">I", 45455))
    pixels, end = whole[33:-12], whole[-12:]
    path.write_bytes(whole[:33] + other + pixels + other + end)
    assert images.read_image(path).shape == (40, 40, 3)
    path.write_bytes(whole[:33] + pixels + other + pixels + end)
    assert f"at byte {33 + len(pixels) + len(other):,} after their end" in refusal(images.read_image, path)


def test_a_png_whose_pixels_end_with_a_wrong_checksum_is_refused(tmp_path: Path) -> None:
    """Decoders stop at the last row that they need, so they never come to it."""
    path, packed = tmp_path / "a.png", bytearray(zlib.compress(bytes(121 * 40 + 1)))
    packed[-1] ^= 1
    path.write_bytes(png(40, 40, 8, 2, b"").replace(chunk(b"IDAT", zlib.compress(b"", 9)), chunk(b"IDAT", packed)))
    assert "their checksum is wrong" in refusal(images.read_image, path)
    packed[-1] ^= 1
    path.write_bytes(png(40, 40, 8, 2, b"").replace(chunk(b"IDAT", zlib.compress(b"", 9)), chunk(b"IDAT", packed)))
    assert not images.read_image(path).any()


def test_a_small_png_that_unpacks_to_gigabytes_is_refused_before_they_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(4, 4, 8, 0, bytes(300_000_000)))
    tracemalloc.start()
    try:
        assert "more pixels than the 4x4 of its header" in refusal(images.read_image, path)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def test_a_jpeg_whose_segments_do_not_follow_each_other_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    Image.fromarray(np.zeros((16, 16), np.uint8)).save(path)
    content = path.read_bytes()
    assert content[2:6] == b"\xff\xe0\0\x10"
    path.write_bytes(content[:4] + b"\0\1" + content[6:])
    assert "no segment at byte 2" in refusal(images.read_image, path)


def huffman_tables(content: bytes) -> list[tuple[int, int]]:
    """Start and end of every segment of Huffman tables of a JPEG whose pixels hold no such bytes."""
    places = [found.start() for found in re.finditer(b"\xff\xc4", content)]
    return [(place, place + 2 + int.from_bytes(content[place + 2 : place + 4], "big")) for place in places]


@pytest.mark.parametrize("how", [{}, {"optimize": True}, {"progressive": True}, {"restart_marker_rows": 1}])
@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_a_jpeg_without_one_of_its_huffman_tables_is_refused(tmp_path: Path, mode: str, how: dict[str, Any]) -> None:
    """Decoders put the usual table in its place, in silence: the film format Motion JPEG leaves them out."""
    stream = io.BytesIO()
    picture(mode, 40, 40).save(stream, "JPEG", **how)
    content, path = stream.getvalue(), tmp_path / "a.jpg"
    path.write_bytes(content)
    assert images.read_image(path).shape[:2] == (40, 40)
    tables = huffman_tables(content)
    assert len(tables) > 1
    for start, end in tables:
        path.write_bytes(content[:start] + content[end:])
        said = refusal(images.read_image, path)
        if "progressive" not in how:  # there a later pass may find the table of an earlier one, which does not fit
            assert re.search(r"its pixels need [AD]C Huffman table [01], which does not stand before them", said)
    first, last = tables[0][0], tables[-1][1]
    if "progressive" not in how:
        path.write_bytes(content[:first] + content[last:])
        assert "which does not stand before them: copy it again" in refusal(images.read_image, path)


def test_a_huffman_table_comes_before_the_pixels_that_need_it(tmp_path: Path) -> None:
    stream = io.BytesIO()
    picture("L").save(stream, "JPEG", progressive=True)
    content, path = stream.getvalue(), tmp_path / "a.jpg"
    start, end = huffman_tables(content)[0]
    path.write_bytes(content[:start] + content[end:-2] + content[start:end] + content[-2:])
    assert "need DC Huffman table 0, which does not stand before them" in refusal(images.read_image, path)


def test_a_huffman_table_longer_than_its_segment_is_refused(tmp_path: Path) -> None:
    stream = io.BytesIO()
    picture("L").save(stream, "JPEG")
    content, path = bytearray(stream.getvalue()), tmp_path / "a.jpg"
    start, _ = huffman_tables(bytes(content))[1]
    content[start + 20] += 9
    path.write_bytes(content)
    assert f"the Huffman table at byte {start:,} is cut" in refusal(images.read_image, path)


ARITHMETIC = {
    "sequential": "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBkeFxlZ2P/yQALCAAQABABAREA/8wABgAQEAX/2gAIAQEAAD8A/wBoq309/gu/VwauHUW/yID/2Q==",
    "progressive": "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBkeFxlZ2P/ygALCAAQABABAREA/8wABAAQ/9oACAEBAAAAAf7RveyA/8wABBAF/9oACAEBAAEFAhgdfctQ/8wABBAF/9oACAEBAAY/AsD/zAAEEAX/2gAIAQEAAT8hfP/aAAgBAQAAABBw/8wABBAF/9oACAEBAAE/ENUiL9WA/9k=",
}
"""Grey of 16x16 in arithmetic coding, from libjpeg's example program: Pillow writes none."""


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_coding_needs_no_huffman_table(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.jpg").write_bytes(base64.b64decode(ARITHMETIC[name]))
    expected = np.add.outer(np.arange(16) * 6, np.arange(16) * 8)
    assert np.abs(images.read_image(tmp_path / "a.jpg").astype(int) - expected).max() < 8


# --- array files ---------------------------------------------------------------------------------


class Bang:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("a pickle was opened",))


def npy_bytes(header: str, content: bytes, version: tuple[int, int] = (1, 0)) -> bytes:
    body = header.encode("latin1") + b"\n"
    size = struct.pack("<H" if version == (1, 0) else "<I", len(body))
    return b"\x93NUMPY" + bytes(version) + size + body + content


def npy_header(shape: object, descr: str = "|u1", order: bool = False) -> str:
    return f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape!r}, }}"


@pytest.mark.parametrize("dtype", [np.uint8, bool, np.float32, np.int64])
@pytest.mark.parametrize("shape", [(2, 5, 7), (3,), (), (0, 5, 7)])
def test_an_array_is_read_back(tmp_path: Path, dtype: Any, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    np.save(tmp_path / "a.npy", array)
    assert npy.read_npy_header(tmp_path / "a.npy") == (shape, np.dtype(dtype))
    back = npy.read_npy(tmp_path / "a.npy")
    assert not isinstance(back, np.memmap)
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, array)


def test_column_order_is_understood(tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    np.save(tmp_path / "a.npy", np.asfortranarray(array))
    np.testing.assert_array_equal(npy.read_npy(tmp_path / "a.npy"), array)


@pytest.mark.parametrize("read", [npy.read_npy, npy.read_npy_header])
def test_no_pickle_is_ever_opened(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([Bang()], dtype=object), allow_pickle=True)
    assert "not a readable .npy array" in refusal(read, path)
    path.write_bytes(pickle.dumps(Bang()))
    assert "not a readable .npy array" in refusal(read, path)
    path.write_bytes(npy_bytes(npy_header((1,), "|O"), pickle.dumps(Bang())))
    assert "not a readable .npy array" in refusal(read, path)


@pytest.mark.parametrize("read", [npy.read_npy, npy.read_npy_header])
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(npy_bytes(npy_header((2, 5, 5)), bytes(49)), id="a byte too few"),
        pytest.param(npy_bytes(npy_header((2, 5, 5)), bytes(51)), id="a byte too many"),
        pytest.param(npy_bytes(npy_header((20, 5, 5)), bytes(50)), id="a larger shape"),
        pytest.param(npy_bytes(npy_header((1, 5, 5)), bytes(50)), id="a smaller shape"),
        pytest.param(npy_bytes(npy_header((2, 5, 5), "<f8"), bytes(50)), id="a wider type"),
        pytest.param(npy_bytes(npy_header((10**9, 10**9)), bytes(50)), id="an exabyte"),
        pytest.param(npy_bytes(npy_header((2**32, 2**32)), bytes(50)), id="a product that overflows to nothing"),
        pytest.param(npy_bytes(npy_header((2**64,)), bytes(50)), id="a number that overflows"),
        pytest.param(npy_bytes(npy_header((-1, 5)), bytes(50)), id="a negative side"),
        pytest.param(npy_bytes(npy_header((2.0, 25)), bytes(50)), id="a broken side"),
        pytest.param(npy_bytes(npy_header("50"), bytes(50)), id="a shape in words"),
        pytest.param(npy_bytes("{'descr': '|u1'}", bytes(50)), id="keys missing"),
        pytest.param(npy_bytes("(" * 9000, bytes(50)), id="a thousand brackets"),
        pytest.param(npy_bytes("{'descr': '|u1', 'shape': (5", bytes(50)), id="an open bracket"),
        pytest.param(npy_bytes("  x\n y", bytes(50)), id="bad indentation"),
        pytest.param(npy_bytes("\x00\x01\xff" * 30, bytes(50)), id="noise"),
        pytest.param(npy_bytes(npy_header((50,), "|x9"), bytes(50)), id="an unknown type"),
        pytest.param(npy_bytes(npy_header((50,)), bytes(50), (9, 9)), id="an unknown version"),
        pytest.param(npy_bytes(npy_header((50,)) + " " * 60_000, bytes(50)), id="a very long header"),
        pytest.param(b"\x93NUMPY", id="the magic alone"),
        pytest.param(b"\x93NUMPY\x01\x00\xff\xff", id="a header that is not there"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path: Path, content: bytes, read: Callable[[Path], Any]) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    refusal(read, tmp_path / "a.npy")


def test_a_lying_header_is_told_with_both_sizes(tmp_path: Path) -> None:
    content = npy_bytes(npy_header((1, 5, 5)), bytes(50))
    (tmp_path / "a.npy").write_bytes(content)
    message = refusal(npy.read_npy_header, tmp_path / "a.npy")
    assert f"1x5x5 uint8 ({len(content) - 25} bytes), the file has {len(content)}" in message


@pytest.mark.parametrize("read", [npy.read_npy, npy.read_npy_header])
def test_every_truncation_of_an_array_is_refused(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.ones((2, 5, 5), np.uint8))
    whole = path.read_bytes()
    for cut in (1, 5, 6, 7, 9, 10, 11, 60, 127, 128, len(whole) - 1):
        path.write_bytes(whole[:cut])
        refusal(read, path)


def test_an_archive_of_arrays_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "a.npy").open("wb") as stream:
        np.savez(stream, a=np.ones(3), b=np.zeros(3))
    assert "save it again with numpy.save" in refusal(npy.read_npy, tmp_path / "a.npy")


# --- noise ---------------------------------------------------------------------------------------


def mutate(content: bytes, generator: np.random.Generator) -> bytes:
    """Overwrite, cut out, insert or truncate a little; often near the start, where the headers are."""
    changed = bytearray(content)
    for _ in range(int(generator.integers(1, 4))):
        reach = len(changed) if generator.random() < 0.5 else min(len(changed), 200)
        place, length = int(generator.integers(0, max(reach, 1))), int(generator.integers(1, 9))
        noise = bytes(generator.choice([0, 1, 127, 128, 255, int(generator.integers(256))], length).tolist())
        kind = generator.integers(0, 8)
        if kind < 5:
            changed[place : place + length] = noise
        elif kind == 5:
            del changed[place : place + length]
        elif kind == 6:
            changed[place:place] = noise
        else:
            del changed[place:]
    return bytes(changed)


@pytest.mark.parametrize(
    ("kind", "name", "options"),
    [
        ("PNG", "RGB", {}),
        ("PNG", "P", {}),
        ("JPEG", "RGB", {}),
        ("JPEG", "L", {"progressive": True}),
        ("TIFF", "L", {}),
        ("TIFF", "RGB", {"compression": "tiff_lzw"}),
    ],
)
def test_a_mutated_picture_is_read_whole_or_refused(
    tmp_path: Path, kind: str, name: str, options: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    path = save(tmp_path, kind, name, **options)
    whole = path.read_bytes()
    generator = np.random.default_rng([3, len(whole)])
    outcomes = {"read": 0, "refused": 0}
    for _ in range(450):  # of damaged LZW only one in fifteen is still readable
        path.write_bytes(mutate(whole, generator))
        try:
            header = images.read_header(path)
            array = images.read_image(path)
        except DataError:
            outcomes["refused"] += 1
        else:
            assert array.dtype in (np.uint8, np.uint16)
            assert array.shape[:2] == header.shape
            outcomes["read"] += 1
    assert outcomes["refused"] > 20, outcomes
    assert outcomes["read"] > 20 or kind == "PNG", outcomes  # a PNG has a checksum over every byte


@pytest.mark.filterwarnings("error")
def test_a_mutated_array_is_read_whole_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.random.default_rng(0).integers(0, 2, (2, 9, 11), np.uint8))
    whole = path.read_bytes()
    generator = np.random.default_rng(5)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(2000):
        content = mutate(whole, generator)
        path.write_bytes(content)
        try:
            array = npy.read_npy(path)
        except DataError:
            outcomes["refused"] += 1
        else:
            assert content.endswith(array.tobytes("A"))
            outcomes["read"] += 1
    assert min(outcomes.values()) > 50, outcomes


def test_warnings_of_libraries_stay_inside(tmp_path: Path) -> None:
    path = save(tmp_path, "PNG", "1")
    path.write_bytes(png(30_000, 10_000, 1, 0, bytes(3751 * 10_000)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert images.read_header(path).shape == (10_000, 30_000)


@pytest.mark.parametrize("ending", ["png", "jpg", "tif"])
def test_a_file_of_ten_gigabytes_is_refused_at_once(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 60), dtype=np.uint8)).save(path)
    with path.open("rb+") as stream:
        stream.truncate(10 * 2**30)  # a hole: it takes no room on the disk
    started = time.process_time()
    with pytest.raises(DataError, match="holds something else"):
        images.read_header(path)
    assert time.process_time() - started < 2


def test_a_png_that_ends_in_zeros_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 60), dtype=np.uint8)).save(path)
    content = path.read_bytes()
    path.write_bytes(content[:-12] + bytes(50_000_000))
    started = time.process_time()
    with pytest.raises(DataError, match="truncated PNG"):
        images.read_header(path)
    assert time.process_time() - started < 2


# --- many small parts ---------------------------------------------------------------------------------------------


def png_of(before: bytes = b"", between: bytes = b"", after: bytes = b"") -> bytes:
    """A sound grey PNG of 60x60 with chunks put in: before its pixels, among them, and after them."""
    packed = zlib.compress(bytes(61 * 60))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 60, 60, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", packed[:5]) + between + chunk(b"IDAT", packed[5:])
    return b"\x89PNG\r\n\x1a\n" + head + before + pixels + after + chunk(b"IEND")


def jpeg_of(before: bytes = b"", after: bytes = b"", *, progressive: bool = False) -> bytes:
    """A sound grey JPEG with segments put in: before its pixels, and before its end."""
    stream = io.BytesIO()
    Image.new("L", (60, 60), 90).save(stream, "JPEG", progressive=progressive)
    content = stream.getvalue()
    return content[:2] + before + content[2:-2] + after + content[-2:]


LAST_SCAN = jpeg_of(progressive=True)[jpeg_of(progressive=True).rfind(b"\xff\xda") : -2]
TOO_MANY: dict[str, tuple[Callable[[], bytes], str]] = {
    "texts.png": (lambda: png_of(before=chunk(b"tEXt", b"a\0b") * 150_000), "more than 10.,... chunks"),
    "empty.png": (lambda: png_of(between=chunk(b"IDAT") * 150_000), "more than 10.,... chunks"),
    "end.png": (lambda: png_of(after=chunk(b"tEXt") * 150_000), "more than 10.,... chunks"),
    "comments.jpg": (lambda: jpeg_of(b"\xff\xfe\x00\x02" * 150_000), "more than 10.,... segments"),
    "fillers.jpg": (lambda: jpeg_of(b"\xff" * 150_000), "more than 10.,... segments"),
    "last.jpg": (lambda: jpeg_of(after=b"\xff\xfe\x00\x02" * 150_000), "more than 10.,... segments"),
    "scans.jpg": (lambda: jpeg_of(after=LAST_SCAN * 200, progressive=True), "more than 100 passes over its pixels"),
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_many_small_parts_are_refused_before_they_are_read(tmp_path: Path, name: str) -> None:
    make, said = TOO_MANY[name]
    (tmp_path / name).write_bytes(make())
    started = time.process_time()
    with pytest.raises(DataError, match=f"{said}.*: save it again"):
        images.read_image(tmp_path / name)
    assert time.process_time() - started < 2


def test_what_programs_write_is_not_many(tmp_path: Path) -> None:
    """Pixels in chunks of 64 bytes, some comments, and every pass that a program writes."""
    (tmp_path / "a.png").write_bytes(png_of(before=chunk(b"tEXt", b"a\0b") * 500, after=chunk(b"tEXt", b"a\0b") * 500))
    (tmp_path / "a.jpg").write_bytes(jpeg_of(b"\xff\xfe\x00\x04ab" * 500 + b"\xff" * 20, progressive=True))
    for name in ("a.png", "a.jpg"):
        assert images.read_image(tmp_path / name).shape == (60, 60)


def test_a_comment_before_the_header_is_damage(tmp_path: Path) -> None:
    content = png_of()
    (tmp_path / "a.png").write_bytes(content[:8] + chunk(b"tEXt", b"a\0b") + content[8:])
    with pytest.raises(DataError, match="does not begin with its header"):
        images.read_image(tmp_path / "a.png")


def test_libpng_has_nothing_to_print(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Colour profiles that fit no pixels, and more texts than it keeps; the pixels are the same."""
    profile = chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(200)))
    (tmp_path / "a.png").write_bytes(png_of(before=profile + chunk(b"tEXt", b"a\0b") * 2000))
    (tmp_path / "b.png").write_bytes(png_of())
    first, second = (images.read_image(tmp_path / name) for name in ("a.png", "b.png"))
    np.testing.assert_array_equal(first, second)
    assert capfd.readouterr() == ("", "")
