"""Reports of real runs: what each challenge shows, that losses sum to what is missing, thresholds, trainings, judgements."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from handlens import pipeline, registry
from handlens.artefacts import file_of, files_of_cases
from handlens.challenges.forgery.report import explain
from handlens.challenges.forgery.score import ORDER, score
from handlens.challenges.lesions import report as lesions
from handlens.challenges.lesions.score import score_classes
from handlens.challenges.lesions.taxonomy import TAXONOMIES
from handlens.errors import DataError, HandlensError
from handlens.io.images import write_png
from handlens.io.submissions import require_submission
from handlens.masks.rle import decode, encode
from handlens.pipeline.run_report import pareto
from handlens.types import Case, CaseScore, Judged, Judgement, Truth

SIZES = {"forgery": (2, 96), "ink": (2, 96), "cells": (2, 96), "lesions": (12, 64)}


@pytest.fixture(scope="module", params=SIZES)
def solved(request, tmp_path_factory):
    """A challenge, its data, and what a solve left, made for the report."""
    folder = tmp_path_factory.mktemp("solved")
    challenge = registry.challenge(request.param)
    cases, size = SIZES[request.param]
    pipeline.sample(challenge, folder / "data", seed=1, cases=cases, size=size)
    pipeline.solve(challenge, folder / "data", folder / "out", for_report=True)
    return challenge, folder / "data", folder / "out"


@pytest.mark.slow
def test_a_report_shows_every_case_and_why_it_lost_points(solved):
    challenge, _, out = solved
    path, report = pipeline.report_solve(challenge, out)
    twin = json.loads((out / "report.json").read_text())
    known = json.loads((out / "score.json").read_text())
    assert path == out / "report.html"
    assert twin["score"] == known["score"]
    assert sorted(case["id"] for case in twin["cases"]) == sorted(case["id"] for case in known["cases"])
    assert all(case["pictures"]["layers"] for case in twin["cases"])
    low, high = twin["interval"]
    assert low <= twin["score"] <= high
    assert twin["references"]["empty answer"] == known["empty_score"]
    assert set(twin["references"]) > {mark.name for mark in challenge.report.marks}
    if challenge.name != "lesions":  # its score is not a mean over cases
        for case in report.cases:
            assert sum(lost for _, lost in case.losses.values()) == pytest.approx(1 - case.value)
    assert str(out) in twin["command"]
    assert f"handlens solve {challenge.name}" in twin["command"]


@pytest.mark.slow
def test_another_threshold_changes_the_answer_and_the_fitted_one_hardly_does(solved, tmp_path):
    challenge, data, out = solved
    adjusting = challenge.report.adjust
    cases = pipeline.read_cases(challenge, data)
    codec, settings = challenge.codec(challenge.settings()), challenge.settings()
    said = require_submission(out / "submission.csv", codec, cases)

    def rows(value):
        return [codec.format(adjusting.answer(out, case, said[case.id], value, None, settings), case) for case in cases]

    if challenge.name != "forgery":  # in figures this small nothing is found at any sensitivity
        assert rows(0.001) != rows(0.999)
    page = pipeline.report_adjusted(challenge, out, 0.05, tmp_path / "adjusted")
    assert page.is_file()
    assert pipeline.check(challenge, tmp_path / "adjusted" / "submission.csv", data, settings) == []
    known = json.loads((out / "score.json").read_text())["score"]
    changed = json.loads(page.with_suffix(".json").read_text())
    written = {"cells": "geojson", "ink": "contours.geojson", "lesions": None, "forgery": None}[challenge.name]
    if written is not None:  # files of the threshold that is shown, not of another
        for case in cases:
            assert (
                file_of(tmp_path / "adjusted", case, written).read_bytes() != file_of(out, case, written).read_bytes()
            )
        linked = {name for case in changed["cases"] for name, *_ in case["files"]}
        assert linked >= {file_of(Path(), case, ending).name for case in cases for ending in (written, "mask.png")}
    pipeline.report_adjusted(challenge, out, adjusting.start(None), tmp_path / "same")
    if challenge.name in ("cells", "ink"):  # probabilities are kept in 255 steps
        same = json.loads((tmp_path / "same" / "report.json").read_text())["score"]
        assert same == pytest.approx(known, abs=0.02)


@pytest.mark.slow
def test_an_image_of_another_microscope_keeps_its_own_threshold(tmp_path):
    """At the fitted value it has the answer of the run; below it more, above it less."""
    challenge = registry.challenge("cells")
    rows, columns = np.mgrid[:200, :200]
    nuclei = sum(
        80 * np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 60.0)
        for y in range(25, 200, 50)
        for x in range(25, 200, 50)
    )
    noise = np.random.default_rng(0).normal(0, 1, (200, 200))
    picture = np.clip(8 + nuclei + noise, 0, 255).astype(np.uint8)
    write_png(tmp_path / "cells.png", np.repeat(picture[:, :, None], 3, axis=2))
    out = tmp_path / "out"
    pipeline.solve(challenge, tmp_path / "cells.png", out, for_report=True)
    (case,), settings = pipeline.read_cases(challenge, tmp_path / "cells.png"), challenge.settings()
    said = require_submission(out / "submission.csv", challenge.codec(settings), [case])[case.id]
    fitted = challenge.report.adjust.start(None)
    low, same, high = (
        challenge.report.adjust.answer(out, case, said, value, None, settings).area
        for value in (fitted - 0.2, fitted, fitted + 0.2)
    )
    assert high < same < low
    assert same == pytest.approx(said.area, rel=0.05)
    page = pipeline.report_adjusted(challenge, out, fitted - 0.2, tmp_path / "adjusted")
    nuclei = len((tmp_path / "adjusted" / "objects.csv").read_text().splitlines()) - 1
    assert json.loads(page.with_suffix(".json").read_text())["cases"][0]["facts"]["nuclei"] == nuclei > 0


def test_sensitivity_chooses_among_the_groups_that_were_found(tmp_path):
    from handlens.challenges.forgery.report import adjusted

    groups = [{"probability": each, "runs": f"[{place}, {place}]"} for each, place in ((0.96, 3), (0.2, 1))]
    (tmp_path / "report_data").mkdir()
    (tmp_path / "report_data" / "a.findings.json").write_text(json.dumps({"groups": groups}))
    case = Case("a", None, (9, 9))
    sizes = [[mask.area for mask in adjusted(tmp_path, case, (), value, None, None)] for value in (0.05, 0.5, 0.98)]
    assert sizes == [[], [3], [3, 1]]


@pytest.mark.slow
def test_a_page_without_labels_says_what_was_found_and_what_its_files_are_for(solved, tmp_path):
    challenge, data, _ = solved
    case = pipeline.read_cases(challenge, data)[0]
    pipeline.solve(challenge, case.path, tmp_path / "out", for_report=True)
    page, report = pipeline.report_solve(challenge, tmp_path / "out")
    expected = {"forgery": "No copy found", "ink": "Ink on ", "cells": " nuclei on ", "lesions": ", probability 0."}
    assert report.title.endswith(f": {case.path.name}")
    assert expected[challenge.name] in report.verdict
    for name, address, about in (*report.files, *report.cases[0].files):
        assert (tmp_path / "out" / name).is_file()
        assert about, f"nobody says what {name} is for"
        assert f'href="{address}"' in page.read_text()


@pytest.mark.slow
def test_a_score_has_its_page_and_data_that_moved_is_said(solved, tmp_path):
    challenge, data, out = solved
    settings = challenge.settings()
    result = pipeline.score(challenge, out / "submission.csv", data, settings)
    page = pipeline.report_score(challenge, out / "submission.csv", data, result, settings, None, tmp_path / "s.html")
    twin = json.loads((tmp_path / "s.json").read_text())
    assert page.is_file()
    assert twin["score"] == result.value
    assert all(case["pictures"]["layers"] for case in twin["cases"])
    _, report = pipeline.report_solve(challenge, out, tmp_path / "nowhere")
    assert any("no such file or folder" in note for note in report.notes)
    pipeline.report_solve(challenge, out)


def test_a_refused_submission_shows_its_lines(tmp_path):
    challenge = registry.challenge("cells")
    file = tmp_path / "mine.csv"
    file.write_text("img,pixels\n0,1 1 5\n1,<b>x</b>" + "9" * 500 + "\n")
    with pytest.raises(HandlensError) as caught:
        pipeline.score(challenge, file, truth := _solution(tmp_path), challenge.settings())
    page = pipeline.report_refused(challenge, file, truth, caught.value, tmp_path / "mine.report.html")
    twin = json.loads((tmp_path / "mine.report.json").read_text())
    assert twin["command"] == f"handlens score cells {file} --truth {truth}"
    assert [problem["line"] for problem in twin["problems"]] == [2, 3]
    assert twin["problems"][0]["text"] == "0,1 1 5"
    assert len(twin["problems"][1]["text"]) == 160
    assert "<b>x</b>" not in page.read_text()
    assert "&lt;b&gt;x" in page.read_text()


def _solution(folder):
    (folder / "truth.csv").write_text("img,pixels\n0,1 4\n1,1 4\n")
    return folder / "truth.csv"


def test_a_folder_that_no_solve_wrote_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no score\.json in it"):
        pipeline.read_score(tmp_path)
    (tmp_path / "score.json").write_text("[]")
    with pytest.raises(DataError, match="damaged"):
        pipeline.read_score(tmp_path)


def test_what_instances_cost_sums_to_what_is_lost():
    random = np.random.default_rng(0)
    for _ in range(60):
        said, there = ([random.random((6, 6)) < 0.3 for _ in range(random.integers(0, 4))] for _ in range(2))
        said, there = ([mask for mask in masks if mask.any()] for masks in (said, there))
        answer, label = (tuple(encode(mask, order=ORDER) for mask in masks) for masks in (said, there))
        case = Case("a", None, (6, 6))
        value = score({"a": answer}, Truth((case,), lambda _, label=label: label), None).value
        lost = sum(reason.lost for reason in explain(answer, label, said, there))
        assert lost == pytest.approx(1 - value)
        assert all(decode(mask, (6, 6), order=ORDER).any() for mask in answer)


def test_the_resampled_score_of_lesions_is_the_score():

    settings = registry.challenge("lesions").settings()
    taxonomy = TAXONOMIES[settings.taxonomy]
    random = np.random.default_rng(1)
    true, said = (random.choice(taxonomy.classes, 40).tolist() for _ in range(2))
    scores = [
        CaseScore(str(n), float(a == b), {"truth": a, "predicted": b})
        for n, (a, b) in enumerate(zip(true, said, strict=True))
    ]
    chosen = random.integers(0, 40, (5, 40))
    for row, value in zip(chosen, lesions.rescore(scores, chosen, settings), strict=True):
        expected = score_classes([true[n] for n in row], [said[n] for n in row], taxonomy)["Prediction Score"]
        assert value == pytest.approx(expected)


def test_calibration_of_a_perfect_and_of_an_overconfident_model():
    confidence = np.linspace(0.05, 0.95, 10).repeat(20)
    right = np.concatenate([np.arange(20) < round(20 * value) for value in np.linspace(0.05, 0.95, 10)])
    assert lesions.reliability(confidence, right)[0] == pytest.approx(0, abs=1e-9)
    assert lesions.reliability(np.full(10, 0.9), np.zeros(10, bool))[0] == pytest.approx(0.9)


def test_standings_have_a_page_with_their_front(tmp_path):
    parts = {"Final Score": 0.5, "Prediction Score": 0.5, "size MiB": 5.0, "median ms": 10.0}
    best = replace(Judged(tmp_path / "<b>.onnx", 1, "scored", "", parts), notes=("odd",))
    worse = Judged(tmp_path / "w.onnx", 2, "scored", "", {**parts, "Prediction Score": 0.4, "median ms": 20.0})
    bad = Judged(tmp_path / "bad.onnx", 0, "too slow", "<script>alert(1)</script>")
    judgement = Judgement((best, worse, bad), 3, ("Final Score", "Prediction Score"))
    challenge = registry.challenge("lesions")
    options = pipeline.options_of(challenge.settings(taxonomy="eleven"), "judge")
    page = pipeline.report_judgement(challenge, judgement, tmp_path, tmp_path / "standings.html", options=options)
    assert "--taxonomy eleven" in json.loads(page.with_suffix(".json").read_text())["command"]
    text = page.read_text()
    assert "<script>alert" not in text
    assert "<b>.onnx" not in text
    twin = json.loads((tmp_path / "standings.json").read_text())
    front = twin["sections"][1]["items"][0]["names"]
    assert front == {"on the front": ["<b>.onnx"], "others": ["w.onnx"]}
    assert pareto({}) == []


def test_a_training_has_a_page_of_its_curves(tmp_path):
    from handlens.runstore.plan import Plan, write_plan
    from handlens.runstore.store import write_manifest

    write_manifest(
        tmp_path,
        {"command": "train", "challenge": "cells", "folder": "data", "numbers": {"Dice, out of fold": 0.8}},
        "key",
        finished=True,
    )
    lines = [
        {"stage": f"fold{fold}", "step": step, "loss": 1 / step, "metric": 0.5, "seconds": 0.1, "validation_loss": 0.2}
        for fold in range(2)
        for step in (10, 20)
    ]
    lines.append({"stage": "final", "step": 10, "loss": 0.1, "metric": 0.6, "seconds": 0.1})
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"cut')
    results = {
        "finished": True,
        "decision": {"threshold": 0.4},
        "fold_decisions": [{"threshold": 0.4}, {"threshold": 0.5}],
        "score": 0.8,
        "scores": {"0": 0.7, "1": 0.9},
        "sweep": [[0.3, 0.7], [0.4, 0.8], [0.5, 0.75]],
    }
    write_plan(tmp_path, Plan("cells", ids=("0", "1"), folds=2, results=results))
    page = pipeline.report_training(registry.challenge("cells"), tmp_path)
    twin = json.loads(page.with_suffix(".json").read_text())
    titles = [section["title"] for section in twin["sections"]]
    assert titles == ["Training", "Choice of the threshold", "Examples out of fold", "Numbers", "Decisions"]
    charts = {chart["title"]: chart["series"] for chart in twin["sections"][0]["items"]}
    assert list(charts["Loss"]) == ["fold0", "fold1", "final"]
    assert charts["Validation loss"] == {"fold0": [[10, 0.2], [20, 0.2]], "fold1": [[10, 0.2], [20, 0.2]]}
    assert twin["sections"][1]["items"][0]["chosen"] == 0.4
    write_manifest(tmp_path, {"command": "train"}, "key", finished=False)
    with pytest.raises(DataError, match="no finished training"):
        pipeline.report_training(registry.challenge("cells"), tmp_path)


def test_files_of_a_case_are_found_by_its_name_the_longest_first(tmp_path):
    cases = [Case(id, Path()) for id in ("0", "0.5", "a/b")]
    for case in cases:
        file_of(tmp_path, case, "mask.png").touch()
    (tmp_path / "probability").mkdir()
    file_of(tmp_path / "probability", cases[0], "tif").touch()
    (tmp_path / "report_data").mkdir()
    file_of(tmp_path / "report_data", cases[0], "map.png").touch()
    (tmp_path / "submission.csv").touch()
    found = files_of_cases(tmp_path, cases, ["probability"])
    assert found["0"] == ["0.mask.png", "probability/0.tif"]
    assert found["0.5"] == ["0.5.mask.png"]
    assert found["a/b"] == [file_of(tmp_path, cases[2], "mask.png").name]
