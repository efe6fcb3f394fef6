"""Site pages from files outside docs/: README, CONTRIBUTING, CHANGELOG and the model cards.

Markdown in the repository links to files by relative path, which works where the repository is browsed. On the site
these files are pages of their own, so links to them, and links in them, are rewritten here.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
CARDS = "src/handlens/challenges/{}/model/card.md"

PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    **{CARDS.format(name): f"models/{name}.md" for name in ("cells", "ink", "lesions")},
    "src/handlens/challenges/ink/model/few/card.md": "models/ink-few.md",
    "src/handlens/challenges/cells/model/other_slides/card.md": "models/cells-other-slides.md",
}
"""Path in the repository to path on the site."""

TEXTS = ["LICENSE", "REUSE.toml", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "LICENSES").glob("*.txt"))]
"""Copied as they are; links to them stay valid."""

FENCE_WORDS = re.compile(r"^( *```(?:console|python)) [a-z-]+$", re.MULTILINE)
"""`console approx`, `python no-run`: for docs/examples.py; Markdown extensions want the language alone."""

LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and texts from outside docs/."""
    for source, target in PAGES.items():
        files.append(File.generated(config, target, content=(ROOT / source).read_text("utf-8")))
    for source in TEXTS:
        target = source if source.endswith((".txt", ".toml")) else f"{source}.txt"
        files.append(File.generated(config, target, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point relative links at where their files are on the site."""
    place = page.file.src_uri
    source = next((path for path, target in PAGES.items() if target == place), f"docs/{place}")

    def rewrite(link: re.Match[str]) -> str:
        opening, target, anchor, closing = link.groups()
        if re.match(r"[a-z]+:", target):
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        return f"{opening}{posixpath.relpath(site_path(path), posixpath.dirname(place) or '.')}{anchor or ''}{closing}"

    markdown = FENCE_WORDS.sub(r"\1", markdown)
    parts = re.split(r"(^```.*?^```$|`[^`\n]*`)", markdown, flags=re.MULTILINE | re.DOTALL)  # code stays as it is
    return "".join(part if index % 2 else LINK.sub(rewrite, part) for index, part in enumerate(parts))


def site_path(path: str) -> str:
    """Where a file of the repository is on the site."""
    if path in PAGES:
        return PAGES[path]
    if path == "LICENSE":
        return "LICENSE.txt"
    return path.removeprefix("docs/")
