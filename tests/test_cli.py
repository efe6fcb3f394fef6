"""The commands as a person types them: output, exit status, errors."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from onnx_models import write_dark_is_cell

from handlens import pipeline, registry
from handlens.cli import cli
from handlens.cli.judge import print_standings
from handlens.inference.model import write_trained_on
from handlens.io.images import write_png
from handlens.runstore.store import UNFINISHED
from handlens.settings import fields_of
from handlens.types import Judged, Judgement

EXAMPLES = {  # a good table for synthetic truth, small enough to write by hand
    "forgery": ("case_id,annotation,shape\n1,authentic,authentic\n2,\"[1, 4]\",\"[9, 9]\"\n", 'case_id,annotation\n2,"[1, 4]"\n1,authentic\n'),
    "ink": ("Id,Predicted,height,width\na,1 4,9,9\n", "Id,Predicted\na,1 4\n"),
    "cells": ("img,pixels\n0,1 4\n", "img,pixels\n0,1 4\n"),
    "lesions": ("filename,label\na.jpg,MEL\n", "filename,AK,BCC,SK,SCC,VASC,DF,NV,NON,MEL,ON\na.jpg,0,0,0,0,0,0,0,0,1,0\n"),
}  # fmt: skip


def handlens(*args, cwd=None, **environment):
    """The program as a shell starts it."""
    command = [sys.executable, "-c", "from handlens.cli import main; main()", *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, timeout=300, env={**os.environ, **environment}
    )


def run(*args):
    """The same in this process, which is faster."""
    return CliRunner().invoke(cli, list(map(str, args)))


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "data"
    assert handlens("sample", "cells", folder, "--cases", 2, "--size", 96).returncode == 0
    return folder


@pytest.fixture(params=EXAMPLES)
def example(request, tmp_path):
    truth, mine = EXAMPLES[request.param]
    (tmp_path / "truth.csv").write_text(truth)
    (tmp_path / "mine.csv").write_text(mine)
    return request.param, tmp_path / "mine.csv", tmp_path / "truth.csv"


def test_list():
    plain = handlens("list")
    assert plain.returncode == 0
    assert max(map(len, plain.stdout.splitlines())) <= 80
    text = " ".join(plain.stdout.split())
    listed = json.loads(handlens("list", "--json").stdout)
    assert [row["name"] for row in listed] == registry.names()
    for row in listed:
        assert all(row[field] in text for field in ("name", "title", "asks", "metric"))


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_rules_have_numbered_readings(name):
    printed = handlens("rules", name).stdout
    assert printed.startswith(f"# {name}")
    assert "## Readings" in printed
    assert "\n1. **" in printed


def test_score_prints_the_exact_score_and_its_parts(example):
    name, mine, truth = example
    done = handlens("score", name, mine, "--truth", truth, "--cases")
    assert done.returncode == 0, done.stderr
    value = float(done.stdout.splitlines()[0].split()[1])
    page = json.loads(handlens("score", name, mine, "--truth", truth, "--json", "--cases").stdout)
    assert page["score"] == value
    assert page["valid"] is True
    assert all(case["value"] == 1 for case in page["cases"])


def test_score_of_an_invalid_file(example):
    name, mine, truth = example
    mine.write_text(mine.read_text() + "stranger,1\n")
    done = handlens("score", name, mine, "--truth", truth)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("handlens: mine.csv cannot be scored (1 problem):\n  line ")
    page = json.loads(handlens("score", name, mine, "--truth", truth, "--json").stdout)
    assert page["valid"] is False
    assert page["problems"][0]["line"] == mine.read_text().count("\n")


def test_sample_solve_check_score(cells, tmp_path):
    solved = handlens("solve", "cells", cells, "-o", tmp_path / "out")
    assert solved.returncode == 0, solved.stderr
    assert "2 cases, valid" in solved.stdout
    file = tmp_path / "out" / "submission.csv"
    checked = handlens("check", "cells", file, "--data", cells)
    assert (checked.returncode, checked.stdout) == (0, "submission.csv is valid\n")
    scored = handlens("score", "cells", file, "--truth", cells / "truth")
    assert scored.stdout.split()[1] in solved.stdout


def test_check_needs_no_truth_and_lists_problems(cells, tmp_path):
    (tmp_path / "bad.csv").write_text("img,pixels\n0,1 1 5\n7,\n")
    done = handlens("check", "cells", tmp_path / "bad.csv", "--data", cells / "test")
    assert done.returncode == 1
    assert done.stdout == (
        "bad.csv cannot be scored (3 problems):\n"
        "  line 2, img 0: 3 numbers, so the last start has no length\n"
        "  line 3: img 7 is not one of the 2 cases (0, 1)\n"
        "  no row for img 1\n"
    )
    page = json.loads(handlens("check", "cells", tmp_path / "bad.csv", "--data", cells, "--json").stdout)
    assert (page["valid"], len(page["problems"])) == (False, 3)
    assert page["problems"][0] == {"what": "3 numbers, so the last start has no length", "line": 2, "id": "img 0"}


def test_data_says_what_is_there_and_what_is_wrong(cells, tmp_path):
    good = handlens("data", "cells", cells)
    assert good.returncode == 0
    assert "test images" in good.stdout
    assert "no problems found" in good.stdout
    (tmp_path / "im").mkdir()
    (tmp_path / "im" / "00.png").write_bytes(b"not a picture")
    bad = handlens("data", "cells", tmp_path)
    assert bad.returncode == 1
    assert "im/00.png: not a readable image" in bad.stdout
    assert json.loads(handlens("data", "cells", tmp_path, "--json").stdout)["problems"][0]["file"] == "im/00.png"


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (["score", "nope", "x"], 2, "'nope' is not a challenge; there are forgery, ink, cells, lesions"),
        (["rules", "nope"], 2, "'nope' is not a challenge"),
        (["sample", "cells", "x", "--seed", "-1"], 2, "Invalid value for '--seed'"),
        (["score", "lesions", "x", "--truth", "y", "--size-mb", "-3"], 2, "Invalid value for '--size-mb'"),
        (["score", "cells", "none.csv", "--truth", "none"], 1, "none: no such file or folder"),
        (["check", "cells", "none.csv", "--data", "none"], 1, "none: no such file or folder"),
        (["data", "ink", "none"], 1, "none: no such folder"),
        (["solve", "cells", "none", "-o", "out"], 1, "none: no such file or folder"),
        (["score", "cells", "none.csv"], 2, "Missing option '--truth'"),
        (["score", "cells", "x", "--truth", "y", "--order", "sideways"], 2, "'sideways' is not one of"),
        (["sample", "cells", ".", "--cases", "0"], 2, "Invalid value for '--cases'"),
        (["nonsense"], 2, "No such command 'nonsense'"),
    ],
)
def test_errors_are_one_message_and_an_exit_status(tmp_path, args, status, message):
    done = handlens(*args, cwd=tmp_path)
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_sample_never_touches_what_is_there(cells):
    done = handlens("sample", "cells", cells)
    assert done.returncode == 1
    assert "is already there and not empty" in done.stderr


def test_lesions_final_score(tmp_path):
    truth, mine = EXAMPLES["lesions"]
    (tmp_path / "truth.csv").write_text(truth)
    (tmp_path / "mine.csv").write_text(mine)
    args = ["score", "lesions", tmp_path / "mine.csv", "--truth", tmp_path / "truth.csv", "--json"]
    final = json.loads(handlens(*args, "--size-mb", 100, "--time-ms", 12).stdout)
    assert final["parts"]["Efficiency"] == 0.75
    assert final["score"] == final["parts"]["Final Score"]
    only = json.loads(handlens(*args, "--size-mb", 100, "--efficiency", "size-only").stdout)
    assert only["parts"]["Efficiency"] == 0.5
    half = handlens(*args, "--size-mb", 100)
    assert (half.returncode, half.stderr.strip()) == (
        1,
        "handlens: the final score needs both --size-mb and --time-ms, or --efficiency size-only",
    )


@pytest.mark.parametrize("name", ["ink", "cells"])
def test_options_of_a_challenge(name, tmp_path):
    truth, mine = EXAMPLES[name]
    (tmp_path / "truth.csv").write_text(truth)
    (tmp_path / "mine.csv").write_text(mine)
    option = {"ink": ["--average", "pooled"], "cells": ["--order", "columns"]}[name]
    assert handlens("score", name, tmp_path / "mine.csv", "--truth", tmp_path / "truth.csv", *option).returncode == 0


@pytest.mark.slow
def test_ctrl_c_stops_cleanly_and_the_same_command_resumes(tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    assert handlens("sample", "forgery", data, "--cases", 6, "--size", 256).returncode == 0
    command = [sys.executable, "-m", "handlens", "solve", "forgery", str(data), "-o", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    journal = out / UNFINISHED / "answers.jsonl"
    deadline = time.monotonic() + 100
    while not (journal.is_file() and journal.read_bytes().count(b"\n") >= 1) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in talk) == (130, False)
    assert "stopped; the same command resumes from here" in talk
    assert handlens("solve", "forgery", data, "-o", out).returncode == 0
    assert {"run.json", "score.json", "submission.csv"} <= set(os.listdir(out))
    assert "unfinished" not in os.listdir(out)


def test_data_shows_every_problem(tmp_path):
    (tmp_path / "im").mkdir()
    for number in range(25):
        (tmp_path / "im" / f"{number:02d}.png").write_bytes(b"nothing")
    shown = handlens("data", "cells", tmp_path).stdout
    assert all(f"im/{number:02d}.png" in shown for number in range(25))


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """What the demo printed, and its folder."""
    out = tmp_path_factory.mktemp("demo") / "out"
    return handlens("demo", "-o", out), out


@pytest.mark.slow
def test_the_demo_solves_all_four_and_ends_in_a_table(demo):
    done, out = demo
    assert done.returncode == 0, done.stderr
    for name in registry.BUILT_IN:
        page = json.loads((out / name / "score.json").read_text())
        assert any(line.split()[:1] == [name] and f"{page['score']:.4f}" in line for line in done.stdout.splitlines())
        assert page["score"] > page["empty_score"] + 0.1
        assert (out / name / "submission.csv").is_file()


@pytest.mark.slow
def test_the_demo_fits_a_narrow_terminal(demo):
    lines = demo[0].stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("seconds" in line for line in lines) == 1, "no column is broken over two lines"


@pytest.mark.slow
def test_the_demo_again_uses_its_data_and_prints_json(demo, monkeypatch):
    _, out = demo
    monkeypatch.setattr(registry, "BUILT_IN", ("cells", "lesions"))
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/data-0/**/*")}
    done = run("demo", "-o", out, "--json", "-q")
    pages = json.loads(done.stdout)
    assert (done.exit_code, done.stderr) == (0, "")
    assert [page["challenge"] for page in pages] == ["cells", "lesions"]
    for page in pages:
        known = json.loads((out / page["challenge"] / "score.json").read_text())
        assert (page["score"], page["empty_score"], page["count"]) == (
            known["score"],
            known["empty_score"],
            known["count"],
        )
        assert Path(page["submission"]).is_file()
    assert {path: path.stat().st_mtime_ns for path in out.glob("*/data-0/**/*")} == before


def test_too_little_memory_is_said(cells, tmp_path):
    code = "from unittest import mock\nfrom handlens import cli, pipeline\nwith mock.patch.object(pipeline, 'solve', side_effect=MemoryError): cli.main()"
    command = [sys.executable, "-c", code, "solve", "cells", str(cells), "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        1,
        "handlens: not enough memory for this: use fewer workers, a smaller input, or a larger machine\n",
    )


# --- json for programs ------------------------------------------------------------------------------------------------


def test_json_of_sample_solve_and_predict(tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    sampled = run("sample", "cells", data, "--cases", 2, "--size", 96, "--seed", 5, "--json")
    assert json.loads(sampled.stdout) == {
        "folder": str(data),
        "truth": str(data / "truth"),
        "cases": 2,
        "seed": 5,
        "size": 96,
    }
    assert sampled.stderr == ""
    solved = run("solve", "cells", data, "-o", out, "--json")
    page = json.loads(solved.stdout)
    known = json.loads((out / "score.json").read_text())
    assert (page["submission"], page["count"], page["valid"]) == (str(out / "submission.csv"), 2, True)
    assert (page["score"], page["parts"], page["notes"]) == (known["score"], known["parts"], known["notes"])
    assert "cases" not in page
    model = write_dark_is_cell(tmp_path / "model")
    predicted = json.loads(run("predict", model, data, "-o", tmp_path / "other", "--json").stdout)
    assert predicted["challenge"] == "cells"
    assert predicted["score"] == json.loads((tmp_path / "other" / "score.json").read_text())["score"]


def test_json_without_labels_has_no_score(cells, tmp_path):
    page = json.loads(run("solve", "cells", cells / "test", "-o", tmp_path / "out", "--json").stdout)
    assert (page["score"], page["empty_score"], page["valid"]) == (None, None, True)


@pytest.mark.parametrize(
    "command", ["list", "sample", "data", "check", "score", "solve", "train", "judge", "inspect", "demo"]
)
def test_every_command_whose_answer_a_program_may_read_prints_json(command):
    for found in leaves(cli.commands[command]):
        assert "--json" in {name for option in found.params for name in option.opts}


# --- quiet and verbose ------------------------------------------------------------------------------------------------


def leaves(command):
    """The command, or its sub-commands for the challenges."""
    if not isinstance(command, click.Group):
        return [command]
    context = click.Context(command)
    return [command.get_command(context, name) for name in command.list_commands(context)]


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_every_command_may_be_quiet_or_verbose(name):
    found = leaves(cli.commands[name])
    assert found
    for command in [cli, *found]:
        names = {flag for option in command.params for flag in option.opts}
        assert {"-q", "--quiet", "-v", "--verbose"} <= names


def test_quiet_leaves_results_and_errors_alone(cells, tmp_path):
    for place in (["-q", "solve", "cells"], ["solve", "cells", "-q"]):
        done = run(*place, cells, "-o", tmp_path / "out")
        assert (done.exit_code, done.stderr) == (0, "")
        assert "2 cases, valid" in done.stdout
    done = run("sample", "cells", tmp_path / "data", "--cases", 1, "--size", 96, "--quiet")
    assert (done.exit_code, done.output) == (0, "")
    failed = handlens("solve", "cells", tmp_path / "none", "-o", tmp_path / "x", "-q")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == f"handlens: {tmp_path / 'none'}: no such file or folder\n"


def test_verbose_says_how_and_shows_where_an_error_came_from(cells, tmp_path):
    usual, verbose = (run("solve", "cells", cells, "-o", tmp_path / "out", *more) for more in ([], ["-v"]))
    assert "settings: CellsSettings(" in verbose.stderr
    assert "settings:" not in usual.stderr
    failed = handlens("-v", "solve", "cells", tmp_path / "none", "-o", tmp_path / "x")
    assert failed.returncode == 1
    assert "Traceback" in failed.stderr
    assert failed.stderr.endswith(f"handlens: {tmp_path / 'none'}: no such file or folder\n")


# --- solve ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["forgery", "cells", "lesions"])
def test_a_single_image_is_solved(name, tmp_path):
    write_png(tmp_path / "one.png", np.random.default_rng(0).integers(0, 256, (96, 96, 3), dtype=np.uint8))
    done = run("solve", name, tmp_path / "one.png", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.exception
    assert "1 case, valid" in done.stdout
    assert "no score: there are no labels for these cases" in done.stdout
    rows = (tmp_path / "out" / "submission.csv").read_text().splitlines()
    assert len(rows) == 2
    assert rows[1].startswith("one")


def test_the_baseline_is_a_solver(cells, tmp_path):
    done = run("solve", "cells", cells, "-o", tmp_path / "out", "--solver", "baseline")
    assert done.exit_code == 0, done.exception
    assert json.loads((tmp_path / "out" / "score.json").read_text())["solver"] == "baseline"
    for name in registry.BUILT_IN:
        assert ("--solver" in run("solve", name, "--help").output) == (name != "forgery")
    refused = handlens("solve", "forgery", cells, "-o", tmp_path / "x", "--solver", "baseline", "--part", "test")
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr


@pytest.mark.slow
def test_a_folder_with_other_results_is_refused_until_overwrite_is_said(cells, tmp_path):
    out = tmp_path / "out"
    assert run("solve", "cells", cells, "-o", out, "--turns", 1).exit_code == 0
    before = (out / "submission.csv").read_bytes()
    refused = handlens("solve", "cells", cells, "-o", out, "--turns", 8)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"handlens: {out}: holds the results of another run")
    assert "or pass --overwrite" in refused.stderr
    assert (out / "submission.csv").read_bytes() == before
    assert run("solve", "cells", cells, "-o", out, "--turns", 8, "--overwrite").exit_code == 0
    assert run("solve", "cells", cells, "-o", out, "--turns", 8).exit_code == 0, "the same again"


def test_what_is_said_about_a_model_is_said_once(cells, tmp_path):
    model = write_dark_is_cell(tmp_path / "model")
    plan = json.loads((model / "plan.json").read_text())
    (model / "plan.json").write_text(json.dumps({**plan, "licence": "CC-BY-NC-SA-4.0"}))
    challenge = registry.challenge("cells")
    write_trained_on(model, challenge.read_cases(cells, "test")[:1])
    done = run("solve", "cells", cells, "-o", tmp_path / "a", "--model", model)
    assert done.output.count("trained on non-commercial data (CC-BY-NC-SA-4.0)") == 1
    assert done.stderr.count("the model was trained on 1 of these 2 cases: this score says little about others") == 1
    write_trained_on(model, challenge.read_cases(cells, "train"))
    done = run("predict", model, cells, "-o", tmp_path / "b")
    assert done.output.count("non-commercial") == 1
    assert "this score says little" not in done.output


# --- score and judge find labels beside the test cases ---------------------------------------------------------------


@pytest.fixture(scope="module")
def lesions(tmp_path_factory):
    """A data folder whose test part has its labels in test/labels.csv."""
    folder = tmp_path_factory.mktemp("lesions") / "data"
    pipeline.sample(registry.challenge("lesions"), folder, seed=1, cases=3, size=64)
    (folder / "truth" / "labels.csv").replace(folder / "test" / "labels.csv")
    shutil.rmtree(folder / "truth")
    return folder


def test_score_finds_labels_beside_the_test_cases(lesions, tmp_path):
    solved = run("solve", "lesions", lesions, "-o", tmp_path / "out")
    assert "score " in solved.stdout
    scored = run("score", "lesions", tmp_path / "out" / "submission.csv", "--truth", lesions)
    assert scored.exit_code == 0, scored.exception
    assert scored.stdout.split()[1] in solved.stdout
    assert (
        run("score", "lesions", tmp_path / "out" / "submission.csv", "--truth", lesions, "--part", "test").exit_code
        == 0
    )


@pytest.mark.slow
def test_judge_finds_labels_beside_the_test_cases(lesions, tmp_path):
    model = tmp_path / "an_entry_with_a_long_name_of_a_team_that_likes_long_names.onnx"
    shutil.copy(registry.challenge("lesions").rules.with_name("model") / "model.onnx", model)
    (tmp_path / "broken.onnx").write_bytes(b"nothing")
    done = handlens("judge", "lesions", model.name, "broken.onnx", "--data", lesions, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("3 cases, 2 models\n")
    assert model.name in done.stdout, "where it is no terminal, no name is broken"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([model.name, "broken.onnx"]), "no page unasked"
    asked = ("--json", "-o", "standings.html")
    done = handlens("judge", "lesions", model, "--data", lesions, *asked, cwd=tmp_path)
    page = json.loads(done.stdout)
    assert "report: standings.html" in done.stderr
    assert json.loads((tmp_path / "standings.json").read_text())["kind"] == "judge"
    assert (page["cases"], page["models"][0]["rank"]) == (3, 1)


@pytest.mark.parametrize(
    ("there", "page"),
    [("board.html", "board.html"), ("board.json", "board.html"), ("entry.onnx", "entry.onnx"), ("pipe", "pipe.html")],
)
def test_a_page_replaces_no_file_of_others(lesions, tmp_path, there, page):
    if there == "pipe":
        os.mkfifo(tmp_path / "pipe.json")
    else:
        (tmp_path / there).write_text('{"mine": 1}')
    (tmp_path / "submission.csv").write_text("x\n")
    for command in (
        ("judge", "lesions", tmp_path / "entry.onnx", "--data", lesions),
        ("score", "lesions", tmp_path / "submission.csv", "--truth", lesions),
    ):
        done = run(*command, "-o", tmp_path / page)
        assert done.exit_code == 1
        assert re.search("name another page|name one that ends in .html|a named pipe", str(done.exception))
    assert there == "pipe" or (tmp_path / there).read_text() == '{"mine": 1}'


def test_a_score_leaves_files_of_others_beside_the_submission_alone(lesions, tmp_path):
    run("solve", "lesions", lesions, "-o", tmp_path / "out")
    mine = tmp_path / "out" / "submission.report.json"
    mine.write_text("[]")
    scored = run("score", "lesions", tmp_path / "out" / "submission.csv", "--truth", lesions)
    assert scored.exit_code == 0, scored.exception
    assert "no page: " in scored.stderr
    assert mine.read_text() == "[]"
    mine.unlink()
    for _ in range(2):  # its own page is replaced
        scored = run("score", "lesions", tmp_path / "out" / "submission.csv", "--truth", lesions)
        assert "report: " in scored.stderr


@pytest.mark.parametrize("terminal", [True, False])
def test_standings_fit_a_narrow_terminal_whatever_entries_are_called(capsys, monkeypatch, terminal):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda fallback: os.terminal_size((80, 24)))
    parts = {"Final Score": 0.5, "Prediction Score": 0.25, "Efficiency": 0.125, "MiB": 12.0, "ms": 7.5}
    parts |= {f"F1 of class {number}": 0.1 for number in range(10)}
    entries = [Judged(Path(f"{'[red]x' * 20}{number}.onnx"), number, "scored", "", parts) for number in range(1, 5)]
    refused = Judged(Path("y" * 90), 0, "refused", "reason " * 40, {}, ("a long note " * 9,))
    print_standings(
        Judgement((*entries, refused), 1200, ("Final Score", "Prediction Score", "Efficiency", "MiB", "ms"))
    )
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    if terminal:
        assert max(map(len, shown.splitlines())) <= 80
    else:
        assert all(str(entry.model) in shown for entry in entries)
        assert max(len(line) for line in shown.splitlines() if "note" in line) <= 80
    assert "[red]x" in shown, "square brackets of a stranger are no markup"
    assert "0.500000" in shown


# --- help and completion ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ink", "cells", "lesions"])
def test_help_of_train_lists_the_fields_of_set(name):
    shown = run("train", name, "--help").output
    assert "Fields for --set:" in shown
    for settings in registry.challenge(name).training_fields:
        for field in fields_of(settings):
            assert f"\n    {field.path} " in shown or f"\n  {field.path} " in shown, field.path
    assert "augmentation." in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_help_fits_a_narrow_terminal(name):
    for challenge in ("", *registry.BUILT_IN) if isinstance(cli.commands[name], click.Group) else ("",):
        shown = run(name, *filter(None, [challenge]), "--help").output
        assert max(map(len, shown.splitlines())) <= 80


def completions(words):
    """What bash offers after these words."""
    done = handlens(
        _HANDLENS_COMPLETE="bash_complete", COMP_WORDS=f"handlens {words}", COMP_CWORD=str(words.count(" ") + 1)
    )
    return {line.partition(",")[2] for line in done.stdout.splitlines()}


@pytest.mark.slow
def test_the_shell_completes_commands_challenges_and_options():
    script = handlens(_HANDLENS_COMPLETE="bash_source")
    assert script.returncode == 0
    assert "_handlens_completion" in script.stdout
    assert completions("") >= set(cli.commands)
    assert completions("so") == {"solve"}
    assert completions("solve ") >= set(registry.BUILT_IN)
    assert completions("train ") == {"forgery", "ink", "cells", "lesions"}
    assert completions("judge ") == {"lesions"}
    assert "--overwrite" in completions("solve cells --")


def test_only_shipped_models_are_listed():
    shown = run("list", "--models")
    pages = json.loads(run("list", "--models", "--json").stdout)
    assert [page["challenge"] for page in pages] == ["forgery", "forgery", "ink", "ink", "cells", "cells", "lesions"]
    for page in pages:
        assert page["licence"] in shown.output
        place = Path(page["folder"])
        assert (place if page["challenge"] == "forgery" else place / "model.onnx").is_file()
