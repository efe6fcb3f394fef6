"""The command `judge`: untrusted models on labelled cases, and the ranked table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from handlens.cli.groups import ChallengeGroup, with_options
from handlens.cli.options import CLUSTER, PART, PATH
from handlens.cli.output import (
    details,
    make_table,
    message,
    print_json,
    print_table,
    print_wrapped,
    progress_bar,
    with_verbosity,
)
from handlens.cli.score import tell_page
from handlens.errors import counted
from handlens.types import AnyChallenge, Judged, Judgement, Limits

LIMITS = Limits()


def judge_command(challenge: AnyChallenge) -> click.Command:
    """`handlens judge NAME`."""

    @click.command(challenge.name, short_help=challenge.title)
    @click.argument("models", nargs=-1, required=True, type=PATH)
    @click.option("--data", "folder", type=PATH, required=True, help="Data folder with the cases and their labels.")
    @PART
    @click.option(
        "--memory-mib",
        default=LIMITS.memory_mib,
        show_default=True,
        type=click.IntRange(64, 2**20),
        help="Memory that a model may use.",
    )
    @click.option(
        "--seconds",
        default=LIMITS.answer_seconds,
        show_default=True,
        type=click.FloatRange(0.1, 3600),
        help="Time that a model has for one answer.",
    )
    @click.option(
        "--minutes",
        default=LIMITS.total_seconds / 60,
        show_default=True,
        type=click.FloatRange(0.1, 10_000),
        help="Time that a model has for all of them.",
    )
    @CLUSTER
    @click.option("-o", "--out", type=PATH, help="Write the standings as a page too: PAGE.html, PAGE.json beside it.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    def command(
        models: tuple[Path, ...],
        folder: Path,
        part: Any,
        out: Path | None,
        as_json: bool,
        cluster: str | None,
        **rest: Any,
    ) -> None:
        """Run untrusted models, each in a sandbox, and rank them. Exit 1 if one is refused.

        MODELS are ONNX files. Size and time count relative to the others that are given. With --cluster each model is
        run by some worker: times can be compared where the workers are alike.
        """
        from handlens import pipeline
        from handlens.inference.cluster_spec import open_executor
        from handlens.report.page import refuse_foreign_page

        if out:
            refuse_foreign_page(out)  # before hours of work
        limits = Limits(
            memory_mib=rest.pop("memory_mib"),
            answer_seconds=rest.pop("seconds"),
            total_seconds=60 * rest.pop("minutes"),
        )
        settings = challenge.settings(**rest)
        with open_executor(cluster, None, message) as executor, progress_bar("judge") as progress:
            how: dict[str, Any] = {"limits": limits, "executor": executor, "progress": progress}
            judgement = pipeline.judge(challenge, models, folder, settings, part=part, **how)
        print_json(as_json_page(challenge, judgement)) if as_json else print_standings(judgement)
        if out:
            options = [*(["--part", part] if part else []), *pipeline.options_of(settings, "judge")]
            write = partial(pipeline.report_judgement, challenge, judgement, folder, out, options=options)
            tell_page(write)
        for gap in judgement.unguarded:
            message(f"note: not sandboxed on this machine: {gap}")
        for gap in judgement.missing:
            details(f"second layer that this machine does not have: {gap}")
        sys.exit(1 if any(entry.rank == 0 for entry in judgement.models) else 0)

    return with_options(command, challenge, "judge")


def as_json_page(challenge: AnyChallenge, judgement: Judgement) -> dict[str, Any]:
    """All that is known, for programs; the rank of a refused model is null."""
    return {
        "challenge": challenge.name,
        "cases": judgement.cases,
        "unguarded": list(judgement.unguarded),
        "missing_guards": list(judgement.missing),
        "models": [
            {
                "model": str(entry.model),
                "rank": entry.rank or None,
                "verdict": entry.verdict,
                "why": entry.why,
                "parts": dict(entry.parts),
                "notes": list(entry.notes),
            }
            for entry in judgement.models
        ],
    }


def print_standings(judgement: Judgement) -> None:
    """The ranking, the other parts beside each other, the refused with their reasons, and notes."""
    scored = [entry for entry in judgement.models if entry.rank]
    refused = [entry for entry in judgement.models if not entry.rank]
    click.echo(f"{counted(judgement.cases, 'case')}, {counted(len(judgement.models), 'model')}")
    if scored:
        table = make_table(["rank", "model", *judgement.columns], left=2)
        for entry in scored:
            table.add_row(str(entry.rank), _escape(_name(entry)), *_cells(entry, judgement.columns))
        print_table(table, whole=True)
        others = [name for name in scored[0].parts if name not in judgement.columns]
        if others:
            table = make_table(["part", *(_escape(_name(entry)) for entry in scored)])
            for name in others:
                table.add_row(name, *(_shown(name, entry.parts[name]) for entry in scored))
            print_table(table, whole=True)
    if refused:
        table = make_table(["refused", "verdict", "why"], left=3)
        for entry in refused:
            table.add_row(_escape(_name(entry)), entry.verdict, _escape(entry.why))
        print_table(table, whole=True)
    for entry in judgement.models:
        for note in entry.notes:
            print_wrapped(f"note: {_name(entry)}: {note}")


def _escape(text: str) -> str:
    """Text of a stranger, whose square brackets rich would take for markup."""
    from rich.markup import escape

    return escape(text)


def _cells(entry: Judged, columns: Sequence[str]) -> list[str]:
    return [_shown(name, entry.parts[name]) for name in columns]


def _shown(name: str, value: float) -> str:
    """Measurements have two places, scores six."""
    return f"{value:.2f}" if name.endswith(("MiB", "ms")) else f"{value:.6f}"


def _name(entry: Judged) -> str:
    """The path as it was given; a stranger may have chosen it, so letters that do more than show are replaced."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(entry.model))


@click.command()
@click.argument("model", type=PATH)
@click.option("-o", "--out", type=PATH, required=True, help="The file to write.")
@click.option("--overwrite", is_flag=True, help="Replace OUT.")
def pack(model: Path, out: Path, overwrite: bool) -> None:
    """Make one ONNX file of a model whose weights lie in other files.

    MODEL is an ONNX file with external data, as large exports have it. Files outside of its folder are not read.
    """
    from handlens.errors import DataError
    from handlens.sandbox.packing import pack_model

    if out.exists() and not overwrite:
        raise DataError("already there: name another file, or pass --overwrite", file=out)
    number = pack_model(model, out)
    click.echo(f"{out}: {out.stat().st_size:,} bytes, {counted(number, 'constant')} copied in")


def commands() -> list[click.Command]:
    return [
        with_verbosity(pack),
        ChallengeGroup(
            "judge",
            judge_command,
            "NAME MODEL... --data FOLDER [OPTIONS]",
            "Run untrusted models in a sandbox, score and rank them.",
            supports=lambda challenge: challenge.judge is not None,
        ),
    ]
