"""Valid submissions, mutated thousands of times: the verdict must be the plain validator's, and nothing may crash."""

import csv
import io
import random
import re

import pytest
from oracles import submissions as oracle

from handlens import registry
from handlens.io.submissions import read_submission
from handlens.types import Case

ROUNDS = 2_500
SHAPE = (20, 30)
CELL_RULES = {
    "forgery": oracle.lists_are_valid,
    "ink": oracle.filled_pairs_are_valid,
    "cells": oracle.pairs_are_valid,
    "lesions": oracle.probabilities_are_valid,
}
CELLS = {
    "forgery": [("authentic",), ("[1, 4, 9, 2];[100, 7]",), ("[600, 1]",), ("[3,1]",)],
    "ink": [("1 1",), ("5 3 9 2 100 30",), ("600 1",), ("1 600",)],
    "cells": [("",), ("5 3 9 2 100 30",), ("600 1",), ("1 600",)],
    "lesions": [
        ("1", *"000000000"),
        ("0.5", "0.25", "0.25", *"0000000"),
        ("1e-3", "0.999", *"00000000"),
        ("0.1",) * 10,
    ],
}
IDS = ["1", "01", "NA", "a b"]


def valid_file(name):
    codec = registry.challenge(name).codec(registry.challenge(name).settings())
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(codec.header)
    writer.writerows((id, *cells) for id, cells in zip(IDS, CELLS[name], strict=True))
    return stream.getvalue().encode()


def change_bytes(data, dice):
    data = bytearray(data)
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(len(data))
        action = dice.randrange(4)
        if action == 0:
            data[place] = dice.randrange(256)
        elif action == 1:
            del data[place : place + dice.randint(1, 5)]
        elif action == 2:
            data[place:place] = bytes([dice.choice(b'0123456789 ,;"[]\r\n\t\x00-.eE\xff\xc3')])
        else:
            data = data[:place] or bytearray(b"\n")
    return bytes(data)


def change_numbers(data, dice):
    found = list(re.finditer(rb"\d+", data))
    place = dice.choice(found)
    old = int(place.group())
    new = dice.choice(
        [
            old + 1,
            max(0, old - 1),
            0,
            600,
            601,
            2**31,
            2**63,
            10**25,
            -1,
            1.0,
            "01",
            "",
            f" {old} ",
            "1e3",
            "inf",
            "٣",
            "-0.0",
            "0.999",
            "1.001",
            "0.998",
        ]
    )
    return data[: place.start()] + str(new).encode() + data[place.end() :]


def change_rows(data, dice):
    header, *rows = data.split(b"\n")[:-1]
    action = dice.randrange(7)
    if action == 0:
        dice.shuffle(rows)
    elif action == 1:
        rows.append(dice.choice(rows))
    elif action == 2:
        rows.remove(dice.choice(rows))
    elif action == 3:
        rows.insert(dice.randrange(len(rows) + 1), dice.choice([b"", b",", b"x,y", b" ", b'"'] + rows))
    elif action == 4:
        rows = [row + b"," for row in rows]
    elif action == 5:
        header = header[::-1]
    else:
        rows[0], header = header, rows[0]
    return b"\n".join([header, *rows]) + b"\n"


def change_quoting(data, dice):
    ending, quoting = dice.choice(["\n", "\r\n", "\r"]), dice.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
    stream = io.StringIO()
    csv.writer(stream, lineterminator=ending, quoting=quoting).writerows(rows)
    text = stream.getvalue()
    text = text.rstrip("\r\n") if dice.random() < 0.3 else text + ending * dice.randrange(3)
    text = text.replace('"', "'", dice.randrange(2))
    return b"\xef\xbb\xbf" * dice.randrange(2) + text.encode()


MUTATIONS = (change_bytes, change_numbers, change_rows, change_quoting)


@pytest.mark.slow
@pytest.mark.parametrize("name", CELL_RULES)
def test_mutated_submissions_get_the_plain_verdict(name, tmp_path):
    challenge = registry.challenge(name)
    codec = challenge.codec(challenge.settings())
    cases = [Case(id, tmp_path, SHAPE) for id in IDS]
    good = valid_file(name)
    dice = random.Random(name)
    file = tmp_path / "submission.csv"
    verdicts = {True: 0, False: 0}
    for number in range(ROUNDS):
        data = good
        for _ in range(dice.choice([1, 1, 1, 2])):
            try:
                data = dice.choice(MUTATIONS)(data, dice)
            except (csv.Error, UnicodeDecodeError, IndexError, ValueError):
                break  # a second mutation may not fit what the first one left
        file.write_bytes(data)
        submission = read_submission(file, codec, cases)
        expected = oracle.is_valid(data, codec.header, dict.fromkeys(IDS, SHAPE), CELL_RULES[name])
        assert expected == (not submission.problems), (number, data, submission.problems)
        if expected:
            challenge_answers = submission.answers
            assert set(challenge_answers) == set(IDS)
        verdicts[expected] += 1
        assert all(len(str(problem)) < 400 and str(problem).isprintable() for problem in submission.problems)
    assert min(verdicts.values()) > ROUNDS / 20, verdicts  # the mutations must make both kinds


@pytest.mark.parametrize("name", CELL_RULES)
def test_the_unmutated_file_is_valid(name, tmp_path):
    (tmp_path / "submission.csv").write_bytes(valid_file(name))
    challenge = registry.challenge(name)
    cases = [Case(id, tmp_path, SHAPE) for id in IDS]
    assert read_submission(tmp_path / "submission.csv", challenge.codec(challenge.settings()), cases).problems == []


@pytest.mark.parametrize("name", CELL_RULES)
def test_mutated_parquet_never_crashes(name, tmp_path):
    challenge = registry.challenge(name)
    codec = challenge.codec(challenge.settings())
    cases = [Case(id, tmp_path, SHAPE) for id in IDS]
    from handlens.io.submissions import write_cells

    file = tmp_path / "submission.parquet"
    write_cells(file, codec, [(id, *cells) for id, cells in zip(IDS, CELLS[name], strict=True)])
    good = file.read_bytes()
    assert read_submission(file, codec, cases).problems == []
    dice = random.Random(name)
    for _ in range(300):
        file.write_bytes(change_bytes(good, dice))
        for problem in read_submission(file, codec, cases).problems:
            assert len(str(problem)) < 400
