"""Reports in a real browser: layers, zoom, filter, keyboard, print, dark, phone, and nothing hostile that runs."""

import numpy as np
import pytest
from browser import launched, opened, serious_findings

from handlens.report.page import Report, ShownCase, write_report
from handlens.report.pictures import PictureStore, draw_case
from handlens.views import (
    ANSWER,
    MISSED,
    TRUTH,
    CaseView,
    Chart,
    Layer,
    Line,
    Matrix,
    Name,
    Reason,
    Section,
    Strip,
    Table,
)

pytestmark = pytest.mark.slow
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


@pytest.fixture(scope="module")
def browser():
    with launched() as found:
        yield found


def layers_of(shape):
    pixels = np.random.default_rng(0).integers(0, 255, (*shape, 3), np.uint8)
    marks = np.zeros(shape, np.uint8)
    marks[10:20, 10:20] = 1
    return (
        Layer("image", shape, lambda top, bottom: pixels[top:bottom]),
        Layer("truth", shape, lambda top, bottom: marks[top:bottom], (TRUTH,)),
        Layer("answer", shape, lambda top, bottom: marks[top:bottom], (ANSWER,), on=False),
    )


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """A report of three cases: a small one, one in tiles, and one with a name of a stranger's choice."""
    folder = tmp_path_factory.mktemp("report")
    store = PictureStore(folder / "report_files", inline=True)
    cases = []
    for place, (name, shape) in enumerate([("small", (80, 100)), ("large", (2100, 1500)), (HOSTILE, (60, 60))]):
        strip = Strip(name, name, np.zeros((20, 30, 3), np.uint8))
        names = (Name(name, (30, 30)),)
        view = CaseView(layers_of(shape), lines=(Line((1, 1), (30, 30), MISSED),), names=names, strips=(strip,))
        reasons = [Reason("missed", name, 0.1, (10, 10, 20, 20)), Reason("extra", name)]
        pictures = draw_case(view, store)
        cases.append(
            ShownCase(
                name,
                place,
                0.5 + place / 10,
                "",
                reasons,
                {"missed": (1, 0.1)},
                {"n": 1},
                (f"t{place}",),
                ["odd"] if place else [],
                pictures,
            )
        )
    items = [
        Chart("c", "x", "y", {"a": [(0, 0), (1, 1)], "b": [(0, 1), (1, 0)]}, chosen=0.3),
        Matrix("m", ["a", "b"], ["a", "b"], [[3, 1], [0, 2]]),
        Table("t", ["k", HOSTILE], [["a", 1.5]]),
    ]
    report = Report("solve", HOSTILE, "about", "Dice 0.8", "scored", score=0.8, interval=(0.7, 0.9), references={"empty answer": 0.0, HOSTILE: 0.5}, notes=["a note"], sections=[Section("Charts", "words", items)], cases=cases, facts={"data": HOSTILE}, command="handlens")  # fmt: skip
    write_report(report, folder / "report.html")
    return folder / "report.html"


def scale_of(page):
    return page.evaluate("() => new DOMMatrix(getComputedStyle(document.getElementById('world')).transform).a")


def test_layers_are_switched_faded_and_zoomed(browser, page_file):
    with opened(browser, page_file.as_uri()) as page:
        page.get_by_role("button", name="small").click()
        assert page.locator("#viewer-title").text_content() == "small: 0.5000"
        layers = page.locator("#world .layer")
        assert layers.count() == 3
        shown = [layers.nth(place).locator("img").is_visible() for place in range(3)]
        assert shown == [True, True, False]
        page.get_by_label("answer", exact=True).check()
        assert layers.nth(2).locator("img").is_visible()
        page.get_by_label("Strength of truth").fill("0.3")
        assert layers.nth(1).evaluate("node => node.style.opacity") == "0.3"
        page.keyboard.press("Escape")
        page.get_by_role("button", name="small").click()
        page.get_by_role("button", name="Fit").click()
        before = scale_of(page)
        page.get_by_role("button", name="Zoom in").click()
        assert scale_of(page) == pytest.approx(1.5 * before, rel=1e-3)
        page.locator("#stage").hover()
        page.mouse.wheel(0, -300)
        page.wait_for_function(
            f"() => new DOMMatrix(getComputedStyle(document.getElementById('world')).transform).a > {1.6 * before}"
        )
        page.locator(".reasons button").first.click()
        assert page.locator("#world rect").count() == 2
        for mark, pixels in (("line", 2.5), ("rect.under", 6)):  # as thick on the screen, however near
            width = page.locator(f"#world {mark}").first.evaluate(
                "node => parseFloat(getComputedStyle(node).strokeWidth)"
            )
            assert width * scale_of(page) == pytest.approx(pixels, rel=0.02)
        page.locator("#stage").focus()
        page.keyboard.press("0")
        assert scale_of(page) == pytest.approx(before, rel=1e-3)
        page.keyboard.press("2")
        assert not page.get_by_label("truth", exact=True).is_checked()
        page.keyboard.press("n")
        assert page.locator("#viewer-title").text_content().startswith("large")


def test_a_dark_picture_can_be_brightened(browser, page_file):
    with opened(browser, page_file.as_uri()) as page:
        page.locator(".card .open").first.click()
        marks, picture = (page.locator(f"#world .layer{chosen}").first for chosen in (":not(.picture)", ".picture"))
        assert [each.evaluate("e => getComputedStyle(e).filter") for each in (marks, picture)] == [
            "none",
            "brightness(1)",
        ]
        page.locator("#brightness").fill("2")
        assert [each.evaluate("e => getComputedStyle(e).filter") for each in (marks, picture)] == [
            "none",
            "brightness(4)",
        ]


def test_thin_outlines_do_not_fade_on_a_phone(browser, tmp_path):
    pixels, marks = np.full((1001, 903, 3), 200, np.uint8), np.zeros((1001, 903), np.uint8)
    marks[:, 451] = 1
    line = Layer("answer", marks.shape, lambda top, bottom: marks[top:bottom], (ANSWER,))
    view = CaseView((Layer("image", marks.shape, lambda top, bottom: pixels[top:bottom]), line))
    pictures = draw_case(view, PictureStore(tmp_path / "files", inline=True))
    assert len(pictures["layers"][1]["smaller"]) == 2
    write_report(Report("solve", "t", "", "", cases=[ShownCase("a", 0, pictures=pictures)]), tmp_path / "report.html")
    with opened(browser, f"{(tmp_path / 'report.html').as_uri()}#case-0", width=390) as page:
        answer = page.locator("#world .layer").nth(1).locator("img")
        page.wait_for_function("() => [...document.querySelectorAll('#world img')].every((image) => image.complete)")
        shown = "node => [node.naturalWidth, node.offsetWidth]"
        assert answer.evaluate(shown) == [226, 904]  # a quarter, laid over the whole
        for _ in range(4):
            page.get_by_role("button", name="Zoom in").click()
        assert scale_of(page) > 1
        page.wait_for_function("() => [...document.querySelectorAll('#world img')].every((image) => image.complete)")
        assert answer.evaluate(shown) == [903, 903]


def test_tiles_come_as_they_are_needed(browser, page_file):
    with opened(browser, f"{page_file.as_uri()}#case-1") as page:
        page.wait_for_function("() => [...document.querySelectorAll('#world .layer:first-child img')].length > 0")
        few = page.locator("#world .layer").first.locator("img").count()
        assert few <= 12
        page.wait_for_function("() => [...document.querySelectorAll('#world img')].every((image) => image.complete)")
        widths = page.evaluate("() => [...document.querySelectorAll('#world img')].map((image) => image.naturalWidth)")
        assert min(widths) > 0
        for _ in range(4):
            page.get_by_role("button", name="Zoom in").click()
        page.wait_for_function(
            "() => [...document.querySelectorAll('#world img')].some((image) => /\\/0-\\d+-\\d+/.test(image.src))"
        )


def test_cases_are_filtered_and_ordered(browser, page_file):
    with opened(browser, page_file.as_uri()) as page:
        names = page.locator(".card:visible .name")
        assert names.all_text_contents() == ["small", "large", HOSTILE]
        page.get_by_label("Order").select_option("best")
        assert names.all_text_contents() == [HOSTILE, "large", "small"]
        page.get_by_label("Find").fill("LAR")
        assert names.all_text_contents() == ["large"]
        assert page.locator("#count").text_content() == "1 of 3"
        page.get_by_label("Find").fill("")
        page.get_by_label("Show").select_option("with warnings")
        assert names.all_text_contents() == [HOSTILE, "large"]


def test_it_prints(browser, page_file):
    with opened(browser, page_file.as_uri()) as page:
        assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_nobody_is_kept_out(browser, page_file, width, scheme):
    with opened(browser, page_file.as_uri(), width=width, color_scheme=scheme) as page:
        assert serious_findings(page) == []
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        page.locator(".open").last.click()
        assert serious_findings(page) == []
        assert page.locator("#side").is_visible()


def test_a_thousand_cases(browser, tmp_path):
    pixels = np.zeros((40, 60, 3), np.uint8)
    view = CaseView((Layer("image", (40, 60), lambda top, bottom: pixels[top:bottom]),))
    pictures = draw_case(view, PictureStore(tmp_path / "f", inline=True))
    cases = [ShownCase(f"case {n}", n, n / 1000, pictures=pictures) for n in range(1000)]
    write_report(Report("solve", "many", "", "", cases=cases), tmp_path / "report.html")
    with opened(browser, (tmp_path / "report.html").as_uri()) as page:
        assert page.locator(".card").count() == 1000
        page.get_by_label("Find").fill("case 99")
        assert page.locator(".card:visible").count() == 11
        page.locator(".open:visible").last.click()
        assert page.locator("#viewer-title").text_content() == "case 999: 0.9990"
        page.keyboard.press("Escape")
        page.get_by_label("Find").fill("")
        page.get_by_label("Order").select_option("best")
        names = page.locator(".card .name").all_text_contents()  # in groups, of which few are laid out
        assert names == [f"case {number}" for number in reversed(range(1000))]
