"""Notebooks from one source: templates in the percent format (`# %%`), filled in for a challenge, written as .ipynb."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from handlens.errors import HandlensError
from handlens.types import AnyChallenge

NAMES = ("00_pipeline", "01_setup_offline", "02_train", "03_infer_submit")
SCRIPT = "infer.py"
"""Of lesions: one file that answers photographs with onnxruntime, numpy and Pillow alone."""

LIMITS: Mapping[str, str] = {"forgery": "3h45m", "ink": "8h45m"}
"""What of the contest's limit (4 and 9 hours) `solve` may use; the rest is for the set-up and pictures."""

USUAL_LIMIT = "1h"
TEMPLATES = "templates"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: `code` or `markdown`, with the tags of its marker."""

    kind: str
    source: str
    tags: tuple[str, ...] = ()


def write_notebooks(challenge: AnyChallenge, folder: Path, *, model: Path | None = None) -> list[Path]:
    """The notebooks of a challenge, and for lesions the inference script with its model."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in NAMES:
        path = folder / f"{name}.ipynb"
        path.write_text(json.dumps(render(name, challenge), indent=1) + "\n", encoding="utf-8")
        written.append(path)
    if challenge.name == "lesions":
        source = (model or challenge.rules.with_name("model")) / "model.onnx"
        (folder / SCRIPT).write_text(_template(f"{SCRIPT}.txt"), encoding="utf-8")
        (folder / "model.onnx").write_bytes(source.read_bytes())
    return written


def render(name: str, challenge: AnyChallenge) -> dict[str, Any]:
    """A notebook as nbformat 4.5 has it."""
    from jinja2 import DictLoader, Environment, StrictUndefined

    texts = {each: _template(f"{each}.percent") for each in ("setup", "training", "inference", "lesions", *NAMES)}
    environment = Environment(loader=DictLoader(texts), undefined=StrictUndefined, keep_trailing_newline=True)
    limit = LIMITS.get(challenge.name, USUAL_LIMIT)
    facts = {"name": challenge.name, "title": challenge.title, "metric": challenge.metric, "limit": limit}
    text = environment.get_template(name).render(facts)
    cells = [_cell_json(number, cell) for number, cell in enumerate(parse_percent(text))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def parse_percent(text: str) -> list[Cell]:
    """The cells of a text in the percent format.

    >>> [cell.kind for cell in parse_percent("# %% [markdown]\\n# A title\\n# %%\\nprint(1)\\n")]
    ['markdown', 'code']
    """
    cells = []
    for part in re.split(r"^# %%", text, flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        tags = re.search(r"tags=(\[.*?\])", head)
        found = tuple(json.loads(tags[1])) if tags else ()
        if "[markdown]" in head:
            body = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
            cells.append(Cell("markdown", body, found))
        else:
            cells.append(Cell("code", body.strip(), found))
    return cells


def with_parameters(notebook: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The notebook with other values in its cell of parameters; HandlensError for a name that is not there."""
    changed: dict[str, Any] = json.loads(json.dumps(notebook))
    cell = next(cell for cell in changed["cells"] if "parameters" in cell["metadata"].get("tags", ()))
    text = "".join(cell["source"])
    for name, value in values.items():
        text, count = re.subn(rf"^{re.escape(name)} = .*$", lambda _: f"{name} = {value!r}", text, flags=re.M)  # noqa: B023
        if count != 1:
            raise HandlensError(f"the notebook has no parameter {name}")
    cell["source"] = text.splitlines(keepends=True)
    return changed


def _template(name: str) -> str:
    return (files("handlens.offline") / TEMPLATES / name).read_text(encoding="utf-8")


def _cell_json(number: int, cell: Cell) -> dict[str, Any]:
    lines = cell.source.splitlines(keepends=True)
    key = hashlib.sha256(f"{number} {cell.source}".encode()).hexdigest()[:8]
    page: dict[str, Any] = {"cell_type": cell.kind, "id": key, "metadata": {}, "source": lines}
    if cell.tags:
        page["metadata"] = {"tags": list(cell.tags)}
    return page | ({"execution_count": None, "outputs": []} if cell.kind == "code" else {})
