"""The command line: a command parses, calls one function, prints. Data on stdout, talk on stderr."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handlens.cli.groups import ChallengeGroup, with_options
from handlens.cli.output import going_on, print_json, print_score, shown, talk
from handlens.errors import HandlensError, counted

if TYPE_CHECKING:
    from handlens.types import Challenge, Settings

PATH = click.Path(path_type=Path)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
PART = click.option(
    "--part", type=click.Choice(["train", "test"]), help="Part of the folder  [default: test, else train]"
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="handlens")
def cli() -> None:
    """Four scientific-image challenges, from a data folder to a valid, exactly scored submission.

    Start with `handlens demo`, or `handlens solve cells DATA -o OUT`.
    """


@cli.command("list")
@JSON
def list_challenges(as_json: bool) -> None:
    """List the challenges: what is asked, and how it is scored."""
    from handlens import registry

    found = []
    for name in registry.names():
        try:
            found.append(registry.challenge(name))
        except HandlensError as error:
            talk(f"handlens: {error}")
    if as_json:
        print_json([{"name": c.name, "title": c.title, "asks": c.asks, "metric": c.metric} for c in found])
        return
    for challenge in found:
        click.echo(f"{challenge.name:9}{challenge.title}\n{'':9}{challenge.asks}\n{'':9}{challenge.metric}\n")


def _rules(challenge: Challenge) -> click.Command:
    @click.command(challenge.name, short_help=challenge.title)
    def command() -> None:
        """Print the challenge's rules with their numbered Readings."""
        click.echo(challenge.rules.read_text(encoding="utf-8").rstrip())

    return command


def _sample(challenge: Challenge) -> click.Command:
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
        help="Side of a picture in pixels.",
    )
    def command(folder: Path, seed: int, cases: int, size: int, **options: Any) -> None:
        """Write made-up data: train with truth, test without, the test's truth in FOLDER/truth."""
        from handlens import pipeline

        settings = challenge.settings(**options)
        pipeline.sample(challenge, folder, seed=seed, cases=cases, size=size, settings=settings)
        talk(f"{folder}: {counted(cases, 'made-up test case')}, the truth in {folder / pipeline.TRUTH}")

    return with_options(command, challenge, "sample")


def _data(challenge: Challenge) -> click.Command:
    @click.command(challenge.name, short_help=challenge.title)
    @click.argument("folder", type=PATH)
    @JSON
    def command(folder: Path, as_json: bool) -> None:
        """Say what a data folder holds and every problem in it; exit 1 if there is one."""
        from handlens.errors import DataError, describe

        if not folder.is_dir():
            raise DataError("no such folder", file=folder)
        inventory = challenge.inspect(folder)
        problems = [problem.as_json() for problem in inventory.problems]
        if as_json:
            print_json({"facts": dict(inventory.facts), "problems": problems})
        else:
            width = max(map(len, inventory.facts), default=0)
            for name, fact in inventory.facts.items():
                click.echo(f"{name:{width}}  {fact}")
            click.echo(
                describe(f"{folder} has problems", inventory.problems, shown=len(problems))
                if problems
                else "no problems found"
            )
        sys.exit(1 if problems else 0)

    return command


def _check(challenge: Challenge) -> click.Command:
    @click.command(challenge.name, short_help=challenge.title)
    @click.argument("file", type=PATH)
    @click.option("--data", "folder", type=PATH, required=True, help="Data folder that says which cases there are.")
    @PART
    @JSON
    def command(file: Path, folder: Path, part: Any, as_json: bool, **options: Any) -> None:
        """Say whether a submission is valid, with every problem; needs no truth. Exit 1 if it is not."""
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


def _score(challenge: Challenge) -> click.Command:
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


def _solve(challenge: Challenge) -> click.Command:
    @click.command(challenge.name, short_help=challenge.asks)
    @click.argument("folder", type=PATH)
    @click.option("-o", "--out", type=PATH, required=True, help="Folder for submission and score.json.")
    @click.option("--format", "form", type=click.Choice(["csv", "parquet"]), default="csv", show_default=True)
    @click.option("--keep-going", is_flag=True, help="Give a case that cannot be read the empty answer.")
    @click.option("--model", type=PATH, hidden=not challenge.train, help="Folder that `handlens train` wrote.")
    @click.option("--workers", type=click.IntRange(1), help="Processes  [default: as many as cores for a slow solver]")
    @PART
    def command(folder: Path, out: Path, form: Any, part: Any, model: Path | None, **rest: Any) -> None:
        """Answer every case: OUT/submission.csv, checked, scored where truth is there. Stopped, it can go on."""
        from handlens import pipeline
        from handlens.progress import bar

        keep_going, workers = rest.pop("keep_going"), rest.pop("workers")
        settings = challenge.settings(**rest)
        with bar(challenge.name) as progress, going_on():
            solved = pipeline.solve(
                challenge,
                folder,
                out,
                form=form,
                part=part,
                settings=settings,
                model=model,
                keep_going=keep_going,
                workers=workers,
                progress=progress,
            )
        for note in solved.notes:
            talk(note)
        click.echo(f"{solved.submission}: {counted(solved.cases, 'case')}, valid, {solved.seconds:.1f} s")
        if solved.score is None:
            click.echo("no score: the data folder has no truth for these cases")
        else:
            click.echo(f"score {solved.score.value!r} ({challenge.metric}); the empty answer: {solved.empty_score!r}")

    return with_options(command, challenge, "solve")


@cli.command(context_settings={"ignore_unknown_options": True}, options_metavar="")
@click.argument("run", type=PATH)
@click.argument("rest", nargs=-1, required=True, type=click.UNPROCESSED, metavar="FOLDER -o OUT [OPTIONS]")
@click.pass_context
def predict(context: click.Context, run: Path, rest: tuple[str, ...]) -> None:
    """Answer every case of FOLDER with the model of a training.

    RUN is the folder that `handlens train NAME` wrote; it knows its challenge. OPTIONS are those of `handlens solve
    NAME`, which this is short for, with `--model RUN`.
    """
    from handlens import registry
    from handlens.runstore.store import challenge_of

    command = _solve(registry.challenge(challenge_of(run)))
    with command.make_context(f"predict {run}", [*rest, "--model", str(run)], parent=context.parent) as inner:
        command.invoke(inner)


def _train(challenge: Challenge) -> click.Command:
    @click.command(challenge.name, short_help=challenge.title)
    @click.argument("folder", type=PATH)
    @click.option("-o", "--out", "run", type=PATH, required=True, help="Folder for what is learned.")
    @JSON
    def command(folder: Path, run: Path, as_json: bool, **options: Any) -> None:
        """Learn from the labelled cases of a data folder; print what was measured."""
        _learn(challenge, folder, run, challenge.settings(**options), as_json)

    return with_options(command, challenge, "train")


def _learn(challenge: Challenge, folder: Path, run: Path, settings: Settings, as_json: bool) -> None:
    """Train, print the numbers, and say after Ctrl-C what is left."""
    from handlens import pipeline
    from handlens.progress import bar
    from handlens.runstore.store import ORDER

    try:
        with bar(challenge.name) as progress:
            numbers = pipeline.train(challenge, folder, run, settings=settings, progress=progress)
    except KeyboardInterrupt:
        usable = f"; {run / 'model.onnx'} is what was learned so far" if (run / "model.onnx").exists() else ""
        goes_on = f"handlens train --resume {run}" if (run / ORDER).exists() else "the same command"
        talk(f"\nstopped{usable}; {goes_on} goes on from here")
        sys.exit(130)
    if as_json:
        print_json(dict(numbers))
    else:
        width = max(map(len, numbers), default=0)
        for name, value in numbers.items():
            click.echo(f"{name:{width}}  {shown(value)}")
    talk(f"{run}: trained; use it by handlens solve {challenge.name} FOLDER -o OUT --model {run}")


def _judge(challenge: Challenge) -> click.Command:
    from handlens.cli.judge import judge_form

    return judge_form(challenge)


def _resume(context: click.Context, _option: click.Parameter, run: Path | None) -> None:
    """Go on with a training that was stopped or killed, as it was ordered."""
    if run is None or context.resilient_parsing:
        return
    from handlens import registry
    from handlens.runstore.store import read_order

    order = read_order(run)
    challenge = registry.challenge(order["challenge"])
    _learn(challenge, Path(order["folder"]), run, challenge.settings(**order["settings"]), as_json=False)
    context.exit()


@cli.command()
@click.argument("figures", nargs=-1, required=True, type=PATH)
@click.option("-o", "--out", type=PATH, help="Folder for pages, pictures and records.")
@click.option(
    "--seconds", default=13.0, show_default=True, type=click.FloatRange(1, 86_400), help="Time for one figure."
)
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 256), help="Figures at the same time.")
@JSON
def inspect(figures: tuple[Path, ...], out: Path | None, seconds: float, workers: int, as_json: bool) -> None:
    """Say which regions of figures are copies of which, and show them side by side.

    FIGURES are PNG, JPEG, TIFF and PDF files, every page of them, or folders of such files.
    """
    from handlens.challenges.forgery import inspection
    from handlens.progress import bar

    make, settings = inspection.with_detector(seconds)
    with bar("inspect") as progress, going_on() if out else nullcontext():
        records = inspection.inspect_figures(
            figures, out, make_look=make, settings=settings, workers=workers, progress=progress
        )
    if as_json:
        print_json({"figures": records})
    for record in records:
        if "error" in record:
            talk(f"handlens: {record['figure']}: {record['error']}")
        elif not as_json:
            click.echo(inspection.table(record))
    if out:
        talk(f"{out / inspection.PAGE}: {counted(len(records), 'figure')}")
    sys.exit(1 if any("error" in record for record in records) else 0)


@cli.command()
@click.option(
    "-o", "--out", type=PATH, default=Path("demo-out"), show_default=True, help="Folder for data and answers."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the made-up data.")
def demo(out: Path, seed: int) -> None:
    """Solve and score made-up data of all four challenges, in under two minutes."""
    from handlens.demo import run

    with going_on():
        run(out, seed=seed)


for _name, _build, _usage, _text in (
    ("rules", _rules, "NAME", "Print a challenge's rules with their numbered Readings."),
    ("sample", _sample, "NAME FOLDER [OPTIONS]", "Write made-up data in a challenge's true layout."),
    ("data", _data, "NAME FOLDER [OPTIONS]", "Say what a data folder holds, and every problem in it."),
    ("check", _check, "NAME FILE --data FOLDER [OPTIONS]", "Say whether a submission is valid; needs no truth."),
    ("score", _score, "NAME FILE --truth FOLDER_OR_CSV [OPTIONS]", "Print the exact score of a submission."),
    ("solve", _solve, "NAME FOLDER -o OUT [OPTIONS]", "Answer every case of a data folder; check and score it."),
):
    cli.add_command(ChallengeGroup(_name, _build, _usage, _text))
cli.add_command(
    ChallengeGroup(
        "train",
        _train,
        "NAME FOLDER -o RUN [OPTIONS]  or  --resume RUN",
        "Learn from a data folder what `solve --model` uses.",
        has_form=lambda challenge: challenge.train is not None,
        params=[
            click.Option(
                ["--resume"],
                type=PATH,
                is_eager=True,
                expose_value=False,
                callback=_resume,
                metavar="RUN",
                help="Go on with a training that was stopped or killed.",
            )
        ],
    )
)
cli.add_command(
    ChallengeGroup(
        "judge",
        _judge,
        "NAME MODEL... --data FOLDER [OPTIONS]",
        "Run models that nobody trusts on hidden cases, and rank them.",
        has_form=lambda challenge: challenge.judge is not None,
    )
)


def main() -> None:
    """Run, and turn every error that is the input's fault into one message and exit status 1."""
    import logging

    logging.disable()  # libraries log what we say ourselves, with the file and what to do
    try:
        cli(prog_name="handlens", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        talk("stopped")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except MemoryError:
        talk("handlens: not enough memory for this input")
        sys.exit(1)
    except (HandlensError, OSError) as error:
        talk(f"handlens: {error}")
        sys.exit(1)
