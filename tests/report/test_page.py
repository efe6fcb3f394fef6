"""The page as text: nothing of a stranger's words can run, and all of it stands in the twin too."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from handlens.report import asset, render
from handlens.report.charts import draw_chart, draw_scale
from handlens.report.interval import bootstrap
from handlens.report.page import Report, ShownCase, order_cases, page_of, write_report
from handlens.report.pictures import TILE, PictureStore, draw_case, encode_marks
from handlens.views import CaseView, Chart, Layer, Matrix, Reason, Section, Table

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\" onload='alert(3)' {{ 7*7 }} & \u2028"


KNOWN_TAGS = {
    "html",
    "nav",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "h1",
    "h2",
    "h3",
    "p",
    "div",
    "a",
    "b",
    "figure",
    "figcaption",
    "svg",
    "line",
    "text",
    "circle",
    "polyline",
    "ul",
    "li",
    "section",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "mark",
    "code",
    "form",
    "label",
    "input",
    "select",
    "option",
    "output",
    "button",
    "span",
    "img",
    "script",
    "dl",
    "dt",
    "dd",
    "pre",
    "dialog",
    "aside",
}


def elements(page):
    """Every element of a page as a browser sees it: its name and the names of its attributes."""
    found = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: found.append((tag, [name for name, _ in attributes]))
    parser.feed(page)
    return found


def hostile_report():
    pixels = np.zeros((20, 30, 3), np.uint8)
    view = CaseView((Layer(HOSTILE, (20, 30), lambda top, bottom: pixels[top:bottom]),))
    pictures = draw_case(view, PictureStore(None, inline=True))
    case = ShownCase(HOSTILE, 0, 0.5, HOSTILE, [Reason(HOSTILE, HOSTILE, 0.5, (0, 0, 5, 5))], {HOSTILE: (1, 0.5)}, {HOSTILE: HOSTILE}, [HOSTILE], [HOSTILE], pictures, HOSTILE)  # fmt: skip
    items = [
        Chart(HOSTILE, HOSTILE, HOSTILE, {HOSTILE: [(0, 0), (1, 1)], "b": [(0, 1)]}, points=True, names={HOSTILE: [HOSTILE]}),
        Matrix(HOSTILE, [HOSTILE], [HOSTILE], [[3]]),
        Table(HOSTILE, [HOSTILE], [[HOSTILE]]),
    ]  # fmt: skip
    return Report(
        "solve", HOSTILE, HOSTILE, HOSTILE, score=0.5, interval=(0.4, 0.6), references={HOSTILE: 0.1}, notes=[HOSTILE],
        sections=[Section(HOSTILE, HOSTILE, items)], cases=[case], facts={HOSTILE: HOSTILE}, command=HOSTILE,
        problems=[{"line": 1, "id": HOSTILE, "what": HOSTILE, "text": HOSTILE}], files=[(HOSTILE, "submission.csv", HOSTILE)],
    )  # fmt: skip


def test_nothing_of_a_hostile_name_is_markup():
    page = page_of(hostile_report(), twin="report.json")
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert not [name for _, names in elements(page) for name in names if name.startswith("on") or name == "style"]
    assert {tag for tag, _ in elements(page)} <= KNOWN_TAGS
    assert ">49<" not in page
    assert len(re.findall(r"<script", page)) == 2  # the case's data, and ours


def test_the_policy_names_our_own_style_and_script_alone():
    import base64
    import hashlib

    page = page_of(hostile_report(), twin="report.json")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1].replace("&#39;", "'")
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    for tag in ("style", "script"):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1]
        hashed = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{hashed}'" in policy
    assert 'style="' not in page


def test_a_page_without_cases_runs_no_script():
    page = page_of(Report("refused", "a", "b", "c"), twin="report.json")
    assert "script-src 'none'" in page.replace("&#39;", "'")
    assert "<script" not in page


def test_the_twin_has_what_the_page_has(tmp_path):
    report = hostile_report()
    write_report(report, tmp_path / "report.html")
    twin = json.loads((tmp_path / "report.json").read_text())
    assert twin["cases"][0]["id"] == twin["title"] == HOSTILE
    assert twin["sections"][0]["items"][0]["kind"] == "chart"
    assert twin["cases"][0]["pictures"]["layers"][0]["name"] == HOSTILE
    assert "base64" not in json.dumps(twin)


def test_the_worst_case_comes_first_and_those_without_a_score_last():
    cases = [ShownCase("a", 0, 0.9), ShownCase("b", 1), ShownCase("c", 2, 0.1), ShownCase("d", 3)]
    assert [case.id for case in order_cases(cases)] == ["c", "a", "b", "d"]


def test_numbers_that_json_does_not_know_become_null(tmp_path):
    write_report(Report("solve", "a", "b", "c", facts={"x": float("nan")}), tmp_path / "p.html")
    assert json.loads((tmp_path / "p.json").read_text())["facts"] == {"x": None}


@pytest.mark.parametrize("shape", [(1300, 2100), (2049, 3), (5000, 1)])
def test_large_pictures_become_tiles_of_every_scale(tmp_path, shape):
    import cv2

    grey = np.arange(shape[0] * shape[1], dtype=np.uint32).reshape(shape) % 251
    marks = np.zeros(shape, np.uint8)
    marks[0, 0] = 1
    view = CaseView(
        (
            Layer("image", shape, lambda top, bottom: grey[top:bottom].astype(np.uint8)),
            Layer("marks", shape, lambda top, bottom: marks[top:bottom], ((255, 0, 0),)),
        )
    )
    shown = draw_case(view, PictureStore(tmp_path / "files", inline=True))
    image, drawn = shown["layers"]
    first = image["levels"][0]
    assert (first["columns"], first["rows"]) == (-(-shape[1] // TILE), -(-shape[0] // TILE))
    assert (image["levels"][-1]["columns"], image["levels"][-1]["rows"]) == (1, 1)
    for number, level in enumerate(image["levels"]):
        size = [-(-side // 2**number) for side in shape]
        rows = sum(
            cv2.imread(str(tmp_path / image["path"] / f"{number}-0-{row}.jpg")).shape[0] for row in range(level["rows"])
        )
        assert rows == size[0]
    assert [level["there"].count("1") for level in drawn["levels"]] == [1] * len(drawn["levels"])  # marks do not fade
    files = {path.name for path in (tmp_path / drawn["path"]).iterdir()}
    assert files == {f"{number}-0-0.png" for number in range(len(drawn["levels"]))}


def test_marks_keep_their_colours():
    import io

    from PIL import Image

    marks = np.array([[0, 1], [2, 0]], np.uint8)
    picture = Image.open(io.BytesIO(encode_marks(marks, ((230, 159, 0), (0, 158, 115))))).convert("RGBA")
    assert np.asarray(picture).tolist() == [[[0, 0, 0, 0], [230, 159, 0, 255]], [[0, 158, 115, 255], [0, 0, 0, 0]]]


def test_pictures_beside_the_page_have_names_of_ours_alone(tmp_path):
    pixels = np.zeros((9, 9), np.uint8)
    view = CaseView((Layer("../../etc", (9, 9), lambda top, bottom: pixels[top:bottom]),))
    shown = draw_case(view, PictureStore(tmp_path / "report_files", inline=False))
    assert shown["layers"][0]["src"] == "report_files/00001.jpg"
    assert shown["thumbnail"] == "report_files/00002.jpg"


def test_a_bootstrap_interval_holds_the_mean_and_narrows_with_more_cases():
    random = np.random.default_rng(0)

    def interval(count):
        values = random.random(count)
        low, high = bootstrap(count, lambda chosen: values[chosen].mean(axis=1))
        assert low < values.mean() < high
        return high - low

    assert interval(400) < interval(20) / 2
    assert bootstrap(1, lambda chosen: chosen) is None
    again = [bootstrap(9, lambda chosen: chosen.mean(axis=1) / 9.0) for _ in range(2)]
    assert again[0] == again[1]


def test_names_on_the_scale_do_not_cover_each_other():
    from handlens.report.charts import LETTER, _lanes

    lanes = _lanes([(100.0, "one long name"), (110.0, "another name"), (600.0, "far away")], 760)
    assert [lane for _, _, lane in lanes] == [0, 1, 0]
    assert LETTER * len("one long name") > 10
    assert "NaN" not in draw_scale(0.5, None, [])


def test_a_chart_of_one_point_and_of_none_can_be_drawn():
    assert "nan" not in draw_chart(Chart("a", "x", "y", {"one": [(1.0, 2.0)]})).lower().replace("<tspan", "")
    assert draw_chart(Chart("a", "x", "y", {}))


def test_a_missing_value_is_an_error_not_a_gap():
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        render("report.html", generator="x")


def test_our_script_has_no_way_to_run_text():
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|eval\(|document\.write|Function\(", asset("viewer.js"))


def test_a_warning_stands_once_at_the_top_and_by_its_number_at_the_cases():
    cases = [ShownCase(str(number), number, warnings=["looks odd <b>"]) for number in range(40)]
    cases.append(ShownCase("40", 40, warnings=["alone", "looks odd <b>"]))
    report = Report("solve", "t", "s", "v", cases=cases)
    page = page_of(report, twin="t.json")
    visible = re.sub(r'<script type="application/json">.*?</script>', "", page, flags=re.S)
    assert visible.count("looks odd") == 1
    assert "<b>Warning 1</b>, 41 of 41 cases: looks odd &lt;b&gt;" in page
    assert visible.count(">Warning 1</span>") == 40
    assert visible.count(">Warning 1, 2</span>") == 1
    assert "<b>Warning 2</b>, 1 of 41 cases: alone" in page
    assert '<option value="warning 1">' in page
    assert report.as_json()["warnings"] == {"looks odd <b>": [*map(str, range(41))], "alone": ["40"]}
