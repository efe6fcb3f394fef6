"""The command `app`: pages on this machine for people without a terminal."""

from __future__ import annotations

from pathlib import Path

import click

from handlens.cli.options import PATH
from handlens.cli.output import message, with_verbosity


@click.command()
@click.option(
    "-o", "--out", type=PATH, default=Path("handlens-app"), show_default=True, help="Folder for uploads and results."
)
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port of 127.0.0.1  [default: one that is free]")
@click.option("--no-browser", is_flag=True, help="Print the address, open nothing.")
def app(out: Path, port: int, no_browser: bool) -> None:
    """Open a page to drop images, folders and PDFs on.

    Ctrl-C ends it.

    Only this machine can reach it, and only by the address that is printed. Jobs go on when it is started again.
    """
    from handlens.io.extras import need

    need("starlette", "the app")
    need("uvicorn", "the app")
    from handlens.web.server import serve

    def opened(address: str) -> None:
        click.echo(address)
        if not no_browser:
            import webbrowser

            webbrowser.open(address)

    serve(out, port=port, opened=opened)
    message("ended; jobs that were at work go on when it is started again")


def commands() -> list[click.Command]:
    return [with_verbosity(app)]
