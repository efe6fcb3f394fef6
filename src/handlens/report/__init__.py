"""Pages for a browser: templates that escape everything; a policy that lets nothing but our own script run."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

SCRIPT = "viewer.js"


def render(
    template: str, *, script: str = "", pictures: str = "data:", connect: str = "", frames: str = "", **values: Any
) -> str:
    """A page from a template; every value is escaped, and one that is missing is an error.

    `script` is a script file of ours that the page carries; no other can run. `pictures` are the places from which
    pictures may come: from the page itself alone, unless others are named. `connect` is where the script may ask,
    `frames` are the pages that may be shown inside.
    """
    css, code = asset("style.css"), asset(script) if script else ""
    policy = [
        "default-src 'none'",
        f"img-src {pictures}",
        f"style-src {_hash(css)}",
        f"script-src {_hash(code)}" if code else "script-src 'none'",
        *([f"connect-src {connect}"] if connect else []),
        *([f"frame-src {frames}"] if frames else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return _environment().get_template(template).render(css=css, script=code, policy="; ".join(policy), **values)


@cache
def asset(name: str) -> Markup:
    """The text of a style sheet or script of ours."""
    from markupsafe import Markup

    return Markup(Path(__file__).with_name("templates").joinpath(name).read_text(encoding="utf-8"))


def _hash(text: str) -> str:
    """A text as a policy names it: just this one may be used."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


def image_url(path: Path) -> str:
    """A picture file as a `data:` address, so that a page needs no other file."""
    kind = "jpeg" if path.suffix == ".jpg" else "png"
    return f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def sentence(text: str) -> str:
    """Text with its first letter capital."""
    return text[:1].upper() + text[1:]


def shown(value: Any) -> str:
    """A number as people read it, anything else as it is.

    >>> shown(0.81234567), shown(12345), shown("words"), shown(3.0)
    ('0.8123', '12,345', 'words', '3')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    if isinstance(value, int) or (abs(value) < 1e15 and value == round(value)):
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("handlens.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=False,
        keep_trailing_newline=True,
    )
    found.policies["json.dumps_kwargs"] = {"sort_keys": False}  # facts stay in the order in which they were given
    found.filters["sentence"] = sentence
    found.filters["shown"] = shown
    return found
