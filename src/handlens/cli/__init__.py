"""The command line: a command parses, calls one function, prints. Data on stdout, messages on stderr."""

from __future__ import annotations

import sys
from typing import Any

import click

from handlens.cli.output import Verbosity, fail, verbosity_options
from handlens.errors import HandlensError

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
    from handlens.cli import data, demo, inspect, judge, score, solve, train

    for module in (data, score, solve, train, judge, inspect, demo):
        for command in module.commands():
            cli.add_command(command)


_add_commands()


def main() -> None:
    """Run, and turn every error that is the input's fault into one message and exit status 1."""
    import logging

    logging.disable()  # libraries log what we report ourselves, with the file and what to do
    try:
        cli(prog_name="handlens", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        fail("stopped")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except MemoryError:
        fail("handlens: not enough memory for this input")
        sys.exit(1)
    except (HandlensError, OSError) as error:
        if Verbosity.level > 0:
            import traceback

            traceback.print_exc()
        fail(f"handlens: {error}")
        sys.exit(1)
