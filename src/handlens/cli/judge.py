"""The command `judge`: hidden cases and their labels brought together, models judged on them, and the ranked table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handlens.cli.groups import with_options
from handlens.cli.output import print_json, talk
from handlens.errors import DataError, HandlensError, counted
from handlens.types import Case, Challenge, Judged, Judgement, Limits, Part, Progress, Settings, Truth, no_progress

if TYPE_CHECKING:
    from collections.abc import Callable

LIMITS = Limits()
PATH = click.Path(path_type=Path)


def judge_form(challenge: Challenge) -> click.Command:
    """`handlens judge NAME`."""

    @click.command(challenge.name, short_help=challenge.title)
    @click.argument("models", nargs=-1, required=True, type=PATH)
    @click.option("--data", "folder", type=PATH, required=True, help="Data folder with the cases and their labels.")
    @click.option("--part", type=click.Choice(["train", "test"]), help="Part of it  [default: test, else train]")
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
    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    def command(models: tuple[Path, ...], folder: Path, part: Any, as_json: bool, **rest: Any) -> None:
        """Run models that nobody trusts, each in a locked process, and rank them. Exit 1 if one is refused.

        MODELS are ONNX files. Size and time count relative to the others that are given.
        """
        from handlens.progress import bar

        limits = Limits(
            memory_mib=rest.pop("memory_mib"),
            answer_seconds=rest.pop("seconds"),
            total_seconds=60 * rest.pop("minutes"),
        )
        settings = challenge.settings(**rest)
        with bar("judge") as progress:
            judgement = judge(challenge, models, folder, settings, part=part, limits=limits, progress=progress)
        print_json(as_json_page(challenge, judgement)) if as_json else click.echo(table(judgement))
        for gap in judgement.unguarded:
            talk(f"note: not guarded on this machine: {gap}")
        sys.exit(1 if any(entry.rank == 0 for entry in judgement.models) else 0)

    return with_options(command, challenge, "judge")


def judge(
    challenge: Challenge,
    models: Sequence[Path],
    folder: Path,
    settings: Settings,
    *,
    part: Part | None = None,
    limits: Limits = LIMITS,
    progress: Progress = no_progress,
) -> Judgement:
    """Judge models on the labelled cases of a data folder."""
    if challenge.judge is None:
        raise HandlensError(f"{challenge.name} takes no models of others")
    truth = join(challenge, folder, settings, part)
    return challenge.judge(models, truth, settings, limits, progress)


def join(challenge: Challenge, folder: Path, settings: Settings, part: Part | None) -> Truth:
    """The cases as the data folder has them, with all their details, and the labels that its truth has."""
    from handlens import pipeline

    cases = pipeline.read_cases(challenge, folder, part)
    truth = pipeline.open_truth(challenge, folder, settings, part)
    labelled: dict[str, Case] = {case.id: case for case in truth.cases}
    without = [case.id for case in cases if case.id not in labelled]
    surplus = sorted(set(labelled) - {case.id for case in cases})
    if without or surplus:
        odd = f"{without[0]} has no label" if without else f"{surplus[0]} has a label and is no case"
        what = f"{odd} ({counted(len(without) + len(surplus), 'such case')}): add truth/, or say --part train"
        raise DataError(what, file=folder)
    read: Callable[[Case], Any] = truth.read
    return Truth(tuple(cases), lambda case: read(labelled[case.id]))


def as_json_page(challenge: Challenge, judgement: Judgement) -> dict[str, Any]:
    """All that is known, for programs; the rank of a refused model is null."""
    return {
        "challenge": challenge.name,
        "cases": judgement.cases,
        "unguarded": list(judgement.unguarded),
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


def table(judgement: Judgement) -> str:
    """Standings, the other parts beside each other, the refused with their reasons, and notes."""
    scored = [entry for entry in judgement.models if entry.rank]
    refused = [entry for entry in judgement.models if not entry.rank]
    lines = [f"{counted(judgement.cases, 'case')}, {counted(len(judgement.models), 'model')}"]
    if scored:
        header = ["rank", "model", *judgement.columns]
        rows = [[str(entry.rank), _name(entry), *_cells(entry, judgement.columns)] for entry in scored]
        lines += ["", *_aligned([header, *rows])]
        others = [name for name in scored[0].parts if name not in judgement.columns]
        rows = [[name, *(_shown(name, entry.parts[name]) for entry in scored)] for name in others]
        lines += ["", *_aligned([["part", *map(_name, scored)], *rows])] if rows else []
    if refused:
        rows = [[_name(entry), entry.verdict, entry.why] for entry in refused]
        lines += ["", *_aligned([["refused", "verdict", "why"], *rows], left=True)]
    notes = [f"note: {_name(entry)}: {note}" for entry in judgement.models for note in entry.notes]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def _cells(entry: Judged, columns: Sequence[str]) -> list[str]:
    return [_shown(name, entry.parts[name]) for name in columns]


def _shown(name: str, value: float) -> str:
    """Measurements have two places, scores six."""
    return f"{value:.2f}" if name.endswith(("MiB", "ms")) else f"{value:.6f}"


def _name(entry: Judged) -> str:
    """The path as it was given; a stranger may have chosen it, so letters that do more than show are replaced."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(entry.model))


def _aligned(rows: Sequence[Sequence[str]], *, left: bool = False) -> list[str]:
    """Columns of equal width: words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    words = len(widths) if left else 2 if rows[0][0] == "rank" else 1
    return [
        "  ".join(
            cell.ljust(width) if number < words else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
