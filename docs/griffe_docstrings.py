"""Make Markdown of our docstrings: doctest examples become code blocks, aligned lists become tables.

A Griffe extension for the API reference; see mkdocs.yml.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ENTRY = re.compile(r"(\S.*?) {2,}(\S.*)")


class Docstrings(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of every object that has one."""
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(docstring: str) -> str:
    """Paragraph by paragraph: examples fenced, aligned lists as tables, the rest as it is.

    >>> print(to_markdown("One.\\n\\n>>> 1 + 1\\n2"))
    One.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    return "\n\n".join(map(_paragraph, re.split(r"\n{2,}", docstring)))


def _paragraph(text: str) -> str:
    if text.startswith(">>>"):
        return f"```pycon\n{text}\n```"
    lines = text.split("\n")
    entries = [line for line in lines if not line.startswith(" ")]
    if len(entries) < 2 or not all(map(ENTRY.fullmatch, entries)):
        return text
    rows: list[list[str]] = []
    for line in lines:
        if found := ENTRY.fullmatch(line) if not line.startswith(" ") else None:
            rows.append([found[1], found[2]])
        else:
            rows[-1][1] += f" {line.strip()}"
    return "\n".join(["| field | meaning |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in rows)])
