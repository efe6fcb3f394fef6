"""What can go wrong with what the user gave us, and how one line about it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SHOWN = 10
"""Problems shown before the rest is only counted: more than a screen helps nobody."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where: file, line (from 1), row id; empty where it does not apply.

    >>> print(Problem("3 numbers, so the last start has no length", line=2, id="img 1"))
    line 2, img 1: 3 numbers, so the last start has no length
    """

    what: str
    file: str = ""
    line: int = 0
    id: str = ""

    def __str__(self) -> str:
        places = [printable(self.file), f"line {self.line}" if self.line else "", self.id]
        where = ", ".join(place for place in places if place)
        return f"{where}: {self.what}" if where else self.what

    def as_json(self) -> dict[str, Any]:
        """The fields that say something, for `--json`."""
        return {name: value for name, value in asdict(self).items() if value}


def counted(number: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "case"), counted(1200, "case")
    ('1 case', '1,200 cases')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """A sentence with the nearest of the known names, to end a message with; empty where none is near.

    >>> did_you_mean("turn", ["turns", "folds"])
    '. Did you mean turns?'
    """
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f". Did you mean {close[0]}?" if close else ""


def describe(headline: str, problems: Sequence[Problem], *, shown: int = SHOWN) -> str:
    """A headline, at most `shown` problems, and a count of the rest.

    >>> print(describe("a.csv cannot be scored", [Problem("no row for img 4")]))
    a.csv cannot be scored (1 problem):
      no row for img 4
    """
    lines = [f"{headline} ({counted(len(problems), 'problem')}):", *(f"  {problem}" for problem in problems[:shown])]
    if len(problems) > shown:
        lines.append(f"  and {len(problems) - shown:,} more")
    return "\n".join(lines)


def printable(text: str) -> str:
    """A name as it can be shown: what would move a terminal's cursor, or is no text, as escapes.

    >>> print(printable("red\x1b[31m.png"))
    red\\x1b[31m.png
    """
    return (
        text
        if text.isprintable()
        else "".join(
            letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text
        )
    )


def printable_lines(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(printable(line) for line in text.split("\n"))


def inside(path: Path, folder: Path) -> str:
    """A file's path as a list about the folder names it; whole where it lies elsewhere."""
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


class HandlensError(Exception):
    """The input's fault, not ours: the message is for the user and says what to do.

    Libraries quote a file's own bytes in what they say of it, so that is made printable, line by line.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(printable_lines(message))


class DataError(HandlensError):
    """A data folder, image or label file that cannot be used; `file` is the one to look at."""

    def __init__(self, what: str, *, file: Path | None = None) -> None:
        what = printable_lines(what)
        super().__init__(f"{printable(str(file))}: {what}" if file else what)
        self.what = what
        self.file = file

    def problem(self, folder: Path) -> Problem:
        """The same as one line of a list about this folder."""
        if self.file is None:
            return Problem(self.what)
        return Problem(self.what, file=inside(self.file, folder))


class DiskFullError(HandlensError):
    """No room for a file, or none of its size is allowed (`limited`); what was finished before is kept."""

    def __init__(self, file: Path, written: int, free: int, limited: bool = False) -> None:
        what = f"the disk is full: there was room for {written + free:,} bytes of it, and it needs more"
        remedy = "free some space, or name a folder on another disk"
        if limited:
            what = f"a file of more than {written:,} bytes is not allowed here (ulimit -f, or the kind of disk)"
            remedy = "raise the limit, or name a folder on another disk"
        super().__init__(f"{printable(str(file))}: {what}: {remedy}, then say the same again: what is finished is kept")
        self.file, self.written, self.free, self.limited = file, written, free, limited

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.written, self.free, self.limited)


class SubmissionError(HandlensError):
    """A submission that cannot be scored; `problems` lists every reason."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        super().__init__(describe(f"{printable(file)} cannot be scored", problems))
        self.file = file
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.problems)  # so that it travels between processes


class ModelError(HandlensError):
    """A model or predictor that cannot answer."""
