"""Figures of PDFs: the very pixels that went in, named by page and place; and pages that end the process that reads them."""

import io
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from pdf_files import entries, packed, write_pdf
from PIL import Image

from handlens.challenges.forgery import inspection
from handlens.challenges.forgery.inspection import reading
from handlens.errors import DataError
from handlens.io.pdf import PdfFigure
from handlens.sandbox import pdf

pytestmark = pytest.mark.slow

NOISE = np.random.default_rng(5).integers(0, 256, (120, 200, 3), np.uint8)
GREY = np.random.default_rng(6).integers(0, 256, (90, 100), np.uint8)
PLACE = (100, 0, 0, 60, 50, 600)
LOWER = (100, 0, 0, 90, 50, 100)
VECTORS = b"".join(b"%d 100 m %d 300 l S\n" % (100 + n, 140 + n) for n in range(40))


def figures(path: Path) -> dict[str, np.ndarray]:
    """Name within the file to pixels."""
    found = pdf.list_figures(path)
    assert all(isinstance(each, PdfFigure) for each in found)
    return {f"{each.page}.{each.number}": pdf.read_figure(path, each) for each in found}


def test_images_come_out_as_they_went_in_named_by_page_and_box(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [[packed(NOISE, PLACE)], [packed(GREY, LOWER), packed(NOISE[:, ::-1], PLACE)]])
    found = pdf.list_figures(path)
    assert [(each.page, each.number) for each in found] == [(1, 1), (2, 1), (2, 2), (2, 0)]
    assert found[0].box == pytest.approx((50, 140, 150, 200))
    assert np.array_equal(pdf.read_figure(path, found[0]), NOISE)
    assert np.array_equal(pdf.read_figure(path, found[1]), NOISE[:, ::-1])  # the upper one first
    assert np.array_equal(pdf.read_figure(path, found[2]), GREY)
    drawn = pdf.read_figure(path, found[3])  # two images of a page may be one figure: looked at together too
    assert found[3].box == pytest.approx((50, 140, 150, 700))
    assert drawn.shape[0] / drawn.shape[1] == pytest.approx(5.6, rel=0.01)


def test_an_image_on_several_pages_is_one_figure(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [[packed(NOISE, PLACE)], [packed(NOISE, LOWER)], [packed(GREY, PLACE)]])
    assert list(figures(path)) == ["1.1", "3.1"]


def test_strips_and_tiles_of_one_figure_are_joined(tmp_path: Path) -> None:
    strips = [packed(NOISE[top : top + 30], (100, 0, 0, 15, 50, 645 - top / 2)) for top in range(0, 120, 30)]
    tiles = [
        packed(NOISE[top : top + 60, left : left + 100], (50, 0, 0, 30, 50 + left / 2, 630 - top / 2))
        for top in (0, 60)
        for left in (0, 100)
    ]
    path = write_pdf(tmp_path / "a.pdf", [strips, tiles])
    found = figures(path)
    assert list(found) == ["1.1", "2.1"]
    assert np.array_equal(found["1.1"], NOISE)
    assert np.array_equal(found["2.1"], NOISE)


@pytest.mark.parametrize(
    ("place", "rotate", "turn"),
    [
        ((100, 0, 0, -60, 50, 660), 0, lambda pixels: pixels[::-1]),
        ((-100, 0, 0, 60, 150, 600), 0, lambda pixels: pixels[:, ::-1]),
        ((0, 100, -60, 0, 150, 600), 0, np.rot90),
        ((0, -100, 60, 0, 90, 700), 0, lambda pixels: np.rot90(pixels, -1)),
        (PLACE, 90, lambda pixels: np.rot90(pixels, -1)),
        (PLACE, 180, lambda pixels: np.rot90(pixels, 2)),
    ],
)
def test_images_are_turned_as_the_page_shows_them(tmp_path: Path, place, rotate: int, turn) -> None:
    path = write_pdf(tmp_path / "a.pdf", [[packed(NOISE, place)]], rotate=rotate)
    (figure,) = pdf.list_figures(path)
    assert np.array_equal(pdf.read_figure(path, figure), turn(NOISE))
    assert figure.shape == turn(NOISE).shape[:2]


def test_kinds_of_colours(tmp_path: Path) -> None:
    jpeg, jpeg2000 = io.BytesIO(), io.BytesIO()
    Image.fromarray(NOISE).save(jpeg, "JPEG", quality=85)
    Image.fromarray(NOISE).save(jpeg2000, "JPEG2000", irreversible=False)
    few = Image.fromarray(NOISE).convert("P", palette=Image.Palette.ADAPTIVE)
    table = bytes(few.getpalette() or []).ljust(768, b"\0")[:768]
    indexed = b"[/Indexed /DeviceRGB 255 <%s>]" % table.hex().encode()
    inks = np.asarray(Image.fromarray(NOISE).convert("CMYK"))
    mask = np.zeros((120, 200), np.uint8)
    mask[:, :100] = 255
    soft = b"<< /Type /XObject /Subtype /Image %s /Length %d >>\nstream\n%s\nendstream"
    data = zlib.compress(mask.tobytes())
    soft = soft % (entries(mask.shape, b"/DeviceGray", b"/FlateDecode"), len(data), data)
    pages = [
        [(entries(NOISE.shape, b"/DeviceRGB", b"/DCTDecode"), jpeg.getvalue(), PLACE)],
        [(entries(NOISE.shape, b"/DeviceRGB", b"/JPXDecode"), jpeg2000.getvalue(), PLACE)],
        [(entries(NOISE.shape, indexed, b"/FlateDecode"), zlib.compress(few.tobytes()), PLACE)],
        [packed(inks, PLACE)],
        [packed(NOISE, PLACE, b"/SMask 3 0 R")],
    ]
    found = figures(write_pdf(tmp_path / "a.pdf", pages, more=[soft]))
    with Image.open(jpeg) as picture:
        assert np.array_equal(found["1.1"], np.asarray(picture))
    assert np.array_equal(found["2.1"], NOISE)
    assert np.array_equal(found["3.1"], np.asarray(few.convert("RGB")))
    assert np.corrcoef(found["4.1"].ravel(), NOISE.ravel())[0, 1] > 0.9  # PDFium has inks of its own
    assert np.array_equal(found["5.1"][:, :100], NOISE[:, :100])
    assert found["5.1"][:, 100:].min() == 255  # transparent: the white of the page


@pytest.mark.parametrize("packing", ["JPEG", "JPEG2000", "flate"])
@pytest.mark.parametrize("drawing", [b"", VECTORS])
def test_an_image_whose_second_half_is_lost_is_refused(tmp_path: Path, packing: str, drawing: bytes) -> None:
    stream, end = io.BytesIO(), b""
    if packing == "flate":
        stream.write(zlib.compress(NOISE.tobytes()))
    else:
        Image.fromarray(NOISE).save(stream, packing)
        end = b"\xff\xd9"  # both have it
    name = {"JPEG": b"/DCTDecode", "JPEG2000": b"/JPXDecode", "flate": b"/FlateDecode"}[packing]
    content, head = stream.getvalue(), entries(NOISE.shape, b"/DeviceRGB", name)
    whole = write_pdf(tmp_path / "whole.pdf", [([(head, content, PLACE)], drawing)])
    assert len(figures(whole)) == 1 + bool(drawing)
    if packing == "JPEG":  # the mark alone is no loss
        figures(write_pdf(tmp_path / "unmarked.pdf", [([(head, content[:-2], PLACE)], drawing)]))
    half = write_pdf(tmp_path / "half.pdf", [([(head, content[: len(content) // 2] + end, PLACE)], drawing)])
    for figure in pdf.list_figures(half):
        if packing == "JPEG2000" and not figure.number:
            continue  # PDFium leaves it out of the drawing: its place is empty, and its own pixels are refused
        with pytest.raises(DataError, match=r"half.pdf.*(damaged|cannot be read)"):
            pdf.read_figure(half, figure)


def test_vector_figures_are_drawn_and_text_alone_is_a_page(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [([], VECTORS), [packed(NOISE, PLACE)], ([packed(GREY, PLACE)], VECTORS)])
    assert [(each.page, each.number) for each in pdf.list_figures(path)] == [(1, 0), (2, 1), (3, 1), (3, 0)]
    plain = write_pdf(tmp_path / "b.pdf", [([], b"100 100 m 200 200 l S"), []])
    assert [(each.page, each.number, each.shape) for each in pdf.list_figures(plain)] == [
        (1, 0, (2222, 1667)),
        (2, 0, (2222, 1667)),
    ]


def test_what_is_no_pdf_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\nnothing more")
    with pytest.raises(DataError, match=r"a\.pdf: not a readable PDF: copy it again, or print it to a new PDF"):
        pdf.list_figures(tmp_path / "a.pdf")


def test_a_password_is_asked_to_be_taken_off(monkeypatch) -> None:
    import pypdfium2

    from handlens.io import pdf as documents

    def locked(content):
        error = pypdfium2.PdfiumError("locked")
        error.err_code = 4
        raise error

    monkeypatch.setattr(pypdfium2, "PdfDocument", locked)
    with pytest.raises(DataError, match="has a password: save it without one"), documents.opened(b"%PDF-1.4"):
        pass


def test_a_poster_is_drawn_coarsely() -> None:
    from handlens.io import pdf as documents

    height, width = documents._drawn_shape((0, 0, 4000, 8000), 0.0)
    assert height * width <= documents.MAX_PIXELS * 1.001
    assert height / width == pytest.approx(2, rel=0.001)


# --- pages that end the process -----------------------------------------------------------------------------------

PAGES = [[packed(NOISE, PLACE)], [packed(GREY, PLACE)], [packed(NOISE[::-1], PLACE)]]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("dies", "PDFium died of it (SIG"),
        ("hangs", "PDFium did not finish it in 4 s of processor"),
        ("sleeps", "PDFium did not finish it in 4 s of processor"),
        ("takes_all", "it needs more memory than is allowed"),
    ],
)
def test_a_page_that_ends_the_process_is_that_pages_error(tmp_path: Path, monkeypatch, entry: str, words: str) -> None:
    path = write_pdf(tmp_path / "a.pdf", PAGES)
    monkeypatch.setattr(pdf, "ENTRY", f"hostile_pdf_child:{entry}")
    first, second, third = pdf.list_figures(path, seconds=4 if entry in ("hangs", "sleeps") else 200)
    assert (first.page, third.page) == (1, 3)
    assert second[0] == 2
    assert second[1].startswith(words)


def test_a_page_may_take_longer_by_the_clock_than_by_its_processor(tmp_path: Path, monkeypatch) -> None:
    """Otherwise what is found in a document would depend on what else runs."""
    path = write_pdf(tmp_path / "a.pdf", PAGES)
    monkeypatch.setattr(pdf, "ENTRY", "hostile_pdf_child:waits")
    monkeypatch.setattr(pdf, "PATIENCE", 100)
    assert [figure.page for figure in pdf.list_figures(path, seconds=1.5)] == [1, 2, 3]


def test_the_rest_is_looked_at_and_resume_remembers(tmp_path: Path, monkeypatch) -> None:
    path = write_pdf(tmp_path / "a.pdf", PAGES)
    monkeypatch.setattr(pdf, "ENTRY", "hostile_pdf_child:dies_late")
    reads = []

    def make_look():
        def look(picture):
            reads.append(picture.shape)
            if len(reads) == 2:
                raise KeyboardInterrupt
            from handlens.challenges.forgery.detect.findings import Findings

            return Findings(picture.shape[:2], (), (), (), 0.0, ())

        return look

    with pytest.raises(KeyboardInterrupt):
        inspection.inspect_figures([path], tmp_path / "out", make_look=make_look)
    asked = []
    monkeypatch.setattr(reading.pdf, "list_figures", lambda path: asked.append("listed"))
    monkeypatch.setattr(
        reading.pdf,
        "read_figure",
        lambda path, part, read=pdf.read_figure: asked.append(part.page) or read(path, part),
    )
    records = inspection.inspect_figures([path], tmp_path / "out", make_look=make_look)
    assert asked == [3]  # neither listed again, nor is the page that kills asked for again
    assert {record["figure"]: record.get("error", "")[:17] for record in records} == {
        "a.pdf#1.1": "",
        "a.pdf#2.1": "page 2: PDFium di",
        "a.pdf#3.1": "",
    }
    kept = json.loads((tmp_path / "out" / "a.pdf-1.1" / "findings.json").read_text())
    assert (kept["page"], kept["box"]) == (1, [50, 140, 150, 200])
