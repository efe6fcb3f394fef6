"""The commands as a person types them: output, exit status, errors."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from handlens import registry

EXAMPLES = {  # a good table for made-up truth, small enough to write by hand
    "forgery": ("case_id,annotation,shape\n1,authentic,authentic\n2,\"[1, 4]\",\"[9, 9]\"\n", 'case_id,annotation\n2,"[1, 4]"\n1,authentic\n'),
    "ink": ("Id,Predicted,height,width\na,1 4,9,9\n", "Id,Predicted\na,1 4\n"),
    "cells": ("img,pixels\n0,1 4\n", "img,pixels\n0,1 4\n"),
    "lesions": ("filename,label\na.jpg,MEL\n", "filename,AK,BCC,SK,SCC,VASC,DF,NV,NON,MEL,ON\na.jpg,0,0,0,0,0,0,0,0,1,0\n"),
}  # fmt: skip


def handlens(*args, cwd=None):
    command = [sys.executable, "-c", "from handlens.cli import main; main()", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)


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
    listed = json.loads(handlens("list", "--json").stdout)
    assert [row["name"] for row in listed] == registry.names()
    for row in listed:
        assert all(row[field] in plain.stdout for field in ("name", "title", "asks", "metric"))


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
    assert "im/00.png: not a readable picture" in bad.stdout
    assert json.loads(handlens("data", "cells", tmp_path, "--json").stdout)["problems"][0]["file"] == "im/00.png"


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (["score", "nope", "x"], 2, "'nope' is not a challenge; there are forgery, ink, cells, lesions"),
        (["rules", "nope"], 2, "'nope' is not a challenge"),
        (["sample", "cells", "x", "--seed", "-1"], 2, "Invalid value for '--seed'"),
        (["score", "lesions", "x", "--truth", "y", "--size-mb", "-3"], 2, "Invalid value for '--size-mb'"),
        (["score", "cells", "none.csv", "--truth", "none"], 1, "none: no such file or folder"),
        (["check", "cells", "none.csv", "--data", "none"], 1, "none: no such folder"),
        (["data", "ink", "none"], 1, "none: no such folder"),
        (["solve", "cells", "none", "-o", "out"], 1, "none: no such folder"),
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


def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    assert handlens("sample", "forgery", data, "--cases", 6, "--size", 400).returncode == 0
    command = [
        sys.executable,
        "-c",
        "from handlens.cli import main; main()",
        "solve",
        "forgery",
        str(data),
        "-o",
        str(out),
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    journal = out / "answers.jsonl"
    deadline = time.monotonic() + 100
    while not (journal.is_file() and journal.read_bytes().count(b"\n") >= 2) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in talk) == (130, False)
    assert "the same command goes on from here" in talk
    assert handlens("solve", "forgery", data, "-o", out).returncode == 0
    assert sorted(os.listdir(out)) == ["score.json", "submission.csv"]


def test_data_shows_every_problem(tmp_path):
    (tmp_path / "im").mkdir()
    for number in range(25):
        (tmp_path / "im" / f"{number:02d}.png").write_bytes(b"nothing")
    shown = handlens("data", "cells", tmp_path).stdout
    assert all(f"im/{number:02d}.png" in shown for number in range(25))


def test_the_demo_solves_all_four_and_ends_in_a_table(tmp_path):
    started = time.monotonic()
    done = handlens("demo", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started < 120
    for name in registry.BUILT_IN:
        assert f"│ {name}" in done.stdout
        page = json.loads((tmp_path / "out" / name / "score.json").read_text())
        assert page["score"] > page["empty_score"] + 0.1
        assert (tmp_path / "out" / name / "submission.csv").is_file()
    again = handlens("demo", "-o", tmp_path / "out")
    assert again.returncode == 0


def test_too_little_memory_is_said(cells, tmp_path):
    code = "from unittest import mock\nfrom handlens import cli, pipeline\nwith mock.patch.object(pipeline, 'solve', side_effect=MemoryError): cli.main()"
    command = [sys.executable, "-c", code, "solve", "cells", str(cells), "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "handlens: not enough memory for this input\n")
