"""Files with pages: each page comes out as it went in, and what cannot be read is said."""

import cv2
import numpy as np
import pypdfium2
import pytest
import tifffile
from PIL import Image

from handlens.errors import DataError
from handlens.io import documents


def noise(shape, kind=np.uint8, seed=0):
    return np.random.default_rng(seed).integers(0, np.iinfo(kind).max, shape, kind, endpoint=True)


def write_pdf(path, *pictures):
    first, *others = [Image.fromarray(picture) for picture in pictures]
    first.save(path, save_all=True, append_images=others, resolution=documents.DOTS_PER_INCH, quality=100)


def test_a_pdf_page_is_drawn_in_its_size_and_colours(tmp_path):
    red = np.full((300, 200, 3), (220, 30, 40), np.uint8)
    blue = np.full((100, 400, 3), (20, 60, 200), np.uint8)
    write_pdf(tmp_path / "paper.pdf", red, blue)
    assert documents.count_pages(tmp_path / "paper.pdf") == 2
    for page, picture in enumerate((red, blue), start=1):
        drawn = documents.read_page(tmp_path / "paper.pdf", page)
        assert (drawn.shape, drawn.dtype) == (picture.shape, np.uint8)
        assert np.abs(drawn[5:-5, 5:-5].astype(int) - picture[5:-5, 5:-5]).max() <= 3


def test_a_pdf_is_known_by_its_content(tmp_path):
    write_pdf(tmp_path / "paper.pdf", np.zeros((50, 50, 3), np.uint8))
    (tmp_path / "paper.pdf").rename(tmp_path / "paper.png")
    assert documents.count_pages(tmp_path / "paper.png") == 1


def test_a_poster_is_drawn_coarsely(tmp_path, monkeypatch):
    document = pypdfium2.PdfDocument.new()
    document.new_page(4000, 8000)
    document.save(tmp_path / "poster.pdf")
    document.close()
    monkeypatch.setattr(documents, "MAX_PAGE_PIXELS", 500_000)
    height, width, _ = documents.read_page(tmp_path / "poster.pdf", 1).shape
    assert (height, width) == (1000, 500)


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
    assert np.array_equal(read[3], np.dstack([grey] * 3))
    assert np.array_equal(read[4], (grey > 127) * 255)


def test_pillow_and_we_agree_about_lzw_pages(tmp_path):
    pages = [Image.fromarray(noise((30, 30, 3), seed=seed)) for seed in range(3)]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:], compression="tiff_lzw")
    for number, page in enumerate(pages, start=1):
        assert np.array_equal(documents.read_page(tmp_path / "a.tif", number), np.asarray(page))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"%PDF-1.4 rubbish", "not a readable PDF: copy it again"),
        (b"II*\0rubbish!", "not a readable image"),
    ],
)
def test_a_broken_document_is_refused(tmp_path, content, message):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError, match=message):
        documents.count_pages(tmp_path / "a")


def test_a_password_is_asked_to_be_taken_off(tmp_path, monkeypatch):
    def locked(path):
        error = pypdfium2.PdfiumError("locked")
        error.err_code = 4
        raise error

    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4")
    monkeypatch.setattr(pypdfium2, "PdfDocument", locked)
    with pytest.raises(DataError, match="has a password: save it without one"):
        documents.count_pages(tmp_path / "a.pdf")


def test_a_missing_page_and_a_missing_file(tmp_path):
    write_pdf(tmp_path / "a.pdf", np.zeros((20, 20, 3), np.uint8))
    with pytest.raises(DataError, match="there is no page 2, the pages are 1 to 1"):
        documents.read_page(tmp_path / "a.pdf", 2)
    with pytest.raises(DataError, match="cannot be read"):
        documents.count_pages(tmp_path / "none.pdf")


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


def test_orientation(tmp_path):
    picture = Image.fromarray(noise((20, 30, 3)))
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.save(tmp_path / "turned.jpg", exif=exif)
    picture.save(tmp_path / "plain.jpg")
    (tmp_path / "broken.jpg").write_bytes(b"nothing")
    assert [documents.read_orientation(tmp_path / f"{name}.jpg") for name in ("turned", "plain", "broken")] == [6, 1, 1]
    assert documents.read_page(tmp_path / "turned.jpg", None).shape == cv2.imread(str(tmp_path / "plain.jpg")).shape
