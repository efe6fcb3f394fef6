"""Commands about submissions: `check`, `score`, `encode` and `decode`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handlens.cli.groups import ChallengeGroup, with_options
from handlens.cli.options import CASES_DATA, JSON, PART, PATH, REPORT
from handlens.cli.output import Verbosity, fail, message, print_json, print_score
from handlens.errors import HandlensError, counted

if TYPE_CHECKING:
    from handlens.types import AnyChallenge


def wanted(report: bool | None, as_json: bool) -> bool:
    """Whether a page is made: as asked for; otherwise for people, and not for programs."""
    return not as_json if report is None else report


def _check(challenge: AnyChallenge) -> click.Command:
    @click.command(challenge.name, short_help=challenge.title)
    @click.argument("file", type=PATH)
    @CASES_DATA
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
    @REPORT
    @click.option("-o", "--out", type=PATH, help="The page to write  [default: FILE.report.html beside FILE]")
    @JSON
    def command(
        file: Path,
        truth: Path,
        cases: bool,
        part: Any,
        report: bool | None,
        out: Path | None,
        as_json: bool,
        **options: Any,
    ) -> None:
        """Print the exact score of a submission and its parts, and make a page that shows why.

        A file that cannot be scored gets its page too, with the offending lines.
        """
        from handlens import pipeline
        from handlens.errors import SubmissionError

        target = _page_of(file, out) if out or wanted(report, as_json) else None
        settings = challenge.settings(**options)
        try:
            result = pipeline.score(challenge, file, truth, settings, part)
        except SubmissionError as error:
            if as_json:
                print_json({"valid": False, "problems": [problem.as_json() for problem in error.problems]})
            if target is None or Verbosity.level > 0:
                raise
            fail(f"handlens: {error}")
            tell_page(partial(pipeline.report_refused, challenge, file, truth, error, target))
            sys.exit(1)
        page = pipeline.score_json(challenge, result)
        if not cases:
            page.pop("cases")
        print_json({"valid": True, **page}) if as_json else print_score(page)
        if target:
            how = partial(pipeline.report_score, challenge, file, truth, result, settings, part, target)
            tell_page(how)

    return with_options(command, challenge, "score")


def _page_of(file: Path, out: Path | None) -> Path | None:
    """Where the page goes: as asked for, else beside the submission, unless a file of others has that name."""
    from handlens.errors import DataError
    from handlens.io.gate import RemotePath
    from handlens.report.page import refuse_foreign_page

    name = f"{file.stem}.report.html"
    target = out or (Path(name) if isinstance(file, RemotePath) else file.with_name(name))
    try:
        refuse_foreign_page(target)
    except DataError as error:
        if out:
            raise
        message(f"no page: {error}")
        return None
    return target


def tell_page(write: Callable[[], Path]) -> None:
    """Write a page and say where it is; a folder that cannot be written to costs the page, not the score."""
    try:
        page = write()
    except (OSError, HandlensError) as error:
        message(f"no page: {error}")
    else:
        message(f"report: {page}")


def _encode(challenge: AnyChallenge) -> click.Command:
    @click.command(challenge.name, short_help=challenge.title)
    @click.argument("masks", type=PATH)
    @CASES_DATA
    @click.option("-o", "--out", "file", type=PATH, required=True, help="The submission, CSV or Parquet.")
    @PART
    @JSON
    def command(masks: Path, folder: Path, file: Path, part: Any, as_json: bool, **options: Any) -> None:
        """Make a valid submission from mask images: MASKS/ID.png, .tif or .npy, for every case.

        Where a case may have several instances, a label image, an array (N, H, W), or ID_1.png, ID_2.png and so on.
        """
        from handlens import pipeline

        count = pipeline.encode_masks(challenge, masks, folder, file, challenge.settings(**options), part)
        if as_json:
            print_json({"submission": str(file), "count": count, "valid": True})
        else:
            click.echo(f"{file}: {counted(count, 'case')}, valid")

    return with_options(command, challenge, "encode")


def _decode(challenge: AnyChallenge) -> click.Command:
    @click.command(challenge.name, short_help=challenge.title)
    @click.argument("file", type=PATH)
    @CASES_DATA
    @click.option("-o", "--out", "masks", type=PATH, required=True, help="New folder for the masks.")
    @PART
    @JSON
    def command(file: Path, folder: Path, masks: Path, part: Any, as_json: bool, **options: Any) -> None:
        """Write what a submission says as mask images; `encode` of them gives the same submission."""
        from handlens import pipeline

        count = pipeline.decode_masks(challenge, file, folder, masks, challenge.settings(**options), part)
        if as_json:
            print_json({"masks": str(masks), "count": count})
        else:
            click.echo(f"{masks}: masks of {counted(count, 'case')}")

    return with_options(command, challenge, "decode")


def _has_masks(challenge: AnyChallenge) -> bool:
    return challenge.masks is not None


def commands() -> list[click.Command]:
    return [
        ChallengeGroup(
            "encode",
            _encode,
            "NAME MASKS --data FOLDER -o FILE [OPTIONS]",
            "Make a submission from mask images.",
            supports=_has_masks,
        ),
        ChallengeGroup(
            "decode",
            _decode,
            "NAME FILE --data FOLDER -o MASKS [OPTIONS]",
            "Write a submission as mask images.",
            supports=_has_masks,
        ),
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
