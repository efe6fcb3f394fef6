"""One rule of orientation for every format, and what is done with every kind of pixels: docs/reference/file-formats.md."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from handlens.errors import DataError
from handlens.io import documents, images, orientation, row_reader, volumes

STORED = np.random.default_rng(3).integers(0, 256, (24, 40, 3), np.uint8)
UPRIGHT = [orientation.turn(STORED, number) for number in range(1, 9)]
NUMBERS = range(1, 9)


def exif(number: int) -> Image.Exif:
    notes = Image.Exif()
    notes[orientation.TAG] = number
    return notes


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def save(folder: Path, kind: str, number: int) -> Path:
    """The stored pixels in a file that asks to be turned."""
    path = folder / f"a{number}.{kind.split()[0]}"
    tag = [(orientation.TAG, "H", 1, number, True)]
    if kind == "png late":  # after the pixels, which the format allows
        Image.fromarray(STORED).save(path)
        data = path.read_bytes()
        block = exif(number).tobytes().removeprefix(b"Exif\0\0")
        path.write_bytes(data[:-12] + chunk(b"eXIf", block) + data[-12:])
    elif kind == "tif":
        tifffile.imwrite(path, STORED, photometric="rgb", extratags=tag)
    elif kind == "tif lzw tiles":
        tifffile.imwrite(path, STORED, photometric="rgb", extratags=tag, compression="zlib", tile=(16, 16))
    elif kind == "tif palette":
        Image.fromarray(STORED).convert("P").save(path, exif=exif(number))
    else:
        Image.fromarray(STORED).save(path, exif=exif(number), quality=95)
    return path


@pytest.mark.parametrize("number", NUMBERS)
def test_turning_is_what_pillow_does(number: int) -> None:
    picture = Image.fromarray(STORED)
    picture.getexif()[orientation.TAG] = number
    np.testing.assert_array_equal(orientation.turn(STORED, number), np.asarray(ImageOps.exif_transpose(picture)))
    assert orientation.shown_shape((24, 40), number) == orientation.turn(STORED, number).shape[:2]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("kind", ["png", "png late", "tif", "tif lzw tiles"])
def test_lossless_pictures_are_turned_as_viewers_turn_them(tmp_path: Path, kind: str, number: int) -> None:
    path = save(tmp_path, kind, number)
    expected = UPRIGHT[number - 1]
    header = images.read_header(path)
    assert (header.shape, header.orientation) == (expected.shape[:2], number)
    np.testing.assert_array_equal(images.read_image(path), expected)
    np.testing.assert_array_equal(images.read_mask(path), images._as_grey(expected) > 127)
    with row_reader.opened(path) as rows:
        assert rows.shape == expected.shape[:2]
        np.testing.assert_array_equal(rows.read(3, 17), expected[3:17])
    assert documents.read_orientation(path, None) == number


@pytest.mark.parametrize("number", NUMBERS)
def test_a_palette_is_turned(tmp_path: Path, number: int) -> None:
    few = np.asarray(Image.fromarray(STORED).convert("P").convert("RGB"))
    path = save(tmp_path, "tif palette", number)
    np.testing.assert_array_equal(images.read_image(path), orientation.turn(few, number))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_photograph_is_turned(tmp_path: Path, number: int) -> None:
    path = save(tmp_path, "jpg", number)
    with Image.open(path) as picture:
        expected = np.asarray(ImageOps.exif_transpose(picture))
    np.testing.assert_array_equal(images.read_image(path), expected)
    assert images.read_header(path).shape == expected.shape[:2]


def test_every_page_of_a_tiff_is_turned_by_its_own_tag(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        for number in NUMBERS:
            writer.write(STORED, photometric="rgb", extratags=[(orientation.TAG, "H", 1, number, True)])
    assert documents.count_pages(tmp_path / "a.tif") == 8
    for number in NUMBERS:
        np.testing.assert_array_equal(documents.read_page(tmp_path / "a.tif", number), UPRIGHT[number - 1])
        assert documents.read_orientation(tmp_path / "a.tif", number) == number


def test_the_channels_of_imagej_are_turned_too(tmp_path: Path) -> None:
    planes = np.moveaxis(STORED, -1, 0)
    tag = [(orientation.TAG, "H", 1, 6, True)]
    tifffile.imwrite(tmp_path / "a.tif", planes, imagej=True, metadata={"axes": "CYX"}, extratags=tag)
    np.testing.assert_array_equal(images.read_image(tmp_path / "a.tif"), UPRIGHT[5])
    with row_reader.opened(tmp_path / "a.tif") as rows:
        np.testing.assert_array_equal(rows.read(0, 40), UPRIGHT[5])


def test_a_turned_slice_is_refused(tmp_path: Path) -> None:
    tag = [(orientation.TAG, "H", 1, 3, True)]
    tifffile.imwrite(tmp_path / "00.tif", np.zeros((5, 6), np.uint16), extratags=tag)
    with pytest.raises(DataError, match="its orientation tag asks viewers to turn it; a slice is upright"):
        volumes.open_stack(tmp_path)


def test_masks_and_images_agree(tmp_path: Path) -> None:
    from handlens.challenges.cells import data
    from handlens.challenges.cells.options import CellsSettings
    from handlens.masks.rle import decode

    for name in ("im", "mask"):
        (tmp_path / name).mkdir()
    mask = (STORED[:, :, 0] > 127) * np.uint8(255)
    Image.fromarray(STORED).save(tmp_path / "im" / "0.jpg", exif=exif(6))
    Image.fromarray(orientation.turn(mask, 6)).save(tmp_path / "mask" / "0.png")
    truth = data.open_truth(tmp_path, CellsSettings())
    (case,) = truth.cases
    np.testing.assert_array_equal(decode(truth.read(case), (40, 24), order="rows"), orientation.turn(mask, 6) > 0)


@pytest.mark.parametrize("number", [0, 9, 600])
def test_a_number_that_means_nothing_is_upright(tmp_path: Path, number: int) -> None:
    assert images.read_header(save(tmp_path, "png", number)).orientation == 1


def test_a_damaged_exif_chunk_is_not_asked(tmp_path: Path) -> None:
    path = save(tmp_path, "png late", 6)
    data = path.read_bytes()
    place = data.index(b"eXIf")
    path.write_bytes(data[: place + 20] + b"\xff" + data[place + 21 :])
    np.testing.assert_array_equal(images.read_image(path), STORED)


@given(st.binary(max_size=60).map(lambda data: b"II*\0\x08\0\0\0" + data))
def test_no_bytes_of_exif_crash(block: bytes) -> None:
    assert 1 <= orientation.of_exif(block) <= 8


# --- kinds of pixels ----------------------------------------------------------------------------------------------

GREY = STORED[:, :, 0]


@pytest.mark.parametrize("pages", [1, 2])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_white_is_zero_is_inverted_in_8_and_16_bits(tmp_path: Path, dtype: type, pages: int) -> None:
    grey = GREY.astype(dtype) * (257 if dtype is np.uint16 else 1)
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        for _ in range(pages):
            writer.write(np.iinfo(dtype).max - grey, photometric="miniswhite")
    page = None if pages == 1 else 2
    np.testing.assert_array_equal(documents.read_page(tmp_path / "a.tif", page), grey)


@pytest.mark.parametrize("form", ["jpg", "tif"])
def test_ink_becomes_colours(tmp_path: Path, form: str) -> None:
    inks = Image.fromarray(STORED).convert("CMYK")
    inks.save(tmp_path / f"a.{form}")
    with Image.open(tmp_path / f"a.{form}") as picture:
        expected = np.asarray(picture.convert("RGB"))
    np.testing.assert_array_equal(images.read_image(tmp_path / f"a.{form}"), expected)


def test_ink_on_a_later_page_is_no_alpha(tmp_path: Path) -> None:
    inks = np.asarray(Image.fromarray(STORED).convert("CMYK"))
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        for _ in range(2):
            writer.write(inks, photometric="separated")
    assert np.abs(documents.read_page(tmp_path / "a.tif", 2).astype(int) - STORED).max() <= 1


@pytest.mark.parametrize("form", ["png", "tif"])
def test_palettes_become_colours_and_grey_ones_grey(tmp_path: Path, form: str) -> None:
    coloured = Image.fromarray(STORED).convert("P")
    coloured.save(tmp_path / f"a.{form}")
    np.testing.assert_array_equal(images.read_image(tmp_path / f"a.{form}"), np.asarray(coloured.convert("RGB")))
    grey = Image.fromarray(GREY, "L").copy()
    grey.putpalette([value for value in range(256) for _ in range(3)])
    grey.save(tmp_path / f"b.{form}")
    np.testing.assert_array_equal(images.read_image(tmp_path / f"b.{form}"), GREY)


@pytest.mark.parametrize("form", ["png", "tif"])
def test_one_bit_is_black_and_white(tmp_path: Path, form: str) -> None:
    Image.fromarray(GREY > 127).save(tmp_path / f"a.{form}")
    np.testing.assert_array_equal(images.read_image(tmp_path / f"a.{form}"), (GREY > 127) * 255)


@pytest.mark.parametrize("pages", [1, 2])
def test_four_bits_are_spread_over_eight(tmp_path: Path, pages: int) -> None:
    few = GREY >> 4
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        for _ in range(pages):
            packed = (few[:, 0::2] << 4 | few[:, 1::2]).tobytes()
            writer.write(iter([packed]), shape=few.shape, dtype=np.uint8, bitspersample=4, photometric="minisblack")
    np.testing.assert_array_equal(documents.read_page(tmp_path / "a.tif", None if pages == 1 else 2), few * 17)


@pytest.mark.parametrize("form", ["png", "tif"])
def test_alpha_is_kept_and_colours_are_those_stored(tmp_path: Path, form: str) -> None:
    stored = np.dstack([STORED, GREY])
    Image.fromarray(stored, "RGBA").save(tmp_path / f"a.{form}")
    np.testing.assert_array_equal(images.read_image(tmp_path / f"a.{form}"), stored)
    np.testing.assert_array_equal(images.read_rgb(tmp_path / f"a.{form}"), STORED)


def test_colours_multiplied_with_alpha_are_divided_again(tmp_path: Path) -> None:
    alpha = np.full_like(GREY, 128)
    tifffile.imwrite(
        tmp_path / "a.tif", np.dstack([STORED // 2, alpha]), photometric="rgb", extrasamples=["assocalpha"]
    )
    read = images.read_image(tmp_path / "a.tif")
    assert np.abs(read[:, :, :3].astype(int) - STORED).max() <= 2
    with row_reader.opened(tmp_path / "a.tif") as rows:
        np.testing.assert_array_equal(rows.read(0, 24), read[:, :, :3])


def test_16_bits_are_kept_and_floats_refused(tmp_path: Path) -> None:
    deep = GREY.astype(np.uint16) * 199
    Image.fromarray(deep).save(tmp_path / "a.png")
    np.testing.assert_array_equal(images.read_image(tmp_path / "a.png"), deep)
    tifffile.imwrite(tmp_path / "a.tif", deep.astype(np.float32))
    with pytest.raises(DataError, match="float32 pixels; expected 8 or 16 bits without sign: convert it"):
        images.read_image(tmp_path / "a.tif")


def test_lab_is_not_taken_for_rgb(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", STORED, photometric="cielab")
    with pytest.raises(DataError, match=r"CIELAB\); expected grey, RGB, RGBA, palette or CMYK: convert it"):
        images.read_image(tmp_path / "a.tif")


def test_the_first_picture_of_an_animation_is_read(tmp_path: Path) -> None:
    frames = [Image.fromarray(STORED), Image.fromarray(255 - STORED)]
    frames[0].save(tmp_path / "a.png", save_all=True, append_images=frames[1:])
    np.testing.assert_array_equal(images.read_image(tmp_path / "a.png"), STORED)


# --- damage that decoders pass over -------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"progressive": True}, {"subsampling": 0}, {"restart_marker_rows": 1}])
@pytest.mark.parametrize("share", [0.5, 0.8, 0.97])
def test_a_jpeg_whose_rest_is_lost_is_refused_though_it_has_its_end(tmp_path: Path, how: dict, share: float) -> None:
    smooth = np.kron(np.random.default_rng(1).integers(0, 256, (30, 40, 3), np.uint8), np.ones((8, 8, 1), np.uint8))
    Image.fromarray(smooth).save(tmp_path / "a.jpg", quality=90, **how)
    assert images.read_image(tmp_path / "a.jpg").shape == smooth.shape
    data = (tmp_path / "a.jpg").read_bytes()
    start = data.index(b"\xff\xda")
    (tmp_path / "a.jpg").write_bytes(data[: start + int((len(data) - start) * share)] + b"\xff\xd9")
    with pytest.raises(DataError, match="damaged, the decoder says: Corrupt JPEG data: premature end"):
        images.read_image(tmp_path / "a.jpg")


def test_a_jpeg_with_a_film_after_its_end_is_read(tmp_path: Path) -> None:
    Image.fromarray(STORED).save(tmp_path / "a.jpg", quality=95)
    expected = images.read_image(tmp_path / "a.jpg")
    with (tmp_path / "a.jpg").open("ab") as stream:
        stream.write(bytes(range(256)) * 40)
    np.testing.assert_array_equal(images.read_image(tmp_path / "a.jpg"), expected)


@pytest.mark.parametrize("kind", [b"IDAT", b"IHDR", b"PLTE"])
def test_a_wrong_checksum_is_refused_where_pixels_depend_on_it(tmp_path: Path, kind: bytes) -> None:
    Image.fromarray(STORED).convert("P").save(tmp_path / "a.png")
    data = bytearray((tmp_path / "a.png").read_bytes())
    place = data.index(kind)
    length = int.from_bytes(data[place - 4 : place], "big")
    data[place + 4 + length] ^= 1
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(DataError, match=r"damaged|not a readable"):
        images.read_image(tmp_path / "a.png")
