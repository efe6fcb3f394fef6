"""Pictures by bands of rows: the same pixels as the whole, a few strips or tiles at a time."""

import numpy as np
import pytest
import tifffile
from PIL import Image

from handlens.errors import DataError
from handlens.io import images, row_reader

PICTURE = np.random.default_rng(0).integers(0, 256, (150, 90, 3), dtype=np.uint8)
SMOOTH = np.add.outer(np.arange(160), np.arange(96))[:, :, None] * [0.9, 0.4, 0.6]


def read(path, step):
    with row_reader.opened(path) as source:
        rows = [source.read(top, min(top + step, source.shape[0])) for top in range(0, source.shape[0], step)]
        assert source.shape == np.concatenate(rows).shape[:2]
    return np.concatenate(rows)


KINDS = {
    "tiles": (PICTURE, {"tile": (32, 48), "compression": "zlib"}),
    "strips": (PICTURE, {"rowsperstrip": 17, "compression": "lzw"}),
    "predicted": (PICTURE, {"rowsperstrip": 17, "compression": "zlib", "predictor": True}),
    "plain": (PICTURE, {}),
    "plain strips": (PICTURE, {"rowsperstrip": 7}),
    "plain tiles": (PICTURE, {"tile": (16, 16)}),
    "BigTIFF": (PICTURE, {"bigtiff": True, "tile": (64, 64)}),
    "Motorola order": (PICTURE.astype(np.uint16) * 256 + 13, {"byteorder": ">"}),
    "16 bits": (PICTURE.astype(np.uint16) * 256 + 13, {"tile": (32, 32), "compression": "zlib"}),
    "planes": (PICTURE.transpose(2, 0, 1), {"planarconfig": "separate", "photometric": "rgb", "rowsperstrip": 20}),
    "planes in tiles": (
        PICTURE.transpose(2, 0, 1),
        {"planarconfig": "separate", "photometric": "rgb", "tile": (32, 32), "compression": "zlib"},
    ),
    "grey": (PICTURE[:, :, 0], {"rowsperstrip": 11, "compression": "zlib"}),
    "alpha": (np.dstack([PICTURE, PICTURE[:, :, :1]]), {"rowsperstrip": 11, "extrasamples": ["unassalpha"]}),
}


@pytest.mark.parametrize("step", [1, 40, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_a_tiff_of_any_kind_gives_its_pixels(tmp_path, kind, step):
    pixels, how = KINDS[kind]
    how = {"photometric": "minisblack" if pixels.ndim == 2 else "rgb"} | how
    tifffile.imwrite(tmp_path / "a.tif", pixels, **how)
    expected = np.repeat(PICTURE[:, :, :1], 3, axis=2) if kind == "grey" else PICTURE
    assert np.array_equal(read(tmp_path / "a.tif", step), expected)


@pytest.mark.parametrize("writer", ["tifffile", "Pillow"])
def test_jpeg_in_a_tiff_is_read_in_colours(tmp_path, writer):
    pixels = SMOOTH.astype(np.uint8)
    if writer == "Pillow":
        Image.fromarray(pixels).save(tmp_path / "a.tif", compression="jpeg", quality=95)
    else:
        tifffile.imwrite(tmp_path / "a.tif", pixels, tile=(32, 32), compression="jpeg", photometric="rgb")
    assert np.abs(read(tmp_path / "a.tif", 50).astype(int) - pixels).max() < 12


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_other_pictures_are_read_as_ever(tmp_path, name):
    if name.endswith("png"):
        images.write_png(tmp_path / name, PICTURE)
    else:
        images.write_jpeg(tmp_path / name, PICTURE, quality=90)
    assert np.array_equal(read(tmp_path / name, 33), images.read_rgb(tmp_path / name))


@pytest.mark.parametrize(
    ("pixels", "how"),
    [
        (PICTURE[:, :, 0], {"photometric": "miniswhite"}),
        (PICTURE, {"photometric": "rgb", "compression": "zlib", "rowsperstrip": 150}),
    ],
)
def test_what_cannot_come_in_bands_is_decoded_whole(tmp_path, pixels, how, monkeypatch):
    monkeypatch.setattr(row_reader, "TALL_SEGMENT", 100)
    tifffile.imwrite(tmp_path / "a.tif", pixels, **how)
    assert np.array_equal(read(tmp_path / "a.tif", 33), images.read_rgb(tmp_path / "a.tif"))


def test_only_the_tiles_of_the_band_are_decoded(tmp_path, monkeypatch):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((320, 64, 3), np.uint8), tile=(32, 32), compression="zlib")
    asked, read_bytes = [], tifffile.FileHandle.read

    def counted(self, size=-1, /):
        asked.append(size)
        return read_bytes(self, size)

    with row_reader.opened(tmp_path / "a.tif") as source:
        monkeypatch.setattr(tifffile.FileHandle, "read", counted)
        source.read(64, 100)
    assert len(asked) == 4  # two lines of two tiles


def test_a_damaged_tile_is_named(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, PICTURE, tile=(32, 48), compression="zlib")
    with tifffile.TiffFile(path) as file:
        place, count = file.pages[0].dataoffsets[3], file.pages[0].databytecounts[3]
    content = bytearray(path.read_bytes())
    content[place : place + count] = bytes(count)
    path.write_bytes(content)
    with pytest.raises(DataError, match="a.tif: damaged, its pixels cannot be decoded"):
        read(path, 1000)
    assert np.array_equal(next_rows(path, 32), PICTURE[:32])


def next_rows(path, bottom):
    with row_reader.opened(path) as source:
        return source.read(0, bottom)


def test_no_rows_beyond_the_picture(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", PICTURE, tile=(32, 48))
    with row_reader.opened(tmp_path / "a.tif") as source, pytest.raises(ValueError, match="rows 140 to 151"):
        source.read(140, 151)


def test_what_is_no_picture_is_refused(tmp_path):
    (tmp_path / "a.tif").write_bytes(b"II*\0nonsense")
    with pytest.raises(DataError, match="not a readable image"), row_reader.opened(tmp_path / "a.tif"):
        pass
