"""Pages for a browser: templates that escape everything; one self-contained file each, nothing is fetched."""

from __future__ import annotations

import base64
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: Any) -> str:
    """A page from a template; every value is escaped, and one that is missing is an error."""
    return _environment().get_template(template).render(**values)


def image_url(path: Path) -> str:
    """A picture file as a `data:` address, so that a page needs no other file."""
    kind = "jpeg" if path.suffix == ".jpg" else "png"
    return f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def sentence(text: str) -> str:
    """Text with its first letter capital."""
    return text[:1].upper() + text[1:]


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
    found.filters["sentence"] = sentence
    return found
