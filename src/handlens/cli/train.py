"""The command `train`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handlens.cli.groups import ChallengeGroup, fields_help, instead_option, with_options
from handlens.cli.options import JSON, PATH
from handlens.cli.output import message, print_json, progress_bar, shown
from handlens.cli.surroundings import exit_status

if TYPE_CHECKING:
    from handlens.types import AnyChallenge


def _train(challenge: AnyChallenge) -> click.Command:
    @click.command(challenge.name, short_help=challenge.title, epilog=fields_help(challenge))
    @click.argument("folder", type=PATH)
    @click.option("-o", "--out", "run", type=PATH, required=True, help="Folder for the trained model.")
    @JSON
    def command(folder: Path, run: Path, as_json: bool, **options: Any) -> None:
        """Train on the labelled cases of a data folder; print out-of-fold scores."""
        _run(challenge, folder, run, challenge.settings(**options), as_json)

    return with_options(command, challenge, "train")


def _run(challenge: AnyChallenge, folder: Path, run: Path, settings: Any, as_json: bool) -> None:
    """Train, print the numbers, and say after Ctrl-C what is there."""
    from handlens import pipeline

    try:
        with progress_bar(challenge.name) as progress:
            numbers = pipeline.train(challenge, folder, run, settings=settings, progress=progress)
    except KeyboardInterrupt as error:
        usable = f"; {run / 'model.onnx'} is what was learned so far" if (run / "model.onnx").exists() else ""
        message(f"\nstopped{usable}; handlens train --resume {run} resumes from here")
        sys.exit(exit_status(error))
    if as_json:
        print_json(dict(numbers))
    else:
        width = max(map(len, numbers), default=0)
        for name, value in numbers.items():
            click.echo(f"{name:{width}}  {shown(value)}")
    message(f"{run}: trained; use it by handlens solve {challenge.name} DATA -o OUT --model {run}")
    if not as_json:
        message(f"report: {pipeline.report_training(challenge, run)}")


def _resume(_context: click.Context, run: Path) -> None:
    """Resume a training that was stopped or killed, with its own settings."""
    from handlens import pipeline, registry

    name, folder, settings = pipeline.read_training(run)
    challenge = registry.challenge(name)
    _run(challenge, folder, run, challenge.settings(**settings), as_json=False)


def commands() -> list[click.Command]:
    resume = instead_option("--resume", "RUN", "Resume a training that was stopped or killed.", _resume)
    return [
        ChallengeGroup(
            "train",
            _train,
            "NAME FOLDER -o RUN [OPTIONS]  or  --resume RUN",
            "Train a model on a data folder, for `solve --model`.",
            supports=lambda challenge: challenge.train is not None,
            params=[resume],
        )
    ]
