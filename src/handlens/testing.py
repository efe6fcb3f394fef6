"""The contract that every challenge keeps, for ours and for plug-ins: `check_challenge(CHALLENGE, folder)`."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handlens import pipeline
from handlens.errors import HandlensError, SubmissionError
from handlens.io.submissions import read_submission, write_cells, write_submission
from handlens.settings import Settings
from handlens.types import AnyChallenge, Case, Codec, Truth


class ContractError(AssertionError):
    """A promise that a challenge does not keep."""


@dataclass(frozen=True, slots=True)
class World:
    """A challenge, a small synthetic data set of it, and a folder to write in."""

    challenge: AnyChallenge
    data: Path
    scratch: Path

    @property
    def settings(self) -> Settings:
        settings: Settings = self.challenge.settings()
        return settings

    @property
    def codec(self) -> Codec[Any]:
        return self.challenge.codec(self.settings)

    @property
    def truth(self) -> Truth[Any]:
        return pipeline.open_truth(self.challenge, self.data, self.settings)

    @property
    def cases(self) -> list[Case]:
        return pipeline.read_cases(self.challenge, self.data)

    def perfect(self) -> dict[str, Any]:
        truth = self.truth
        return {case.id: self.challenge.perfect(truth.read(case), case, self.settings) for case in truth.cases}

    def empty(self) -> dict[str, Any]:
        return {case.id: self.challenge.empty(case, self.settings) for case in self.cases}

    def rows(self) -> list[tuple[str, ...]]:
        """The perfect submission as text, without its header."""
        answers = self.perfect()
        return [(case.id, *self.codec.format(answers[case.id], case)) for case in self.cases]

    def score(self, answers: dict[str, Any], suffix: str = "csv") -> float:
        """Through a file, as a user would."""
        file = self.scratch / f"answers.{suffix}"
        write_submission(file, self.codec, self.cases, answers)
        return pipeline.score(self.challenge, file, self.data, self.settings).value


def make_world(challenge: AnyChallenge, folder: Path, *, seed: int = 0, cases: int = 3, size: int = 96) -> World:
    """Write the sample that the promises are checked on."""
    (folder / "scratch").mkdir(parents=True)
    pipeline.sample(challenge, folder / "data", seed=seed, cases=cases, size=size)
    return World(challenge, folder / "data", folder / "scratch")


def check_challenge(challenge: AnyChallenge, folder: Path) -> None:
    """Check every promise on synthetic data in an empty folder; ContractError names the first that is broken."""
    world = make_world(challenge, folder)
    for promise in PROMISES:
        promise(world)


def the_same_seed_gives_the_same_bytes(world: World) -> None:
    def digest(seed: int, name: str) -> str:
        pipeline.sample(world.challenge, world.scratch / name, seed=seed, cases=2, size=96)
        return _digest(world.scratch / name)

    first = digest(5, "first")
    _demand(first == digest(5, "again"), "write_sample gave other bytes for the same seed")
    _demand(first != digest(6, "other"), "write_sample gave the same bytes for another seed")


def the_sample_has_no_problems(world: World) -> None:
    problems = world.challenge.survey(world.data).problems
    _demand(not problems, f"survey finds problems in the sample: {problems[:1]}")
    train = world.challenge.read_cases(world.data, "train")
    _demand(bool(train), "the sample has no training cases")


def the_truth_is_about_the_test_cases(world: World) -> None:
    asked, known = [case.id for case in world.cases], [case.id for case in world.truth.cases]
    _demand(len(asked) == len(set(asked)), "two cases have the same id")
    _demand(sorted(asked) == sorted(known), f"the truth knows {sorted(known)[:3]}, the test part {sorted(asked)[:3]}")


def the_truth_scores_best(world: World) -> None:
    result = world.challenge.score(world.perfect(), world.truth, world.settings)
    low = [case.id for case in result.cases if case.value != 1]
    _demand(not low, f"the truth as an answer is not worth 1 for {low[:3]}")
    _demand(world.score(world.perfect()) == result.value, "writing and reading the truth changes its score")
    _demand(world.score(world.empty()) < result.value, "the empty answer scores as well as the truth")


def swapped_answers_score_worse(world: World) -> None:
    perfect = world.perfect()
    mixed = dict(zip(perfect, [*list(perfect.values())[1:], next(iter(perfect.values()))], strict=True))
    best = world.challenge.score(perfect, world.truth, world.settings).value
    value = world.challenge.score(mixed, world.truth, world.settings).value
    moved = any(_text(world, mixed, case) != _text(world, perfect, case) for case in world.cases)
    _demand(value < best or not moved, f"answers given to the wrong cases score {value}, the truth {best}")


def row_order_does_not_matter(world: World) -> None:
    file = world.scratch / "reversed.csv"
    write_cells(file, world.codec, reversed(world.rows()))
    value = pipeline.score(world.challenge, file, world.data, world.settings).value
    _demand(value == world.score(world.perfect()), "the order of the rows changes the score")


def parquet_equals_csv(world: World) -> None:
    value = world.score(world.perfect(), "parquet")
    _demand(value == world.score(world.perfect()), "Parquet scores otherwise than CSV")


def the_empty_answer_is_valid(world: World) -> None:
    write_submission(world.scratch / "empty.csv", world.codec, world.cases, world.empty())
    problems = pipeline.check(world.challenge, world.scratch / "empty.csv", world.data, world.settings)
    _demand(not problems, f"the empty answer is refused: {problems[:1]}")


def broken_cells_are_refused_with_their_line(world: World) -> None:
    for kind, cells in world.codec.refused.items():
        rows = world.rows()
        rows[1] = (rows[1][0], *cells)
        write_cells(world.scratch / "broken.csv", world.codec, rows)
        _demand_refused(world, f"a cell with {kind}", line=3)


def broken_files_are_refused(world: World) -> None:
    for kind, line, table in _broken_tables([world.codec.header, *world.rows()]):
        with (world.scratch / "broken.csv").open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows(table)
        _demand_refused(world, kind, line)
    for content in (b"", b"\x00\xff\xfe\x80" * 99, b"PAR1" + bytes(99), b"\x1f\x8b\x08", b'"'):
        (world.scratch / "broken.csv").write_bytes(content)
        _demand_refused(world, f"a file of {len(content)} bytes that starts with {content[:4]!r}", line=None)


def solving_gives_a_valid_submission(world: World) -> None:
    first = pipeline.solve(world.challenge, world.data, world.scratch / "solve")
    content = first.submission.read_bytes()
    _demand(first.score is not None, "solve did not find the truth of its own sample")
    workers = 2 if world.challenge.parallel else 1
    again = pipeline.solve(world.challenge, world.data, world.scratch / "solve-again", workers=workers)
    _demand(content == again.submission.read_bytes(), "solve gave other answers the second time")


def the_rules_are_there(world: World) -> None:
    rules = world.challenge.rules
    _demand(rules.is_file() and bool(rules.read_text(encoding="utf-8").strip()), f"no rules in {rules}")


def a_predictor_takes_a_path(world: World) -> None:
    """As in a notebook: `handlens.load(NAME)("picture.png")`, given as text too."""
    predictor, case = pipeline.load(world.challenge), world.cases[0]
    for path in (case.path, str(case.path)):
        _demand(predictor(path) is not None, f"the predictor gave nothing for {path}")
    missing = case.path.with_name("nothere" + case.path.suffix)
    try:
        predictor(missing)
    except HandlensError:
        return
    except Exception as error:
        raise ContractError(f"a path without a file raised {error!r}, not a HandlensError") from error
    raise ContractError(f"the predictor answered for {missing}, which is not there")


PROMISES: tuple[Callable[[World], None], ...] = (
    the_same_seed_gives_the_same_bytes,
    the_sample_has_no_problems,
    the_truth_is_about_the_test_cases,
    the_truth_scores_best,
    swapped_answers_score_worse,
    row_order_does_not_matter,
    parquet_equals_csv,
    the_empty_answer_is_valid,
    broken_cells_are_refused_with_their_line,
    broken_files_are_refused,
    solving_gives_a_valid_submission,
    the_rules_are_there,
    a_predictor_takes_a_path,
)


def _broken_tables(good: list[tuple[str, ...]]) -> Iterator[tuple[str, int | None, list[tuple[str, ...]]]]:
    """Kind, the line that must be named (None: no line), and the table."""
    header, first, *rest = good
    yield "a missing row", None, [header, *rest]
    yield "a row twice", len(good) + 1, [*good, first]
    yield "an unknown id", len(good) + 1, [*good, ("no such case", *first[1:])]
    yield "an id with a space", 2, [header, (f" {first[0]}", *first[1:]), *rest]
    yield "no header", 1, [first, *rest]
    yield "no rows", None, [header]
    yield "a wrong column name", 1, [("nonsense", *header[1:]), first, *rest]
    yield "an extra column", 1, [(*row, "x") for row in good]
    yield "a missing column", 1, [row[:-1] for row in good]
    yield "a row with too many fields", 2, [header, (*first, "x"), *rest]
    yield "a row with too few fields", 2, [header, first[:-1], *rest]


def _demand_refused(world: World, kind: str, line: int | None) -> None:
    file = world.scratch / "broken.csv"
    problems = read_submission(file, world.codec, world.cases).problems
    _demand(bool(problems), f"{kind} is accepted")
    if line:
        named = any(problem.line == line for problem in problems)
        _demand(named, f"{kind} on line {line} is reported as {problems[0]}")
    try:
        pipeline.score(world.challenge, file, world.data, world.settings)
    except SubmissionError:
        return
    raise ContractError(f"{kind} is scored")


def _text(world: World, answers: dict[str, Any], case: Case) -> tuple[str, ...]:
    return world.codec.format(answers[case.id], case)


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _demand(condition: bool, what: str) -> None:
    if not condition:
        raise ContractError(what)
