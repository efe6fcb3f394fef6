"""Inspection: a person sees the truth. Alignment, names, records, pages, and every figure of a folder."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import cv2
import numpy as np
import pytest
from click.testing import CliRunner
from copied_figures import copy_region, cut, disc, forged, grain, make_look, nothing
from PIL import Image

from handlens.challenges.forgery import inspection
from handlens.challenges.forgery.detect.findings import Findings, Group, Match
from handlens.challenges.forgery.inspection import aligning, bundling, drawing, strips, words
from handlens.challenges.forgery.inspection.naming import name_groups
from handlens.challenges.forgery.inspection.page import plain_words, summary_page
from handlens.challenges.forgery.inspection.reading import find_figures, list_files, list_skipped
from handlens.cli import cli
from handlens.errors import DataError
from handlens.io.images import read_image, write_png
from handlens.runstore.store import UNFINISHED, read_manifest


def align(display, match, side=aligning.SHOWN_SIDE):
    return aligning.align(display, match, side=side)


def inspect(paths, out=None, make=make_look, **options):
    return inspection.inspect_figures(paths, out, make_look=make, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A forged figure, a clean one, a broken one, a document of two pages and a stack of two, one of them forged."""
    folder = tmp_path_factory.mktemp("figures") / "in"
    picture, _ = forged()
    clean = Image.fromarray(grain(seed=5).astype(np.uint8))
    write_png(folder / "sub" / "b.png", picture)
    clean.save(folder / "a.png")
    (folder / "broken.jpg").write_bytes(b"nothing")
    clean.save(folder / "c.tif", save_all=True, append_images=[Image.fromarray(picture)])
    clean.save(folder / "paper.pdf", save_all=True, append_images=[clean], resolution=200)
    (folder / "notes.txt").write_text("no figure")
    return folder


@pytest.fixture(scope="module")
def report(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    return inspect([folder], out), out


# --- alignment ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize(("turn", "scale"), [(0, 1.0), (90, 1.0), (37, 1.0), (-120, 0.85), (12, 1.3)])
def test_the_copy_comes_back_onto_the_source(turn, scale, mirror):
    picture = grain()
    match = copy_region(picture, disc(70, 70, 30), to=(210, 150), turn=turn, scale=scale, mirror=mirror)
    agreement = aligning.compare(align(np.rint(picture).astype(np.uint8), match))
    assert agreement.correlation > 0.99
    assert agreement.mean_difference < 0.1 * agreement.contrast


def test_a_wrong_transform_shows():
    picture = grain()
    match = copy_region(picture, disc(70, 70, 30), to=(210, 150), turn=37)
    wrong = Match(match.source, match.copy, match.matrix + [[0, 0, 9], [0, 0, 0]], "keypoints")
    agreement = aligning.compare(align(np.rint(picture).astype(np.uint8), wrong))
    assert agreement.correlation < 0.5
    assert agreement.mean_difference > 0.5 * agreement.contrast


def test_a_plain_shift_is_exact_and_the_surroundings_are_not():
    picture = grain()
    match = copy_region(picture, disc(70, 70, 30), to=(210, 150))
    aligned = align(np.rint(picture).astype(np.uint8), match)
    assert np.array_equal(aligned.source[aligned.mask], aligned.copy[aligned.mask])
    assert np.abs(aligned.source[~aligned.mask].astype(int) - aligned.copy[~aligned.mask]).mean() > 10
    assert aligned.mask.sum() == match.source.area


def test_changed_brightness_and_contrast_are_evened_out():
    picture = grain()
    match = copy_region(picture, disc(70, 70, 30), to=(210, 150))
    inside = picture[match.copy.window]
    inside[match.copy.mask] = 0.7 * inside[match.copy.mask] + 40
    agreement = aligning.compare(align(np.rint(picture).astype(np.uint8), match))
    assert agreement.mean_difference < 1
    assert agreement.correlation > 0.999


def test_a_negative_is_turned_back():
    picture = grain()
    match = copy_region(picture, disc(70, 70, 30), to=(210, 150))
    inside = picture[match.copy.window]
    inside[match.copy.mask] = 255 - inside[match.copy.mask]
    aligned = align(np.rint(picture).astype(np.uint8), match)
    agreement = aligning.compare(aligned)
    assert agreement.inverted
    assert agreement.mean_difference < 2
    assert "dark and bright" in " ".join(strips.draw_strip(aligned, agreement, (9, 9, 9), ("1a", "1b"))[1])


def test_pieces_that_were_copied_together_are_one_copy():
    picture = grain()
    pieces = [disc(60, 50, 25), disc(110, 40, 9), disc(60, 100, 14)]
    matches = [copy_region(picture, piece, to=(0, 0)) for piece in pieces]
    turned = cv2.getRotationMatrix2D((60, 60), -90, 1) + [[0, 0, 150], [0, 0, 90]]
    matches = [
        Match(m.source, cut(_moved(m.source, turned)), turned, "objects", {}, 0.5 + 0.1 * i)
        for i, m in enumerate(matches)
    ]
    matches[1] = bundling._exchanged(matches[1])  # the detector looked at it from the other side
    other = Match(pieces[0], disc(250, 60, 25), np.array([[1, 0, 190.0], [0, 1, 10]]), "objects", {}, 0.9)
    (named,) = name_groups(Findings(picture.shape[:2], (), (Group((*matches, other), 0.9),), (), 0.9))
    joined, alone = named.group.matches
    assert (joined.evidence["pieces"], joined.probability, joined.source.area) == (3, 0.7, sum(p.area for p in pieces))
    assert np.allclose(joined.matrix, turned, atol=1e-6)
    assert alone == other
    assert len(named.tree()) == 2


@pytest.mark.parametrize(
    "other",
    [
        cv2.getRotationMatrix2D((60, 60), 20, 1),
        cv2.getRotationMatrix2D((60, 60), 0, 1.2),
        np.array([[-1, 0, 120.0], [0, 1, 0]]),
        np.array([[1, 0, 15.0], [0, 1, 0]]),
    ],
    ids=["turned", "larger", "mirrored", "elsewhere"],
)
def test_copies_made_apart_stay_apart(other):
    shift = np.array([[0, 0, 150.0], [0, 0, 90]])
    matrices = np.eye(2, 3) + shift, other + shift
    matches = [
        Match(piece, cut(_moved(piece, matrix)), matrix, "objects")
        for piece, matrix in zip((disc(60, 60, 25), disc(60, 61, 24)), matrices, strict=True)
    ]
    assert len(bundling.bundle(Group(tuple(matches), 0.9)).matches) == 2
    again = [Match(match.source, match.copy, matrices[0], "objects") for match in matches]
    assert len(bundling.bundle(Group(tuple(again), 0.9)).matches) == 1


def _moved(patch, matrix):
    mask = np.zeros((240, 320), np.uint8)
    mask[patch.window] = patch.mask
    return cv2.warpAffine(mask, matrix, (320, 240), flags=cv2.INTER_NEAREST) > 0


def test_regions_that_all_match_are_joined_by_few_lines():
    places = [disc(40 + 60 * number, 60, 15) for number in range(4)]
    turns = [np.array([[np.cos(t), -np.sin(t), 0], [np.sin(t), np.cos(t), 0]]) for t in range(6)]
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    matches = [Match(places[a], places[b], turn, "objects") for (a, b), turn in zip(pairs, turns, strict=True)]
    (named,) = name_groups(Findings((240, 320), (), (Group(tuple(matches), 0.9),), (), 0.9))
    assert (len(named.regions), len(named.group.matches), len(named.tree())) == (4, 6, 3)


def test_a_frame_that_reaches_out_of_the_figure_is_neutral_there():
    picture = np.rint(grain()).astype(np.uint8)
    match = Match(disc(70, 70, 30), disc(300, 70, 30), np.array([[1, 0, 230.0], [0, 1, 0]]), "dense")
    aligned = align(picture, match)
    assert (aligned.copy[:, -20:] == aligning.NEUTRAL).all()
    assert 0 < aligned.mask.sum() < match.source.area
    away = Match(match.source, match.copy, np.array([[1, 0, 5000.0], [0, 1, 0]]), "dense")
    nowhere = align(picture, away)
    assert not nowhere.mask.any()
    strips.draw_strip(nowhere, aligning.compare(nowhere), (1, 2, 3), ("1a", "1b"))


@pytest.mark.parametrize(("side", "scale"), [(100, 1.0), (50, 1.0), (50, 1.4)])
def test_a_large_region_is_reduced_and_still_fits(side, scale):
    picture = cv2.GaussianBlur(16 * (grain((500, 900)) - 128), (0, 0), 14) + 128
    match = copy_region(picture, disc(200, 250, 150, (500, 900)), to=(650, 250), turn=90, scale=scale)
    aligned = align(np.clip(np.rint(picture), 0, 255).astype(np.uint8), match, side)
    assert max(aligned.source.shape) == side
    assert aligned.source.shape == aligned.copy.shape
    assert aligning.compare(aligned).correlation > 0.995


def test_fine_grain_of_a_reduced_region_does_not_turn_into_noise():
    picture = np.random.default_rng(0).integers(0, 255, (500, 900, 3)).astype(np.float32)
    match = copy_region(picture, disc(200, 250, 150, (500, 900)), to=(650, 250))
    assert aligning.compare(align(picture.astype(np.uint8), match, 100)).correlation > 0.6
    assert aligning.compare(align(picture.astype(np.uint8), match)).correlation == pytest.approx(1)


def test_a_flat_region_has_no_correlation():
    match = Match(disc(70, 70, 30), disc(210, 70, 30), np.array([[1, 0, 140.0], [0, 1, 0]]), "dense")
    agreement = aligning.compare(align(np.full((240, 320, 3), 90, np.uint8), match))
    assert (agreement.correlation, agreement.mean_difference) == (None, 0)


def test_sixteen_bits_are_stretched_for_the_eye():
    picture = (grain()[:, :, 0] * 4).astype(np.uint16)  # a camera of ten bits
    display = aligning.as_display(picture)
    assert (display.shape, display.dtype) == ((240, 320, 3), np.uint8)
    assert display.min() == 0
    assert display.max() == 255


# --- pictures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ground", [0, 128, 255])
def test_outlines_show_on_every_ground(ground):
    picture = np.full((1200, 1200, 3), ground, np.uint8)
    for number in range(1, 9):
        match = Match(disc(300, 300, 90, (1200, 1200)), disc(800, 700, 90, (1200, 1200)), np.eye(2, 3), "dense")
        (named,) = name_groups(Findings((1200, 1200), (), (Group((match,), 0.9),), (), 0.9))
        drawn = drawing.draw_overview(picture, [type(named)(str(number), named.group, named.regions, named.joined)])
        row = drawn[300].astype(int)  # through the middle of the source
        assert np.abs(row[180:230] - ground).max() > 100
        assert (row[260:340] == ground).all()  # nothing hides the region itself
        middle = drawn[480:520, 530:570].reshape(-1, 3).astype(int)  # the line between
        assert np.abs(middle - ground).max() > 100


@pytest.mark.parametrize(
    ("shape", "side"), [((300, 200), 1200), ((100, 200), 800), ((1300, 900), 1300), ((5000, 900), 1600)]
)
def test_the_overview_fits_a_screen(shape, side):
    assert max(drawing.draw_overview(np.zeros((*shape, 3), np.uint8), []).shape) == side
    assert max(drawing.draw_thumbnail(np.zeros((*shape, 3), np.uint8), []).shape) <= drawing.THUMBNAIL_SIDE


def test_what_is_doubtful_is_not_in_the_small_picture():
    picture, findings = forged()
    named = name_groups(findings)
    counted = [each for each in named if not each.doubtful]
    assert np.array_equal(drawing.draw_thumbnail(picture, named), drawing.draw_thumbnail(picture, counted))
    assert not np.array_equal(drawing.draw_thumbnail(picture, counted), drawing.draw_thumbnail(picture, []))


def test_a_field_shown_twice_is_said_apart_and_not_counted(tmp_path):
    picture, findings = forged()
    (field, *_) = findings.groups
    shown = replace(findings, groups=(), doubtful=(), fields=(field,))
    write_png(tmp_path / "channels.png", picture)
    (record,) = inspect([tmp_path / "channels.png"], tmp_path / "out", lambda: lambda _: shown)
    assert record["verdict"] == "no copied region found (the same field shown twice: 1 group)"
    assert (record["groups"], record["doubtful"]) == ([], [])
    assert [region["name"] for region in record["same_field"][0]["regions"]] == ["1a", "1b", "1c"]
    assert "the same field shown twice" in inspection.table(record)
    page = (tmp_path / "out" / "index.html").read_text()
    assert "The same field shown twice, not counted" in page
    assert "1a and 1b" in page
    (named,) = name_groups(shown)
    assert np.array_equal(drawing.draw_thumbnail(picture, [named]), drawing.draw_thumbnail(picture, []))
    assert not np.array_equal(drawing.draw_overview(picture, [named]), drawing.draw_overview(picture, []))


def test_a_nucleus_of_twenty_pixels_is_shown_large():
    picture = grain()
    match = copy_region(picture, disc(70, 70, 10), to=(210, 150), turn=15)
    aligned = align(np.rint(picture).astype(np.uint8), match)
    strip, said = strips.draw_strip(aligned, aligning.compare(aligned), (255, 176, 0), ("1a", "1b"))
    assert "enlarged 10x" in said
    assert strip.shape[1] > 3 * 200


def test_wide_regions_are_laid_one_below_the_other():
    band = np.zeros((240, 320), bool)
    band[100:112, 20:140] = True
    match = Match(cut(band), cut(np.roll(band, 150, axis=1)), np.array([[1, 0, 150.0], [0, 1, 0]]), "dense")
    aligned = align(np.rint(grain()).astype(np.uint8), match)
    strip, _ = strips.draw_strip(aligned, aligning.compare(aligned), (255, 176, 0), ("1a", "1b"))
    assert strip.shape[0] > strip.shape[1] / 2


def test_the_difference_is_dark_for_a_copy_and_bright_for_strangers_whatever_the_contrast():
    for contrast in (0.05, 0.3, 1.0):
        picture = 128 + contrast * (grain() - 128)
        match = copy_region(picture, disc(70, 70, 30), to=(210, 150))
        display = np.rint(picture).astype(np.uint8)
        stranger = Match(match.source, match.copy, np.array([[1, 0, 40.0], [0, 1, 100]]), "dense")
        levels = []
        for each in (match, stranger):
            agreement = aligning.compare(align(display, each))
            levels.append(strips._factor(agreement) * agreement.mean_difference)
        assert levels[0] < 10
        assert levels[1] > 90


# --- words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({}, "moved by (140, 80)"),
        ({"turn": 90}, "turned 90 degrees clockwise, moved by (140, 80)"),
        ({"turn": -12.5}, "turned 12.5 degrees anticlockwise, moved by (140, 80)"),
        ({"turn": 180}, "turned 180 degrees, moved by (140, 80)"),
        ({"mirror": True}, "mirrored left to right, moved by (140, 80)"),
        ({"mirror": True, "turn": 180}, "mirrored top to bottom, moved by (140, 80)"),
        (
            {"mirror": True, "turn": 90, "scale": 1.12},
            "mirrored, turned 90 degrees clockwise, 1.12x, moved by (140, 80)",
        ),
    ],
)
def test_transforms_in_words(how, said):
    assert words.describe_transform(copy_region(grain(), disc(70, 70, 20), to=(210, 150), **how)) == said


def test_stretching_is_said():
    match = Match(disc(70, 70, 20), disc(200, 70, 20), np.array([[1.2, 0, 0], [0, 1.0, 0]]), "dense")
    assert "stretched 1.20:1" in words.describe_transform(match)


def test_the_record_says_everything(report):
    records, out = report
    record = next(each for each in records if each["figure"] == "sub/b.png")
    assert json.loads((out / record["folder"] / "findings.json").read_text()) == record
    assert record["verdict"] == "copied regions found (2 groups)"
    assert (record["copies_found"], record["probability"], record["width"], record["height"]) == (True, 0.98, 320, 240)
    assert record["panels"] == [{"box": {"left": 0, "top": 0, "width": 320, "height": 240}, "kind": "picture"}]
    first, second = record["groups"]
    assert [region["name"] for region in first["regions"]] == ["1a", "1b", "1c"]  # the source has one name
    assert [(match["source"], match["copy"]) for match in first["matches"]] == [("1a", "1b"), ("1a", "1c")]
    assert (first["confidence"], second["confidence"]) == ("high", "medium")
    (match,) = second["matches"]
    assert match["transform"] == "turned 30 degrees clockwise, 1.12x, moved by (-30, 160)"
    assert (match["scale"], match["turn_degrees"], match["mirrored"], match["tier"]) == (1.12, 30, False, "keypoints")
    assert match["evidence"] == {"inliers": 34, "correlation": 0.974}
    assert match["agreement"]["correlation"] > 0.95
    assert np.shape(match["matrix"]) == (2, 3)
    (doubt,) = record["doubtful"]
    assert (doubt["name"], doubt["confidence"]) == ("3", "low")


def test_which_figure_is_looked_at_is_said(folder):
    told = []
    records = inspect([folder], progress=lambda *now: told.append(now))
    names = [figure.name for figure in find_figures(list_files([folder], out=None))]
    assert len(names) == len(records) > 1
    assert told == [*((done, len(names), name) for done, name in enumerate(names)), (len(names), len(names))]


def test_the_most_suspicious_come_first():
    def record(name, *probabilities, doubtful=()):
        found = [[{"probability": p} for p in group] for group in (probabilities, doubtful)]
        return {"figure": name, "groups": found[0], "doubtful": found[1]}

    ordered = [
        record("c", 0.9),
        record("b", 0.7, doubtful=[0.5]),
        record("e", doubtful=[0.6]),
        record("a"),
        record("d"),
    ]
    ordered.insert(3, {**record("z"), "same_field": [{"probability": 0.9}]})
    broken = {"figure": "0", "error": "none"}
    assert words.rank([broken, *ordered[::-1]]) == [*ordered, broken]
    assert words.verdict(ordered[3]) == "no copied region found (the same field shown twice: 1 group)"


def test_outlines_in_the_record_give_the_regions_back(report):
    _, findings = forged()
    record = next(each for each in report[0] if each["figure"] == "sub/b.png")
    for named, group in zip(name_groups(findings), [*record["groups"], *record["doubtful"]], strict=True):
        for patch, region in zip(named.regions, group["regions"], strict=True):
            canvas = np.zeros((240, 320), np.uint8)
            cv2.fillPoly(canvas, [np.array(polygon) for polygon in region["outline"]], 1)
            truth = np.zeros((240, 320), bool)
            patch.paint(truth)
            assert (truth & (canvas > 0)).sum() / (truth | (canvas > 0)).sum() > 0.95
            assert region["area"] == patch.area


def test_the_table_fits_a_terminal(report):
    text = "\n".join(words.table(record, all_numbers=True) for record in report[0])
    assert max(map(len, text.splitlines())) <= words.WIDTH == 80
    assert "1a and 1c: mirrored, turned 90 degrees clockwise" in text
    assert "keypoints: inliers 34, correlation 0.974" in text
    assert "worth a look, not counted" in text


def test_a_few_facts_are_printed_of_every_pair(report):
    text = " ".join("\n".join(words.table(record) for record in report[0]).split())
    assert "found by keypoints; correlation 0.9" in text
    assert "inliers" not in text


@pytest.mark.parametrize(
    ("seams", "said"),
    [
        ({"seam": 0.5, "other_seam": 0.4, "seam_of_copy": 1}, "no seam"),
        ({"seam": 0.7, "other_seam": 0.4, "seam_of_copy": 1}, "a seam around 1b, none around the other"),
        ({"seam": 0.7, "other_seam": 0.4, "seam_of_copy": 0}, "a seam around 1a, none around the other"),
        ({"seam": 0.7, "other_seam": 0.6, "seam_of_copy": 0}, "a seam around 1a and 1b"),
    ],
)
def test_chance_and_seam_are_told_in_words(seams, said):
    alike = dict.fromkeys(("detail", "grain", "denoised", "band_pass"), np.tanh(0.5))
    seen = {**alike, **seams, "pixels": 103, "typical_significance": 10, "sharpest_seam": 0.6}
    alone = {f"{name}_autocorrelation": np.exp(-np.pi) for name in alike}  # every pixel speaks for itself
    match = Match(disc(70, 70, 20), disc(200, 70, 20), np.eye(2, 3), "objects", {**seen, **alone})
    told = words.describe_facts(match, ("1a", "1b"), {"correlation": 0.98})
    assert told[1:] == [
        "correlation 0.980 once aligned",
        "2.0 times as far beyond chance as a usual pair of this figure",
        said,
    ]


def test_a_long_table_is_cut_and_says_so():
    match = {"source": "1a", "copy": "1b", "transform": "moved", "tier": "dense", "evidence": {}, "facts": ["a fact"]}
    group = {"name": "1", "probability": 0.9, "confidence": "high", "regions": [], "matches": [match] * 25}
    record = {"figure": "a", "width": 9, "height": 9, "verdict": "found", "groups": [group], "doubtful": []}
    assert words.table(record).count("1a and 1b") == words.MATCHES_SHOWN
    assert "and 15 more; the pages of -o and --json have them all" in words.table(record)


def test_a_tier_that_ran_out_of_time_is_said(tmp_path):
    write_png(tmp_path / "a.png", np.zeros((60, 60), np.uint8))
    (record,) = inspect([tmp_path], tmp_path / "out", lambda: lambda picture: nothing((60, 60), cut=("objects",)))
    assert record["cut"] == ["objects"]
    said = "ime ran out in: objects. Copies may have been missed"
    assert said in " ".join(words.table(record).split())
    assert said in (tmp_path / "out" / "index.html").read_text()


def test_a_figure_stored_turned_is_said(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.zeros((40, 60, 3), np.uint8)).save(tmp_path / "a.jpg", exif=exif)
    (record,) = inspect([tmp_path / "a.jpg"])
    assert (record["width"], record["height"]) == (40, 60)  # as viewers show it
    assert "(orientation 6)" in record["notes"][0]


# --- pages --------------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """The tags of a page with their attributes; every tag that is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_pages_are_self_contained(report):
    records, out = report
    pages = sorted(out.rglob("*.html"))
    assert len(pages) == 1 + sum("error" not in record for record in records)
    for page in pages:
        tags = Tags(page.read_text()).found
        assert not {tag for tag, _ in tags} & {"script", "link", "iframe", "object"}
        assert all(attributes["src"].startswith("data:image/") for tag, attributes in tags if tag == "img")
        assert not re.findall(r"https?:|url\(|@import", page.read_text())
        for tag, attributes in tags:
            if tag == "a":
                assert (page.parent / attributes["href"]).is_file()


def test_names_of_files_are_escaped(tmp_path):
    name = "<img src=x onerror=alert(1)>&\"'.png"
    write_png(tmp_path / "in" / name, forged()[0])
    write_png(tmp_path / "in" / "b.png", forged()[0])
    (tmp_path / "in" / "<script>.png").write_bytes(b"nothing")
    inspect([tmp_path / "in"], tmp_path / "out")
    inspect([tmp_path / "in" / name], tmp_path / "alone")
    for page in [*(tmp_path / "out").rglob("*.html"), tmp_path / "alone" / "index.html"]:
        tags = Tags(page.read_text()).found
        assert not any("onerror" in attributes or tag == "script" for tag, attributes in tags)
    assert "&lt;img src=x onerror=alert(1)&gt;&amp;" in (tmp_path / "alone" / "index.html").read_text()


def test_the_page_of_a_figure_without_groups(tmp_path):
    write_png(tmp_path / "a.png", np.zeros((60, 60), np.uint8))
    (record,) = inspect([tmp_path / "a.png"], tmp_path / "out")
    text = (tmp_path / "out" / "index.html").read_text()
    assert (record["verdict"], record["copies_found"]) == ("no copied region found", False)
    assert "No copied region found" in text
    assert "Matched groups" not in text
    assert len([tag for tag, _ in Tags(text).found if tag == "img"]) == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "a.png",
        "index.html",
        "index.json",
        "run.json",
    ]


def test_doubtful_groups_alone_are_no_find(tmp_path):
    _, findings = forged()
    only = Findings(findings.shape, (), (), findings.doubtful, 0.3)
    write_png(tmp_path / "a.png", forged()[0])
    (record,) = inspect([tmp_path / "a.png"], tmp_path / "out", lambda: lambda picture: only)
    assert (record["verdict"], record["copies_found"]) == ("no copied region found (1 doubtful group)", False)
    assert "Worth a look, not counted" in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.parametrize(
    ("confidence", "said"),
    [("high", "seldom as alike"), ("medium", "more likely to be copied than not"), ("low", "as likely to be honest")],
)
def test_the_sentence_about_doubtful_groups_follows_their_confidence(confidence, said):
    record = {"groups": [], "doubtful": [{"confidence": "low"}, {"confidence": confidence}]}
    for group in record["doubtful"]:
        group["probability"] = {"high": 0.94, "medium": 0.8, "low": 0.5}[group["confidence"]]
    assert said in plain_words(record)[1]


@pytest.mark.parametrize("name", ["notes.pdf", "notes.txt"])
def test_what_is_no_figure_is_told_what_is_one_and_nothing_is_said_to_be_sound(name, tmp_path):
    (tmp_path / name).write_text("no picture")
    (record,) = inspect([tmp_path / name])
    expected = {"notes.pdf": "not a readable PDF", "notes.txt": "expected one of .png, .jpg, .jpeg, .tif, .tiff, .pdf"}
    assert expected[name] in record["error"]
    assert "No figure could be read." in summary_page([record], {}, 1)
    assert "found to be copied" not in summary_page([record], {}, 1)


def test_too_many_comparisons_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "STRIPS_MOST", 1)
    write_png(tmp_path / "a.png", forged()[0])
    inspect([tmp_path / "a.png"], tmp_path / "out")
    assert len(list((tmp_path / "out").rglob("match-*.png"))) == 1
    assert "1 match of group 1 not drawn" in (tmp_path / "out" / "index.html").read_text()


# --- files and folders --------------------------------------------------------------------------------------------


def test_every_figure_and_page_of_a_folder_is_looked_at(report):
    records, out = report
    assert [record["figure"] for record in records] == [
        "c.tif#2",
        "sub/b.png",
        "a.png",
        "c.tif#1",
        "paper.pdf#1.1",  # the same image on two pages
        "broken.jpg",
    ]
    assert [len(record.get("groups", ())) for record in records] == [2, 2, 0, 0, 0, 0]
    assert records[-1]["error"].startswith("not a readable image")
    summary = (out / "index.html").read_text()
    shown = ["c.tif#2", "c.tif#1", "sub/b.png", "a.png", "paper.pdf#1.1", "broken.jpg"]  # papers together
    places = [summary.index(f">{name}<") for name in shown]
    assert places == sorted(places)
    assert [title in summary for title in ("<h2>c.tif</h2>", "<h2>paper.pdf</h2>")] == [True, True]
    assert json.loads((out / "index.json").read_text()) == {"figures": records}
    assert read_manifest(out)["finished"] is True
    assert not (out / UNFINISHED).exists()
    assert read_image(out / "sub-b.png" / "match-1-1a-1b.png").ndim == 3


def test_a_file_is_looked_at_once_and_what_we_wrote_never(folder, tmp_path):
    write_png(tmp_path / "a.png", np.zeros((60, 60), np.uint8))
    out = tmp_path / "out"
    assert len(inspect([tmp_path, tmp_path / "a.png"], out)) == 1
    assert len(inspect([tmp_path], out)) == 1
    assert len(inspect([tmp_path])) > 1


def test_folders_of_figures_with_like_names_do_not_meet(tmp_path):
    for name in ("a b.png", "a-b.png", "A-B.png", "...png"):
        write_png(tmp_path / name, np.zeros((20, 20), np.uint8))
    figures = find_figures([(tmp_path / name, name) for name in ("a b.png", "a-b.png", "A-B.png", "...png")])
    assert len({figure.folder.lower() for figure in figures}) == 4
    assert all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", figure.folder) for figure in figures)


def test_an_empty_folder_and_a_missing_file(tmp_path):
    with pytest.raises(DataError, match="no figures in this folder"):
        inspect([tmp_path])
    with pytest.raises(DataError, match=r"none.png: no such file or folder"):
        inspect([tmp_path / "none.png"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    write_png(tmp_path / "a.png", np.zeros((20, 20), np.uint8))
    records = inspect([tmp_path / "none.png", tmp_path / "a.png"], tmp_path / "out")
    assert [record.get("error") for record in records if "error" in record] == ["no such file or folder"]
    assert "Could not be looked at" in (tmp_path / "out" / "index.html").read_text()


def test_a_folder_of_unread_formats_names_one_and_what_to_do(tmp_path):
    for name in ("a.webp", "b.bmp"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError, match=r"no figures in this folder.*a.webp: WebP is not read here.*1 more file"):
        inspect([tmp_path])


def test_pictures_that_are_not_looked_at_are_named(tmp_path):
    (tmp_path / "in" / "sub").mkdir(parents=True)
    write_png(tmp_path / "in" / "a.png", np.zeros((20, 20), np.uint8))
    for name in ("b.bmp", "sub/c.webp", ".d.bmp", "notes.txt"):
        (tmp_path / "in" / name).write_bytes(b"x")
    found = list_skipped([tmp_path / "in", tmp_path / "in" / "a.png"], out=None)
    assert [problem.file for problem in found] == ["b.bmp", "sub/c.webp"]
    run = CliRunner().invoke(cli, ["inspect", str(tmp_path / "in"), "--seconds", "1"])
    assert "not looked at: b.bmp: BMP is not read here" in run.stderr
    assert "1 more file" in run.stderr


def test_pictures_of_an_earlier_run_do_not_stay(tmp_path):
    write_png(tmp_path / "a.png", forged()[0])
    inspect([tmp_path / "a.png"], tmp_path / "out")
    assert len(list((tmp_path / "out").rglob("match-*.png"))) == 4
    inspect([tmp_path / "a.png"], tmp_path / "out", lambda: lambda picture: nothing((240, 320)))
    assert list((tmp_path / "out").rglob("match-*.png")) == []


def test_a_page_of_somebody_else_is_left_alone(tmp_path):
    write_png(tmp_path / "a.png", np.zeros((20, 20), np.uint8))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "index.html").write_text("mine")
    with pytest.raises(DataError, match="already there: name a new folder"):
        inspect([tmp_path / "a.png"], tmp_path / "out")
    assert (tmp_path / "out" / "index.html").read_text() == "mine"


@pytest.mark.parametrize("given", ["a.png", "."])
def test_pages_are_not_written_among_the_figures(tmp_path, given):
    write_png(tmp_path / "a.png", np.zeros((20, 20), np.uint8))
    with pytest.raises(DataError, match="is read and lies here: results would stand among your files"):
        inspect([tmp_path / given], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_the_folder_of_another_inspection_is_refused_or_overwritten(tmp_path):
    for folder in ("one", "two"):
        write_png(tmp_path / folder / "a.png", np.zeros((20, 20), np.uint8))
    out = tmp_path / "out"
    inspect([tmp_path / "one"], out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for paths, how in (([tmp_path / "two"], {}), ([tmp_path / "one"], {"seconds": 5.0})):
        with pytest.raises(DataError, match="holds the results of another run .*, or pass --overwrite"):
            inspect(paths, out, **how)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    (record,) = inspect([tmp_path / "two"], out, overwrite=True)
    assert record["file"] == str(tmp_path / "two" / "a.png")


def test_what_was_finished_stays_after_a_stop_and_the_next_run_goes_on(tmp_path):
    for name in "abc":
        write_png(tmp_path / "in" / f"{name}.png", np.full((30, 30), ord(name), np.uint8))
    seen = []

    def stopping(at):
        def look(picture):
            if chr(picture[0, 0]) == at:
                raise KeyboardInterrupt
            seen.append(chr(picture[0, 0]))
            return nothing(picture.shape[:2])

        return lambda: look

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        inspect([tmp_path / "in"], out, stopping("c"))
    assert (out / "a.png" / "index.html").is_file()
    assert "Stopped: 2 of 3 figures" in (out / "index.html").read_text()
    write_png(tmp_path / "in" / "b.png", np.full((30, 30), ord("x"), np.uint8))  # another file by the same name
    assert len(inspect([tmp_path / "in"], out, stopping(""))) == 3
    assert seen == ["a", "b", "x", "c"]
    inspect([tmp_path / "in"], out, stopping(""))  # a finished run begins anew
    assert seen[4:] == ["a", "x", "c"]
    assert not list(out.rglob(".*"))


def test_a_run_without_a_result_leaves_no_page(tmp_path):
    def no_detector():
        raise DataError("no detector")

    write_png(tmp_path / "a.png", np.zeros((20, 20), np.uint8))
    with pytest.raises(DataError, match="no detector"):
        inspect([tmp_path / "a.png"], tmp_path / "out", no_detector)
    assert not (tmp_path / "out" / "index.html").exists()


def test_a_folder_that_may_not_be_read_is_said(folder, monkeypatch):
    def walk(top, onerror):
        onerror(PermissionError(13, "Permission denied", str(top / "sub")))
        yield str(top), [], ["a.png"]

    monkeypatch.setattr("os.walk", walk)
    assert [(figure.name, bool(figure.fault)) for figure in find_figures(list_files([folder], out=None))] == [
        ("a.png", False),
        ("sub", True),
    ]


@pytest.mark.slow
def test_two_processes_find_the_same(folder, report, tmp_path):
    records = inspect([folder], tmp_path / "out", workers=2)
    times = {"seconds": 0}
    assert [record | times for record in records] == [record | times for record in report[0]]


def test_a_large_figure(tmp_path):
    picture = np.tile(np.rint(grain((500, 500))).astype(np.uint8)[:, :, 0], (8, 8))
    match = Match(disc(600, 700, 450, (4000, 4000)), disc(2600, 700, 450, (4000, 4000)), np.eye(2, 3), "dense")
    found = Findings((4000, 4000), (), (Group((match,), 0.9),), (), 0.9)
    write_png(tmp_path / "large.png", picture)
    inspect([tmp_path / "large.png"], tmp_path / "out", lambda: lambda picture: found)
    assert read_image(tmp_path / "out" / "large.png" / "figure.png").shape == (1600, 1600, 3)


# --- the command --------------------------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch):
    """`handlens inspect` with a detector that knows the truth."""
    monkeypatch.setattr(inspection, "_make_look", lambda *_: make_look())
    return lambda *args: CliRunner().invoke(cli, ["inspect", *map(str, args)])


def test_the_command_prints_a_table(command, folder):
    done = command(folder / "sub" / "b.png")
    assert done.exit_code == 0
    assert done.stdout.startswith("b.png (320x240 pixels): copied regions found (2 groups)\n")
    clean = command(folder / "a.png")
    assert (clean.exit_code, clean.stdout) == (0, "a.png (320x240 pixels): no copied region found\n")


def test_the_command_prints_json_and_writes_pages(command, folder, tmp_path):
    done = command(folder / "sub" / "b.png", "--json", "-o", tmp_path / "out", "--seconds", "5", "--sensitivity", "low")
    settings = "at most 5 s for each figure, low sensitivity"
    (record,) = json.loads(done.stdout)["figures"]
    assert (done.exit_code, record["figure"], record["settings"]) == (0, "b.png", settings)
    assert done.stderr == f"{tmp_path / 'out' / 'index.html'}: 1 figure\n"
    assert (tmp_path / "out" / "index.html").is_file()


def test_no_line_is_longer_than_a_narrow_terminal(command, folder, tmp_path):
    name = f"{'a_very_long_name_of_a_figure_' * 5}.png"
    write_png(tmp_path / name, forged()[0])
    for path in (folder, tmp_path):
        lines = command(path).stdout.splitlines()
        assert len(lines) > 10
        assert max(map(len, lines)) <= 80


def test_quiet_and_verbose(command, folder, tmp_path):
    loud = command(folder / "a.png", "-o", tmp_path / "out")
    quiet = command(folder / "a.png", "-o", tmp_path / "out", "-q")
    assert (loud.stdout, quiet.stdout) == (quiet.stdout, loud.stdout)
    assert loud.stderr == f"{tmp_path / 'out' / 'index.html'}: 1 figure\n"
    assert quiet.stderr == ""
    assert "not a readable image" in command(folder, "-q").stderr, "errors are always shown"


def test_an_unreadable_figure_is_reported_and_the_others_are_done(command, folder):
    done = command(folder)
    assert done.exit_code == 1
    assert "c.tif#2 (320x240 pixels): copied regions found" in done.stdout
    assert done.stderr.startswith("handlens: broken.jpg: not a readable image")
    assert "broken" not in done.stdout


@pytest.mark.slow
def test_the_detector_fits_the_command(tmp_path):
    grain = cv2.GaussianBlur(np.random.default_rng(0).normal(size=(400, 600)), (0, 0), 1.3)
    figure = np.clip(128 + 45 * grain / grain.std(), 0, 255).astype(np.uint8)
    figure[220:340, 400:560] = figure[40:160, 60:220]
    write_png(tmp_path / "a.png", figure)
    (record,) = inspection.inspect_figures([tmp_path / "a.png"])
    assert record["settings"] == "at most 13 s for each figure, normal sensitivity"
    assert record["copies_found"]
    match = record["groups"][0]["matches"][0]
    assert match["agreement"]["correlation"] > 0.8  # the outline reaches a little beyond the copy
    assert sorted(map(abs, match["moved"])) == pytest.approx([180, 340], abs=2)
