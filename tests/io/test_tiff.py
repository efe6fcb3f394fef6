"""TIFF by rows and columns: every layout and packing gives the pixels that tifffile gives, and faults are named."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from handlens.errors import DataError
from handlens.io import documents, images, row_reader, tiff, tiff_codecs

SMOOTH = (np.random.default_rng(0).normal(0, 3, (75, 93, 4)).cumsum(axis=1) + 120).clip(0, 255).astype(np.uint8)


def write(path: Path, pixels: Any, **how: Any) -> Path:
    byteorder = how.pop("byteorder", "<")
    with tifffile.TiffWriter(path, byteorder=byteorder) as writer:
        writer.write(pixels, metadata=None, **how)
    return path


PACKINGS = [None, "lzw", "zlib", "packbits", "lzma", "zstd"]
LAYOUTS = [{"rowsperstrip": 7}, {"tile": (32, 48)}, {"rowsperstrip": 1}, {}]


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("byteorder", "<>")
@pytest.mark.parametrize("kind", ["grey", "colours", "planes", "alpha"])
def test_any_part_of_a_page_is_what_tifffile_reads(
    tmp_path: Path, packing: str | None, layout: Any, byteorder: str, kind: str
) -> None:
    pixels = SMOOTH.astype(np.uint16) * 201 + 3
    pixels = {"grey": pixels[:, :, 0], "alpha": pixels, "planes": pixels[:, :, :3].transpose(2, 0, 1)}.get(
        kind, pixels[:, :, :3]
    )
    how = {"photometric": "minisblack" if kind == "grey" else "rgb", "compression": packing, **layout}
    how |= {"planarconfig": "separate"} if kind == "planes" else {}
    how |= {"extrasamples": ["unassalpha"]} if kind == "alpha" else {}
    how |= {"predictor": True} if packing in ("lzw", "zlib", "zstd") else {}
    path = write(tmp_path / "a.tif", np.ascontiguousarray(pixels), byteorder=byteorder, **how)
    expected = pixels[:, :, None] if kind == "grey" else pixels.transpose(1, 2, 0) if kind == "planes" else pixels
    with tiff.opened(path) as page:
        page.refuse_damaged()
        assert (page.shape, page.dtype, page.samples) == ((75, 93), np.uint16, expected.shape[2])
        for top, bottom, left, right in ((0, 75, 0, 93), (3, 40, 5, 60), (74, 75, 92, 93)):
            assert np.array_equal(page.read(top, bottom, left, right), expected[top:bottom, left:right])


@pytest.mark.parametrize("subsampling", [(1, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize("layout", [{"tile": (64, 64)}, {"rowsperstrip": 32}])
def test_jpeg_is_decoded_as_by_imagecodecs(tmp_path: Path, subsampling: Any, layout: Any) -> None:
    how = {"photometric": "rgb", "compression": "jpeg", "subsampling": subsampling, **layout}
    path = write(tmp_path / "a.tif", SMOOTH[:, :, :3], **how)
    with tiff.opened(path) as page:
        assert np.array_equal(page.read(), tifffile.imread(path))


@pytest.mark.parametrize("words", [b"", b"\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0", b"\xff\xee\0\x0eAdobe\0d\0\0\0\0\2"])
@pytest.mark.parametrize("stored", ["rgb", "ycbcr"])
def test_what_the_colours_of_jpeg_are_the_tiff_says(tmp_path: Path, stored: str, words: bytes) -> None:
    """Tiles may have words of their own about it, which libtiff, through Pillow, does not ask."""
    how: dict[str, Any] = {"photometric": "rgb", "compression": "jpeg", "tile": (64, 64)}
    how["compressionargs"] = {"outcolorspace": stored}
    path = write(tmp_path / "a.tif", SMOOTH[:64, :64, :3], **how)
    with tifffile.TiffFile(path) as file:
        (start,), (size,) = file.pages.first.dataoffsets, file.pages.first.databytecounts
    content = path.read_bytes()
    tile = content[start : start + 2] + words + content[start + 2 : start + size]
    path = write(tmp_path / "b.tif", iter([tile]), shape=(64, 64, 3), dtype=np.uint8, **how)
    with tiff.opened(path) as page, Image.open(path) as picture:
        assert page.tags.photometric == {"rgb": 2, "ycbcr": 6}[stored]
        assert np.array_equal(page.read(), np.asarray(picture.convert("RGB")))
        assert np.abs(page.read().astype(int) - SMOOTH[:64, :64, :3]).mean() < 12


def lost(tile: bytes) -> bytes:
    """The second half of the pixels, though the end is there."""
    half = (tile.rindex(b"\xff\xda") + len(tile)) // 2
    return tile[:half] + bytes(len(tile) - half - 2) + tile[-2:]


def cut(tile: bytes) -> bytes:
    half = (tile.rindex(b"\xff\xda") + len(tile)) // 2
    return tile[:half] + b"\xff\xd9" + bytes(len(tile) - half - 2)


def without_huffman_tables(tile: bytes) -> bytes:
    return tile.replace(b"\xff\xc4", b"\xff\xfe")  # comments


@pytest.mark.parametrize("damaged", [lost, cut, without_huffman_tables])
@pytest.mark.parametrize("samples", [1, 3])
def test_jpeg_in_a_tiff_that_libjpeg_only_warns_of_is_refused(tmp_path: Path, samples: int, damaged: Any) -> None:
    pixels = SMOOTH[:, :, 0] if samples == 1 else SMOOTH[:, :, :3]
    how = {"photometric": "minisblack" if samples == 1 else "rgb", "compression": "jpeg", "tile": (64, 64)}
    path = write(tmp_path / "a.tif", pixels, **how)
    with tifffile.TiffFile(path) as file:
        start, size = file.pages.first.dataoffsets[1], file.pages.first.databytecounts[1]
    content = path.read_bytes()
    path.write_bytes(content[:start] + damaged(content[start : start + size]) + content[start + size :])
    with tiff.opened(path) as page:
        assert page.read(0, 64, 0, 64).shape == (64, 64, samples)
        with pytest.raises(DataError, match="damaged, the decoder says: Corrupt JPEG|need DC Huffman table 0"):
            page.read()


@pytest.mark.parametrize("packing", ["group3", "group4", "tiff_ccitt", "tiff_lzw", "packbits", None])
def test_one_bit_a_pixel(tmp_path: Path, packing: str | None) -> None:
    mask = SMOOTH[:, :, 0] > 120
    Image.fromarray(mask).save(tmp_path / "a.tif", compression=packing)
    with tiff.opened(tmp_path / "a.tif") as page:
        assert np.array_equal(page.read()[:, :, 0], mask)


@pytest.mark.parametrize("bits", [2, 4])
def test_few_bits_a_pixel(tmp_path: Path, bits: int) -> None:
    pixels = SMOOTH[:, :, 0] >> (8 - bits)
    path = write(tmp_path / "a.tif", pixels, bitspersample=bits, photometric="minisblack")
    with tiff.opened(path) as page:
        assert np.array_equal(page.read()[:, :, 0], pixels)


def test_small_strips_are_decoded_together_and_damage_among_them_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tif", SMOOTH[:, :, 0], photometric="minisblack", compression="lzw", rowsperstrip=1)
    with tifffile.TiffFile(path) as file:
        place, count = file.pages.first.dataoffsets[40], file.pages.first.databytecounts[40]
    content = bytearray(path.read_bytes())
    content[place : place + count] = b"\xff" * count
    path.write_bytes(content)
    with tiff.opened(path) as page:
        assert np.array_equal(page.read(0, 40)[:, :, 0], SMOOTH[:40, :, 0])
        with pytest.raises(DataError, match="damaged, its pixels cannot be decoded"):
            page.read()


@pytest.mark.parametrize("compression", ["jpeg2000", "webp", "lerc"])
def test_a_rare_compression_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    how = {"photometric": "rgb", "tile": (64, 64), "compression": compression}
    path = write(tmp_path / "a.tif", SMOOTH[:, :, :3], **how)
    assert np.array_equal(images.read_image(path), tifffile.imread(path))
    monkeypatch.setattr(tiff_codecs, "_others", tuple)
    with pytest.raises(DataError, match=r"a\.tif: its compression .* pip install 'handlens\[codecs\]'"):
        images.read_image(path)


# --- ImageJ ---------------------------------------------------------------------------------------------------------


def write_imagej(path: Path, channels: int, dtype: Any = np.uint8, axes: str = "CYX", **metadata: Any) -> Any:
    pixels = np.random.default_rng(channels).integers(0, np.iinfo(dtype).max, (channels, 30, 40), dtype)
    shaped = pixels if axes == "CYX" else np.stack([pixels, pixels])
    tifffile.imwrite(path, shaped, imagej=True, metadata={"axes": axes, **metadata})
    return pixels


def rows_of(path: Path) -> Any:
    with row_reader.opened(path) as source:
        return np.concatenate([source.read(top, min(top + 7, 30)) for top in range(0, 30, 7)])


@pytest.mark.parametrize("mode", ["composite", "color", "grayscale"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_three_channels_of_imagej_are_colours(tmp_path: Path, dtype: Any, mode: str) -> None:
    pixels = write_imagej(tmp_path / "a.tif", 3, dtype, mode=mode).transpose(1, 2, 0)
    assert images.read_header(tmp_path / "a.tif") == images.Header((30, 40), "RGB", "TIFF")
    assert np.array_equal(images.read_image(tmp_path / "a.tif"), pixels)
    eight = (pixels >> 8).astype(np.uint8) if dtype == np.uint16 else pixels
    assert np.array_equal(images.read_rgb(tmp_path / "a.tif"), eight)
    assert np.array_equal(rows_of(tmp_path / "a.tif"), eight)
    assert documents.count_pages(tmp_path / "a.tif") is None
    assert np.array_equal(documents.read_page(tmp_path / "a.tif", None), pixels)


def test_channels_that_share_one_directory_are_found(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 30, 40), np.uint8)
    path = tmp_path / "a.tif"
    notes = "ImageJ=1.54f\nimages=3\nchannels=3\nmode=composite\n"
    tifffile.imwrite(path, pixels[0], description=notes, metadata=None, photometric="minisblack", byteorder=">")
    with path.open("ab") as stream:
        stream.write(pixels[1:].tobytes())
    assert np.array_equal(images.read_image(path), pixels.transpose(1, 2, 0))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match="truncated"):
        images.read_header(path)


@pytest.mark.parametrize(
    ("channels", "dtype", "axes", "said"),
    [
        (2, np.uint8, "CYX", "2 channels of uint8 (ImageJ); expected one plane of grey, or of red, green, blue: save"),
        (4, np.uint16, "CYX", "4 channels of uint16 (ImageJ)"),
        (3, np.float32, "CYX", "3 channels of float32 (ImageJ)"),
        (3, np.uint8, "ZCYX", "3 channels of uint8 in 2 slices and 1 frames (ImageJ)"),
        (2, np.uint8, "TCYX", "2 channels of uint8 in 1 slices and 2 frames (ImageJ)"),
    ],
)
def test_other_channels_are_refused_and_counted(
    tmp_path: Path, channels: int, dtype: Any, axes: str, said: str
) -> None:
    path = tmp_path / "a.tif"
    if dtype == np.float32:
        tifffile.imwrite(path, np.zeros((3, 30, 40), dtype), imagej=True, metadata={"axes": "CYX"})
    else:
        write_imagej(path, channels, dtype, axes)
    for read in (images.read_header, images.read_image, images.read_rgb, rows_of):
        with pytest.raises(DataError) as caught:
            read(path)
        assert said in str(caught.value)


def test_two_channels_are_two_pages_of_a_document(tmp_path: Path) -> None:
    pixels = write_imagej(tmp_path / "a.tif", 2)
    assert documents.count_pages(tmp_path / "a.tif") == 2
    assert np.array_equal(documents.read_page(tmp_path / "a.tif", 2), pixels[1])


def test_a_stack_of_imagej_without_channels_is_read_as_ever(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", SMOOTH.transpose(2, 0, 1).copy(), imagej=True, metadata={"axes": "ZYX"})
    assert np.array_equal(images.read_image(tmp_path / "a.tif"), SMOOTH[:, :, 0])
    assert documents.count_pages(tmp_path / "a.tif") == 4


# --- writing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [{"rows": 20}, {"tile": 32}])
def test_what_is_written_in_pieces_is_read_whole(tmp_path: Path, layout: Any) -> None:
    pixels = np.arange(70 * 64, dtype=np.uint16).reshape(70, 64)
    if "rows" in layout:
        pieces = [pixels[top : top + 20] for top in range(0, 70, 20)]
    else:
        padded = np.pad(pixels, ((0, 26), (0, 0)))
        pieces = [padded[top : top + 32, left : left + 32] for top in range(0, 96, 32) for left in (0, 32)]
    packed = (zlib.compress(piece.tobytes()) for piece in pieces)
    tiff.write_grey(tmp_path / "a.tif", packed, (70, 64), np.dtype(np.uint16), **layout)
    assert np.array_equal(tifffile.imread(tmp_path / "a.tif"), pixels)
    assert np.array_equal(images.read_image(tmp_path / "a.tif"), pixels)


@pytest.mark.parametrize("code", [258, 259, 277, 284])
def test_a_tag_of_the_layout_that_cannot_be_read_is_no_default(code, tmp_path):
    """tifffile leaves such a tag out and takes the usual value: other pixels, in silence."""
    from fuzz.kinds import tiff_seeds

    content = bytearray(tiff_seeds()[1])  # deflated
    place = next(start for start in range(10, 200, 12) if content[start : start + 2] == code.to_bytes(2, "little"))
    content[place + 2 : place + 4] = b"\xff\xff"  # of a type that does not exist
    (tmp_path / "a.tif").write_bytes(content)
    with pytest.raises(DataError, match=r"not a readable|cannot be read"):
        images.read_image(tmp_path / "a.tif")


def test_a_tag_of_the_layout_that_is_there_twice_is_refused(tmp_path):
    """The first cannot be read, and tifffile takes the second, and for what the first was the usual value."""
    from fuzz.kinds import tiff_seeds

    content = bytearray(tiff_seeds()[1])
    place = next(start for start in range(10, 200, 12) if content[start : start + 2] == (258).to_bytes(2, "little"))
    content[place : place + 2] = (279).to_bytes(2, "little")  # bits a sample become sizes of strips
    content[place + 4 : place + 8] = (258).to_bytes(4, "little")
    (tmp_path / "a.tif").write_bytes(content)
    with pytest.raises(DataError, match="tag 279, which says how the pixels lie, is there twice"):
        images.read_image(tmp_path / "a.tif")


@pytest.mark.parametrize("code", [274, 338, 339])
def test_a_tag_that_says_what_samples_mean_is_read_or_refused(code, tmp_path):
    from fuzz.kinds import tiff_seeds

    content = bytearray(tiff_seeds()[1])
    place = next(start for start in range(10, 200, 12) if content[start : start + 2] == (277).to_bytes(2, "little"))
    content[place : place + 2] = code.to_bytes(2, "little")
    content[place + 2 : place + 4] = b"\xff\0"  # of a type that does not exist
    (tmp_path / "a.tif").write_bytes(content)
    with pytest.raises(DataError, match=f"tag {code}, which says how the pixels lie, cannot be read"):
        images.read_image(tmp_path / "a.tif")
