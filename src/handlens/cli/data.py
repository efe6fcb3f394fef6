"""Commands about challenges and their data: `list`, `rules`, `sample`, `data`."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handlens.cli.groups import ChallengeGroup, with_options
from handlens.cli.options import CLUSTER, JSON, PATH
from handlens.cli.output import columns, message, print_json, progress_bar, with_verbosity
from handlens.errors import HandlensError, counted
from handlens.io.gate import read_text

if TYPE_CHECKING:
    from handlens.types import AnyChallenge


@click.command("list")
@click.option("--models", is_flag=True, help="List the trained models that come with the package, with their licences.")
@JSON
def list_challenges(models: bool, as_json: bool) -> None:
    """List the challenges: what is asked, and how it is scored."""
    from handlens import registry

    if models:
        _list_models(as_json)
        return
    found = []
    for name in registry.names():
        try:
            found.append(registry.challenge(name))
        except HandlensError as error:
            message(f"handlens: {error}")
    if as_json:
        print_json([{"name": c.name, "title": c.title, "asks": c.asks, "metric": c.metric} for c in found])
        return
    _print_entries([(challenge.name, challenge.title, challenge.asks, challenge.metric) for challenge in found])


def _list_models(as_json: bool) -> None:
    from handlens import registry

    pages = [page for name in registry.BUILT_IN for page in _model_pages(registry.challenge(name))]
    if as_json:
        print_json(pages)
        return
    _print_entries([(page["challenge"], page["licence"], page["note"], page["folder"]) for page in pages])


def _print_entries(entries: Sequence[tuple[str, ...]]) -> None:
    """Names, and beside each its sentences in lines that fit."""
    width = max([8, *(len(name) for name, *_ in entries)]) + 1
    for name, *texts in entries:
        for place, text in enumerate(texts):
            head, rest = (name if place == 0 else "").ljust(width), " " * width
            click.echo(
                textwrap.fill(text, columns(), initial_indent=head, subsequent_indent=rest, break_long_words=False)
            )
        click.echo()


def _model_pages(challenge: AnyChallenge) -> list[dict[str, Any]]:
    """What is known of the models that come with a challenge: the usual one, and those for special inputs within it."""
    from handlens.inference.model import is_model, open_model

    folder = challenge.rules.with_name("model")
    pages = []
    for place in (folder, *sorted(folder.glob("*/"))):
        if is_model(place):
            model = open_model(place, challenge=challenge.name)
            note = str(model.plan.schedule.get("note") or "Trained on synthetic data alone.")
            licence = model.own_licence or "Apache-2.0"
            pages.append({"challenge": challenge.name, "licence": licence, "note": note, "folder": str(place)})
    return pages + [
        {"challenge": challenge.name, "licence": fit.licence, "note": fit.note, "folder": str(fit.file)}
        for fit in challenge.fitted
    ]


def _rules(challenge: AnyChallenge) -> click.Command:
    @click.command(challenge.name, short_help=challenge.title)
    def command() -> None:
        """Print the challenge's rules with their numbered Readings."""
        click.echo(read_text(challenge.rules).rstrip())

    return with_verbosity(command)


def _sample(challenge: AnyChallenge) -> click.Command:
    @click.command(challenge.name, short_help=challenge.title)
    @click.argument("folder", type=PATH)
    @click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Same seed, same bytes.")
    @click.option(
        "--cases",
        default=challenge.sample_defaults.cases,
        show_default=True,
        type=click.IntRange(1, 100_000),
        help="Cases in the test part.",
    )
    @click.option(
        "--size",
        default=challenge.sample_defaults.size,
        show_default=True,
        type=click.IntRange(64, 20_000),
        help="Side of an image in pixels.",
    )
    @CLUSTER
    @JSON
    def command(
        folder: Path, seed: int, cases: int, size: int, cluster: str | None, as_json: bool, **options: Any
    ) -> None:
        """Write synthetic data: train with labels, test without, the labels of the test part in FOLDER/truth."""
        from handlens import pipeline
        from handlens.inference.cluster_spec import open_executor

        settings = challenge.settings(**options)
        how: dict[str, Any] = {"seed": seed, "cases": cases, "size": size, "settings": settings}
        with open_executor(cluster, None, message) as executor, progress_bar("sample") as progress:
            pipeline.sample(challenge, folder, **how, executor=executor, progress=progress)
        truth = folder / pipeline.TRUTH
        if as_json:
            print_json({"folder": str(folder), "truth": str(truth), "cases": cases, "seed": seed, "size": size})
        else:
            message(f"{folder}: {counted(cases, 'synthetic test case')}, labels in {truth}")

    return with_options(command, challenge, "sample")


def _data(challenge: AnyChallenge) -> click.Command:
    @click.command(challenge.name, short_help=challenge.title)
    @click.argument("folder", type=PATH)
    @click.option(
        "--download", is_flag=True, help="First fetch the contest's data into FOLDER, with the kaggle command line."
    )
    @click.option("--contest", metavar="NAME", help="Fetch the data of another contest at Kaggle.")
    @JSON
    def command(folder: Path, download: bool, contest: str | None, as_json: bool) -> None:
        """Describe a data folder and list every problem in it; exit 1 if there is one.

        With --download the `kaggle` program is called, which has to be installed and logged in.
        """
        from handlens import pipeline
        from handlens.errors import describe

        if download:
            message("fetching; kaggle shows no progress here")
            pipeline.download(challenge, folder, contest=contest)
        inventory = pipeline.survey(challenge, folder)
        problems = [problem.as_json() for problem in inventory.problems]
        notes = [note.as_json() for note in inventory.notes]
        if as_json:
            print_json({"facts": dict(inventory.facts), "problems": problems, "notes": notes})
        else:
            width = max(map(len, inventory.facts), default=0)
            for name, fact in inventory.facts.items():
                click.echo(f"{name:{width}}  {fact}")
            for note in inventory.notes:
                click.echo(f"note: {note}")
            click.echo(
                describe(f"{folder} has problems", inventory.problems, shown=len(problems))
                if problems
                else "no problems found"
            )
        sys.exit(1 if problems else 0)

    return with_verbosity(command)


def commands() -> list[click.Command]:
    return [
        with_verbosity(list_challenges),
        ChallengeGroup("rules", _rules, "NAME", "Print a challenge's rules with their numbered Readings."),
        ChallengeGroup("sample", _sample, "NAME FOLDER [OPTIONS]", "Write synthetic data in a challenge's layout."),
        ChallengeGroup("data", _data, "NAME FOLDER [OPTIONS]", "Describe a data folder and list every problem in it."),
    ]
