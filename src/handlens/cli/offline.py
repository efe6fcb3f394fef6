"""Commands for contests without a network: `bundle` and `run-entry`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handlens.cli.groups import ChallengeGroup, instead_option
from handlens.cli.options import JSON, PATH
from handlens.cli.output import fail, message, print_json, progress_bar, with_verbosity
from handlens.cli.solve import DURATION
from handlens.errors import describe

if TYPE_CHECKING:
    from handlens.types import AnyChallenge


def _bundle(challenge: AnyChallenge) -> click.Command:
    @click.command(challenge.name, short_help=challenge.title)
    @click.option("-o", "--out", type=PATH, required=True, help="Folder for the bundle; must be new or empty.")
    @click.option("--model", type=PATH, hidden=not challenge.train, help="Folder that `handlens train` wrote.")
    @click.option("--python", metavar="VERSION", help="Python of the contest, such as 3.11  [default: this one]")
    @click.option(
        "--platform", metavar="NAME", help="Its platform, such as manylinux_2_28_x86_64  [default: this machine's]"
    )
    @click.option(
        "--provided",
        metavar="LIST",
        help="Packages that the contest's image has: names with commas, or a file as `pip freeze` writes it.",
    )
    @click.option("--extra", "extras", multiple=True, help="Also what an extra needs: parquet, zarr or codecs.")
    @click.option("--owner", default="OWNER", show_default=True, help="Your name at the contest's site.")
    @JSON
    def command(out: Path, as_json: bool, **rest: Any) -> None:
        """Everything to solve the challenge without a network: wheels, model, notebooks, manifest.

        `handlens bundle --verify FOLDER` checks a bundle.
        """
        from handlens.offline.bundle import Request, describe_sizes, make_bundle, sizes
        from handlens.offline.wheels import Target

        target = Target(rest["python"], rest["platform"])
        how = {"model": rest["model"], "provided": rest["provided"], "owner": rest["owner"]}
        request = Request(challenge, target=target, extras=tuple(rest["extras"]), **how)
        message(f"wheels for Python {target.version}, by pip; this may take minutes")
        page = make_bundle(request, out)
        if as_json:
            print_json({**page, "bytes": sizes(page)})
            return
        for line in describe_sizes(page):
            click.echo(line)
        message(f"{out}: checked; see its README.md")

    return with_verbosity(command)


def _verify(_context: click.Context, folder: Path) -> None:
    from handlens.offline.bundle import describe_sizes, read_bundle, verify_bundle

    page = read_bundle(folder)
    problems = verify_bundle(folder)
    for line in describe_sizes(page):
        click.echo(line)
    if problems:
        fail(describe(f"{folder} would not work", problems, shown=len(problems)))
        sys.exit(1)
    click.echo("the bundle is whole: files as in its manifest, wheels that fit and need no others")


@click.command("run-entry")
@click.argument("entry", type=PATH, metavar="BUNDLE_OR_NOTEBOOK")
@click.option(
    "--data", "folder", type=PATH, required=True, help="Hidden data; its truth/ is never visible to the entry."
)
@click.option("-o", "--out", type=PATH, required=True, help="Folder for submission, log and executed notebook.")
@click.option("--limit", type=DURATION, default="4h", show_default=True, metavar="DURATION", help="Time that it has.")
@click.option("--memory-mib", default=16384, show_default=True, type=click.IntRange(64), help="Memory that it may use.")
@click.option("--notebook", default="00_pipeline.ipynb", show_default=True, help="Of a bundle, the one to run.")
@click.option("--challenge", "name", help="What a notebook is about; a bundle says it. Then the submission is scored.")
@click.option(
    "--engine",
    type=click.Choice(["bubblewrap", "namespaces", "docker"]),
    help="What keeps it apart  [default: bubblewrap, else namespaces]",
)
@click.option(
    "--image",
    metavar="PYTHON",
    help="Python whose packages the contest provides, nbclient and ipykernel among them; for docker the name of an "
    "image  [default: this one]",
)
@JSON
def run_entry(entry: Path, folder: Path, out: Path, as_json: bool, **rest: Any) -> None:
    """Run a bundle or a notebook as a contest would.

    Its submission is collected in OUT.

    Without a network, on data that it can only read, in an empty home, with limits of time and memory. Exit 1 where it
    leaves no valid submission.
    """
    from handlens import pipeline, registry
    from handlens.offline.entries import EntryLimits, challenge_of_entry, run_entry

    name = rest["name"] or challenge_of_entry(entry)
    challenge = registry.challenge(name) if name else None
    limits = EntryLimits(rest["limit"], rest["memory_mib"])
    how = {"notebook": rest["notebook"], "image": rest["image"], "engine": rest["engine"]}
    with progress_bar("entry") as progress:
        found = run_entry(entry, folder, out, challenge=challenge, limits=limits, progress=progress, **how)
    page: dict[str, Any] = {**found.as_json(), "score": None, "problems": []}
    if challenge is not None and found.submission is not None:
        settings = challenge.settings()
        page["problems"] = [
            each.as_json() for each in pipeline.check(challenge, found.submission, folder, settings, None)
        ]
        if not page["problems"] and pipeline.find_truth(challenge, folder, settings, "test") is not None:
            page["score"] = pipeline.score(challenge, found.submission, folder, settings, "test").value
    if as_json:
        print_json(page)
    else:
        click.echo(f"{found.verdict}{f': {found.why}' if found.why else ''}")
        click.echo(f"{found.seconds:.1f} s, {found.memory_mib:,} MiB at most, {found.engine}")
        if found.submission is not None:
            valid = "valid" if not page["problems"] else f"{len(page['problems'])} problems"
            click.echo(f"{found.submission}: {valid if challenge else 'not checked: name the --challenge'}")
        if page["score"] is not None:
            click.echo(f"score {page['score']!r}")
    sys.exit(0 if found.verdict == "done" and not page["problems"] else 1)


def commands() -> list[click.Command]:
    verify = instead_option(
        "--verify", "FOLDER", "Check a bundle: hashes, and that its wheels fit and lack none.", _verify
    )
    return [
        ChallengeGroup(
            "bundle",
            _bundle,
            "NAME -o FOLDER [OPTIONS]  or  --verify FOLDER",
            "Pack everything to solve a challenge without a network.",
            params=[verify],
        ),
        with_verbosity(run_entry),
    ]
