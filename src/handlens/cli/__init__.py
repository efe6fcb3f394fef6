"""The command line: a command parses, calls one function, prints. Data on stdout, messages on stderr."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from handlens.cli import surroundings
from handlens.cli.output import Verbosity, fail, verbosity_options
from handlens.errors import HandlensError
from handlens.io.files import as_full_disk

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 80}


class _Commands(click.Group):
    def make_context(self, *args: Any, **options: Any) -> click.Context:
        Verbosity.level = 0  # as usual, whatever an earlier call in this process asked for
        return super().make_context(*args, **options)


@click.group(cls=_Commands, context_settings=CONTEXT)
@click.version_option(package_name="handlens")
def cli() -> None:
    """Four scientific-image challenges: from an image, a volume or a data folder to an answer and its exact score.

    Start with `handlens demo`, or `handlens solve cells DATA -o OUT`.
    """


cli.params.extend(verbosity_options())


def _add_commands() -> None:
    from handlens.cli import app, data, demo, inspect, judge, offline, report, score, solve, train

    for module in (data, score, solve, train, judge, inspect, offline, report, app, demo):
        for command in module.commands():
            cli.add_command(command)


_add_commands()


def main() -> None:
    """Run, and turn every error that is the input's fault into one message and exit status 1."""
    import logging

    logging.disable()  # libraries log what we report ourselves, with the file and what to do
    surroundings.prepare()
    status = _run()
    if not surroundings.flush() and not status:
        fail("handlens: what was to be printed cannot be written: is the disk full, or the reader gone?")
        status = 1
    sys.exit(status)


def _run() -> int:
    """The exit status: 0 done, 1 the input's fault, 2 usage, above 128 stopped."""
    try:
        cli(prog_name="handlens", standalone_mode=False)
        return 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        fail("stopped")
        return surroundings.exit_status(error)
    except BrokenPipeError:
        return 1
    except Exception as error:
        if surroundings.is_lack_of_memory(error):
            fail("handlens: not enough memory for this: use fewer workers, a smaller input, or a larger machine")
            return 1
        full = as_full_disk(error, Path(getattr(error, "filename", None) or "the output"))
        if not isinstance(error, HandlensError | OSError):
            raise
        if Verbosity.level > 0:
            import traceback

            traceback.print_exc()
        fail(f"handlens: {full or error}")
        return 1
