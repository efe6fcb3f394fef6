"""Files with pages: each page comes out as it went in, and what cannot be read is said."""

import numpy as np
import pytest
import tifffile
from PIL import Image

from handlens.errors import DataError
from handlens.io import documents


def noise(shape, kind=np.uint8, seed=0):
    return np.random.default_rng(seed).integers(0, np.iinfo(kind).max, shape, kind, endpoint=True)


def test_a_pdf_is_known_by_its_content(tmp_path):
    Image.new("RGB", (50, 50)).save(tmp_path / "paper.pdf")
    (tmp_path / "paper.pdf").rename(tmp_path / "paper.png")
    Image.new("RGB", (50, 50)).save(tmp_path / "fake.pdf", format="PNG")
    assert documents.is_pdf(tmp_path / "paper.png")
    assert not documents.is_pdf(tmp_path / "fake.pdf")


def test_one_picture_has_no_pages(tmp_path):
    for name in ("a.png", "a.jpg", "a.tif"):
        Image.fromarray(noise((20, 30, 3))).save(tmp_path / name)
        assert documents.count_pages(tmp_path / name) is None
        assert documents.read_page(tmp_path / name, None).shape == (20, 30, 3)


def test_every_page_of_a_tiff_is_read_as_stored(tmp_path):
    pages = [noise((40, 50)), noise((30, 20, 3)), noise((25, 35), np.uint16), noise((12, 13, 4))]
    with tifffile.TiffWriter(tmp_path / "stack.tif") as writer:
        for page in pages:
            writer.write(page, photometric="rgb" if page.ndim == 3 else "minisblack", compression="zlib")
        writer.write(noise((5, 5)), subfiletype=1)  # a reduced copy is no page
    assert documents.count_pages(tmp_path / "stack.tif") == 4
    for number, page in enumerate(pages, start=1):
        assert np.array_equal(documents.read_page(tmp_path / "stack.tif", number), page)


def test_black_is_0_on_every_kind_of_tiff_page(tmp_path):
    grey = noise((16, 24))
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        writer.write(grey)
        writer.write(255 - grey, photometric="miniswhite")
        writer.write(np.stack([grey] * 3), photometric="rgb", planarconfig="separate")
        writer.write(grey, photometric="palette", colormap=np.stack([np.arange(256, dtype=np.uint16) * 257] * 3))
        writer.write(grey > 127, photometric="minisblack")
    read = [documents.read_page(tmp_path / "a.tif", page) for page in range(1, 6)]
    assert np.array_equal(read[1], grey)
    assert np.array_equal(read[2], np.dstack([grey] * 3))
    assert np.array_equal(read[3], grey)  # a palette of greys
    assert np.array_equal(read[4], (grey > 127) * 255)


def test_pillow_and_we_agree_about_lzw_pages(tmp_path):
    pages = [Image.fromarray(noise((30, 30, 3), seed=seed)) for seed in range(3)]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:], compression="tiff_lzw")
    for number, page in enumerate(pages, start=1):
        assert np.array_equal(documents.read_page(tmp_path / "a.tif", number), np.asarray(page))


def test_a_broken_tiff_and_a_missing_file_are_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"II*\0rubbish!")
    with pytest.raises(DataError, match="not a readable image"):
        documents.count_pages(tmp_path / "a")
    with pytest.raises(DataError, match="no such file"):
        documents.is_pdf(tmp_path / "none.pdf")


def test_a_truncated_page_is_refused(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        writer.write(noise((8, 8)), contiguous=False)
        writer.write(noise((200, 200)), contiguous=False)
    content = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(content[:-1000])
    assert documents.count_pages(tmp_path / "a.tif") == 2
    with pytest.raises(DataError, match="page 2: truncated"):
        documents.read_page(tmp_path / "a.tif", 2)


def test_pixels_that_are_no_bytes_are_refused(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        writer.write(noise((8, 8)))
        writer.write(np.zeros((8, 8), np.float32))
    with pytest.raises(DataError, match="page 2: float32 pixels"):
        documents.read_page(tmp_path / "a.tif", 2)
