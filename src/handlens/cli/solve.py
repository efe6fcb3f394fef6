"""Commands that predict: `solve`, and `predict`, which takes the challenge from the model."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handlens.cli.groups import ChallengeGroup, with_options
from handlens.cli.options import CLUSTER, JSON, OVERWRITE, PART, PATH, REPORT
from handlens.cli.output import details, message, print_json, progress_bar, resumable, with_verbosity
from handlens.cli.score import wanted
from handlens.errors import HandlensError, counted

if TYPE_CHECKING:
    from handlens.types import AnyChallenge


class _Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from handlens import pipeline

        if isinstance(value, float):
            return value
        try:
            return pipeline.read_duration(value)
        except HandlensError as error:
            self.fail(str(error), param, ctx)


DURATION = _Duration()


def _process_age() -> float:
    """Seconds since this process was started; 0 where the system does not tell."""
    try:
        ticks = int(Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return 0.0
    return max(0.0, age)


def _solve(challenge: AnyChallenge) -> click.Command:
    @click.command(challenge.name, short_help=challenge.asks)
    @click.argument("folder", type=PATH, metavar="DATA")
    @click.option("-o", "--out", type=PATH, required=True, help="Folder for submission and score.json.")
    @click.option(
        "--format",
        "form",
        type=click.Choice(["csv", "parquet"]),
        default="csv",
        show_default=True,
        help="Format of the submission.",
    )
    @click.option("--keep-going", is_flag=True, help="Give a case that cannot be read the empty answer.")
    @click.option(
        "--deadline",
        type=DURATION,
        metavar="DURATION",
        help="Time limit, such as 3h50m or 90s: the best answers within it; implies --keep-going.",
    )
    @OVERWRITE
    @click.option("--model", type=PATH, hidden=not challenge.train, help="Folder that `handlens train` wrote.")
    @click.option(
        "--untrusted", is_flag=True, hidden=not challenge.sandboxed, help="Run the model's network in a sandbox."
    )
    @click.option(
        "--solver",
        type=click.Choice(["model", "baseline"]),
        default="model",
        show_default=True,
        hidden=challenge.baseline is None,
        help="The trained model, or the baseline that it must beat.",
    )
    @click.option(
        "--workers", type=click.IntRange(1), help="Processes  [default: one per core for slow predictors, else 1]"
    )
    @CLUSTER
    @PART
    @REPORT
    @JSON
    def command(folder: Path, out: Path, as_json: bool, report: bool | None, cluster: str | None, **rest: Any) -> None:
        """Predict every case of DATA: a data folder, or one image or fragment, or the address of one (https://, s3://).

        Writes OUT/submission.csv, checked, scores it where there are labels, and ends with OUT/report.html. When
        interrupted, the same command resumes.
        """
        from handlens import pipeline
        from handlens.cli.uploads import output_folder
        from handlens.inference.cluster_spec import open_executor

        names = ("form", "part", "model", "solver", "keep_going", "overwrite", "workers", "untrusted")
        how = {name: rest.pop(name) for name in names}
        seconds = rest.pop("deadline")
        if seconds is not None:
            how["deadline"] = pipeline.Deadline(seconds, pipeline.stopwatch(_process_age()))
        settings = challenge.settings(**rest)
        details(f"settings: {settings}")
        with_page = wanted(report, as_json) and seconds is None  # a page must not make it late
        with (
            output_folder(out, (folder, how["model"])) as target,
            open_executor(cluster, how["workers"], message) as executor,
            progress_bar(challenge.name) as progress,
            resumable(),
        ):
            how |= {"for_report": with_page, "executor": executor}
            solved = pipeline.solve(challenge, folder, target, settings=settings, progress=progress, **how)
            page = pipeline.report_solve(challenge, target)[0] if with_page else None
            page = out / page.relative_to(target) if page else None
            solved = replace(solved, submission=out / solved.submission.relative_to(target))
        for note in solved.notes:
            message(note)
        if as_json:
            print_json(pipeline.solved_json(challenge, solved))
            return
        click.echo(f"{solved.submission}: {counted(solved.cases, 'case')}, valid, {solved.seconds:.1f} s")
        if solved.score is None and solved.spent is None:
            click.echo("no score: there are no labels for these cases")
        elif solved.score is None:
            click.echo("no score: no labels for these cases, or no time for it")
        else:
            click.echo(f"score {solved.score.value!r} ({challenge.metric}); empty prediction: {solved.empty_score!r}")
        if page:
            message(f"report: {page}")

    return with_options(command, challenge, "solve")


@click.command(context_settings={"ignore_unknown_options": True}, options_metavar="")
@click.argument("run", type=PATH)
@click.argument("rest", nargs=-1, required=True, type=click.UNPROCESSED, metavar="DATA -o OUT [OPTIONS]")
@click.pass_context
def predict(context: click.Context, run: Path, rest: tuple[str, ...]) -> None:
    """Predict every case of DATA with a trained model.

    RUN is the folder that `handlens train NAME` wrote; it knows its challenge. OPTIONS are those of `handlens solve
    NAME`, which this is short for, with `--model RUN`.
    """
    from handlens import pipeline, registry

    command = _solve(registry.challenge(pipeline.challenge_of_model(run)))
    with command.make_context(f"predict {run}", [*rest, "--model", str(run)], parent=context.parent) as inner:
        command.invoke(inner)


def commands() -> list[click.Command]:
    return [
        ChallengeGroup(
            "solve", _solve, "NAME DATA -o OUT [OPTIONS]", "Predict every case of a data folder; check and score it."
        ),
        with_verbosity(predict),
    ]
