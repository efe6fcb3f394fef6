"""Another threshold in the app: its page at once, its files when asked for, and never those of another value or run."""

import io
import json
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from test_app import SLOW, ask, serving

from handlens import pipeline, registry
from handlens.artefacts import REPORT_DATA
from handlens.errors import DataError
from handlens.io.submissions import require_submission, write_submission
from handlens.pipeline import solve_report
from handlens.web.adjusted import KEPT, value_of
from handlens.web.jobs import Jobs

SIZES = {"forgery": 96, "ink": 96, "cells": 96, "lesions": 64}
OF_PAGE = {"report.html", "report.json"}


@pytest.fixture(scope="module")
def solve_once(tmp_path_factory):
    """Makes a folder of jobs with a finished one; a challenge is solved once."""
    data = tmp_path_factory.mktemp("data")

    def made(folder, name):
        challenge = registry.challenge(name)
        if not (data / name).is_dir():
            pipeline.sample(challenge, data / name, seed=1, cases=2, size=SIZES[name])
        jobs = Jobs(folder)
        job = replace(jobs.create(), state="done", challenge=name, title=name, page="report.html")
        (jobs.place(job.id) / "input" / "picture.png").touch()
        pipeline.solve(challenge, data / name, jobs.out(job), for_report=True)
        pipeline.report_solve(challenge, jobs.out(job))
        jobs._write(job)
        return job.id, jobs.out(job)

    return made


def files_of(folder):
    """Contents by name of all files but those of the page."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {
        name: path.read_bytes()
        for name, path in found.items()
        if name not in OF_PAGE and REPORT_DATA not in name and "report_files" not in name
    }


def write_expected(name, out, value, target):
    """What the challenge itself writes for an answer with this threshold."""
    challenge = registry.challenge(name)
    page = solve_report.read_score(out)
    settings, adjusting = challenge.settings(**page["settings"]), challenge.report.adjust
    cases = pipeline.read_cases(challenge, Path(page["data"]), page["part"])
    said = require_submission(out / "submission.csv", challenge.codec(settings), cases)
    answers = {case.id: adjusting.answer(out, case, said[case.id], value, None, settings) for case in cases}
    target.mkdir()
    write_submission(target / "submission.csv", challenge.codec(settings), cases, answers)
    for case in cases:
        adjusting.write(out, target, case, answers[case.id], settings)
    challenge.summarise(target, answers, settings)
    return files_of(target)


def download(address, id, value, names):
    found = {name: ask(address, f"jobs/{id}/files/adjusted/{value}/{name}") for name in names}
    assert {status for status, _ in found.values()} == {200}
    return {name: json.dumps(content) if isinstance(content, dict) else content for name, (_, content) in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_the_slider_writes_a_page_and_the_files_follow(solve_once, tmp_path, name):
    id, out = solve_once(tmp_path / "jobs", name)
    expected = write_expected(name, out, 0.05, tmp_path / "expected")
    with serving(tmp_path / "jobs") as address:
        status, answer = ask(address, f"jobs/{id}/adjust", "POST", {"value": 0.05})
        assert (status, answer["page"]) == (200, "adjusted/0.05/report.html")
        assert not (out / "adjusted").exists()
        assert files_of(out / "adjusted_pages" / "0.05") == {}
        assert b"0.05" in ask(address, f"jobs/{id}/files/{answer['page']}")[1]
        assert not (out / "adjusted").exists()
        fitted = [file["name"] for file in ask(address, f"jobs/{id}/files")[1]["files"]]
        assert not (out / "adjusted").exists()
        listed = [file["name"] for file in ask(address, f"jobs/{id}/files?value=0.05")[1]["files"]]
        assert {*listed} - {*fitted} == {f"adjusted/0.05/{each}" for each in {*expected, *OF_PAGE}}
    assert files_of(out / "adjusted" / "0.05") == expected
    assert "submission.csv" in expected
    quick, whole = (
        json.loads((out / folder / "0.05" / "report.json").read_text()) for folder in ("adjusted_pages", "adjusted")
    )
    assert (quick["score"], quick["references"]) == (whole["score"], whole["references"])
    assert [case["pictures"] for case in quick["cases"]] == [case["pictures"] for case in whole["cases"]]


@pytest.mark.slow
def test_a_download_belongs_to_its_value_with_two_tabs_and_after_a_restart(solve_once, tmp_path):
    id, out = solve_once(tmp_path / "jobs", "cells")
    low, high = (write_expected("cells", out, value, tmp_path / f"{value}") for value in (0.2, 0.8))
    texts = [name for name in low if not name.endswith("geojson")]
    assert all(low[name] != high[name] for name in texts)
    with serving(tmp_path / "jobs") as address:
        for value in (0.2, 0.8):  # the second tab moves its slider last
            ask(address, f"jobs/{id}/adjust", "POST", {"value": value})
        assert download(address, id, "0.20", texts) == {name: low[name] for name in texts}
        archive = zipfile.ZipFile(io.BytesIO(ask(address, f"jobs/{id}/all.zip?value=0.80")[1]))
        assert {name.split("/")[1] for name in archive.namelist() if name.startswith("adjusted/")} == {"0.80"}
        assert all(archive.read(f"adjusted/0.80/{name}") == high[name] for name in high)
        bare = zipfile.ZipFile(io.BytesIO(ask(address, f"jobs/{id}/all.zip")[1]))
        assert not [name for name in bare.namelist() if name.startswith("adjusted")]
    assert not [*(tmp_path / "jobs" / id).glob("*.zip")]
    with serving(tmp_path / "jobs") as address:  # 0.50 was never asked for
        expected = write_expected("cells", out, 0.5, tmp_path / "0.5")
        assert download(address, id, "0.50", texts) == {name: expected[name] for name in texts}
        assert download(address, id, "0.80", texts) == {name: high[name] for name in texts}
        assert ask(address, f"jobs/{id}/files/adjusted/0.80/nothing.csv")[0] == 404
        for wrong in ("0.8", "2.00", "x", "-0.10"):
            assert ask(address, f"jobs/{id}/files/adjusted/{wrong}/submission.csv")[0] == 400
        assert ask(address, f"jobs/{id}/adjust", "POST", {"value": 2})[0] == 400


@pytest.mark.slow
def test_interrupted_writing_leaves_nothing_half(solve_once, tmp_path, monkeypatch):
    id, out = solve_once(tmp_path / "jobs", "cells")
    killed = out / "adjusted" / ".0.30.tmp-00000000-1-x"
    killed.mkdir(parents=True)
    (killed / "submission.csv").write_text("half")
    with serving(tmp_path / "jobs") as address:
        with monkeypatch.context() as patched:

            def break_off(report, path):
                assert (path.parent / "submission.csv").is_file()
                raise DataError("broken off")

            patched.setattr(solve_report, "write_report", break_off)
            assert ask(address, f"jobs/{id}/files/adjusted/0.30/submission.csv")[1] == {"error": "broken off"}
        assert [path.name for path in (out / "adjusted").iterdir()] == [killed.name]
        status, content = ask(address, f"jobs/{id}/files/adjusted/0.30/submission.csv")
        assert status == 200
        assert content == write_expected("cells", out, 0.3, tmp_path / "expected")["submission.csv"]
        names = [file["name"] for file in ask(address, f"jobs/{id}/files?value=0.30")[1]["files"]]
        assert not [name for name in names if killed.name in name]


@pytest.mark.slow
def test_a_page_does_not_wait_for_files(solve_once, tmp_path, monkeypatch):
    id, out = solve_once(tmp_path / "jobs", "cells")
    begun, go_on = threading.Event(), threading.Event()

    def write_slowly(*_):
        begun.set()
        assert go_on.wait(60)

    monkeypatch.setattr(solve_report, "_write_adjusted", write_slowly)
    with serving(tmp_path / "jobs") as address:
        slow = threading.Thread(target=ask, args=(address, f"jobs/{id}/files?value=0.20"))
        slow.start()
        assert begun.wait(60)
        assert ask(address, f"jobs/{id}/adjust", "POST", {"value": 0.3})[0] == 200
        assert not (out / "adjusted" / "0.20").exists()
        go_on.set()
        slow.join()
        assert (out / "adjusted" / "0.20").is_dir()


@pytest.mark.slow
def test_another_run_forgets_the_answers_of_the_one_before(solve_once, tmp_path):
    id, out = solve_once(tmp_path / "jobs", "cells")
    with serving(tmp_path / "jobs", SLOW) as address:
        ask(address, f"jobs/{id}/adjust", "POST", {"value": 0.3})
        ask(address, f"jobs/{id}/files?value=0.30")
        assert {path.name for path in out.glob("adjusted*")} == {"adjusted", "adjusted_pages"}
        ask(address, f"jobs/{id}/start", "POST", {"challenge": "cells"})
        assert not [*out.glob("adjusted*")]
        assert ask(address, f"jobs/{id}/adjust", "POST", {"value": 0.3})[0] == 400
        assert ask(address, f"jobs/{id}/files/adjusted/0.30/submission.csv")[0] == 400
        assert not [*out.glob("adjusted*")]
        ask(address, f"jobs/{id}", "DELETE")


@pytest.mark.slow
def test_old_answers_make_room_and_come_again(solve_once, tmp_path):
    id, out = solve_once(tmp_path / "jobs", "lesions")
    with serving(tmp_path / "jobs") as address:
        for value in range(10, 10 + KEPT + 2):
            assert ask(address, f"jobs/{id}/files?value=0.{value}")[0] == 200
        kept = {path.name for path in (out / "adjusted").iterdir()}
        assert len(kept) == KEPT
        assert "0.10" not in kept
        assert ask(address, f"jobs/{id}/files/adjusted/0.10/submission.csv")[0] == 200


@pytest.mark.parametrize("value", [2, -0.1, float("nan"), None, "0.3", "../x", [0.3]])
def test_what_is_no_value_is_refused(value):
    with pytest.raises(DataError):
        value_of(value)
