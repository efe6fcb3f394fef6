"""Commands about submissions: `check` and `score`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handlens.cli.groups import ChallengeGroup, with_options
from handlens.cli.output import JSON, print_json, print_score

if TYPE_CHECKING:
    from handlens.types import AnyChallenge

PATH = click.Path(path_type=Path)
PART = click.option(
    "--part", type=click.Choice(["train", "test"]), help="Part of the folder  [default: test, else train]"
)


def _check(challenge: AnyChallenge) -> click.Command:
    @click.command(challenge.name, short_help=challenge.title)
    @click.argument("file", type=PATH)
    @click.option("--data", "folder", type=PATH, required=True, help="Data folder with the cases.")
    @PART
    @JSON
    def command(file: Path, folder: Path, part: Any, as_json: bool, **options: Any) -> None:
        """Check whether a submission is valid and list every problem; needs no labels. Exit 1 if it is not."""
        from handlens import pipeline
        from handlens.errors import describe

        problems = pipeline.check(challenge, file, folder, challenge.settings(**options), part)
        if as_json:
            print_json({"valid": not problems, "problems": [problem.as_json() for problem in problems]})
        else:
            click.echo(
                describe(f"{file.name or file} cannot be scored", problems) if problems else f"{file.name} is valid"
            )
        sys.exit(1 if problems else 0)

    return with_options(command, challenge, "check")


def _score(challenge: AnyChallenge) -> click.Command:
    @click.command(challenge.name, short_help=f"{challenge.title}: {challenge.metric}")
    @click.argument("file", type=PATH)
    @click.option("--truth", type=PATH, required=True, help="Data folder with labels, or the contest's solution CSV.")
    @click.option("--cases", is_flag=True, help="Print the score of every case too.")
    @PART
    @JSON
    def command(file: Path, truth: Path, cases: bool, part: Any, as_json: bool, **options: Any) -> None:
        """Print the exact score of a submission and its parts."""
        from handlens import pipeline
        from handlens.errors import SubmissionError

        try:
            result = pipeline.score(challenge, file, truth, challenge.settings(**options), part)
        except SubmissionError as error:
            if as_json:
                print_json({"valid": False, "problems": [problem.as_json() for problem in error.problems]})
            raise
        page = pipeline.score_json(challenge, result)
        if not cases:
            page.pop("cases")
        print_json({"valid": True, **page}) if as_json else print_score(page)

    return with_options(command, challenge, "score")


def commands() -> list[click.Command]:
    return [
        ChallengeGroup(
            "check",
            _check,
            "NAME FILE --data FOLDER [OPTIONS]",
            "Check whether a submission is valid; needs no labels.",
        ),
        ChallengeGroup(
            "score", _score, "NAME FILE --truth FOLDER_OR_CSV [OPTIONS]", "Print the exact score of a submission."
        ),
    ]
