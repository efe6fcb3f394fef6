"""Where the lesions challenge keeps its photographs and what its CSV files say, in all their spellings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from handlens.challenges.lesions.taxonomy import LOCATIONS, TAXONOMIES, Taxonomy
from handlens.errors import DataError, Problem, counted, inside
from handlens.io.csv import Row, TableError, read_rows
from handlens.io.gate import is_there
from handlens.io.images import list_images, read_header, shown, skipped
from handlens.types import Case, Inventory, Part, Truth

if TYPE_CHECKING:
    from handlens.challenges.lesions.options import LesionsSettings

FILE_COLUMNS = ("newfilename", "filepath", "filename", "image_path")
GROUP_COLUMNS = ("patient_id", "lesion_id", "group")
"""What photographs may have in common; the first that a row has counts: a person may have several lesions."""

LESION_COLUMN, LESION = "lesion_id", "lesion"
"""Column that says which photographs show the same lesion; the detail of a case that lists them, its own among them."""

DEMOGRAPHIC_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "age": ("age",),
    "gender": ("gender", "sex"),
    "location": ("location", "site"),
}
KIND_COLUMNS = ("image_type",)
TONE_COLUMNS = ("skin_tone", "skin_tone_class", "fitzpatrick", "fitzpatrick_skin_type")
MAX_AGE = 120
SMALL_SIDE = 512
"""Shorter side that the contest asks for; smaller photographs are read all the same."""

_GENDERS = {"m": "m", "male": "m", "1": "m", "f": "f", "female": "f", "0": "f"}
_UNKNOWN = ("", "-1", "-1.0", "unknown", "nan", "none", "na")


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a labels file: texts by column name in small letters; `fault` where the row does not fit."""

    line: int
    texts: Mapping[str, str]
    fault: str = ""

    @property
    def file(self) -> str:
        return _first_text(self.texts, FILE_COLUMNS)

    def label(self, taxonomy: Taxonomy) -> str | None:
        """The class as written in the taxonomy; the text itself where it is no class; None without a label column."""
        column = next((name.lower() for name in taxonomy.label_columns if name.lower() in self.texts), None)
        if column is None:
            return None
        text = self.texts[column]
        return next((name for name in taxonomy.classes if name.lower() == text.lower()), text)


def read_cases(folder: Path, part: Part) -> list[Case]:
    """The photographs of one part, in the order of its CSV.

    A folder of pictures without CSV is a test part, and so is a single picture.
    """
    if is_there(folder):
        return [_case(Record(0, {"filename": folder.name}), folder.parent)] if part == "test" else []
    root = _part_folder(folder, part)
    if root is None:
        return []
    csv = find_csv(root)
    if csv is None:
        return [_case(Record(0, {"filename": path.name}), root) for path in list_images(_image_folder(root))]
    return _with_lesions(csv, list(read_records(csv)))


def open_truth(path: Path, settings: LesionsSettings) -> Truth[str]:
    """A labels file, or a folder with one."""
    taxonomy = TAXONOMIES[settings.taxonomy]
    csv = path if is_there(path) else find_csv(path) or find_csv(path / "train")
    if csv is None:
        raise DataError("no labels.csv here or under train/: expected filename,label", file=path)
    labels: dict[str, str] = {}
    cases = []
    for record in read_records(csv):
        label = record.label(taxonomy)
        if label not in taxonomy.classes:
            found = f"class {label!r}" if label is not None else f"no column {' or '.join(taxonomy.label_columns)}"
            raise DataError(
                f"line {record.line}: {found}; the {taxonomy.name} classes are {', '.join(taxonomy.classes)}", file=csv
            )
        labels[record.file] = label
        cases.append(_case(record, csv))
    if not cases:
        raise DataError("no rows under the header", file=csv)
    return Truth(tuple(cases), lambda case: labels[case.id])


def survey(folder: Path) -> Inventory:
    """Photographs, classes, demographics, and what is wrong, from headers and the CSV."""
    if not folder.is_dir():
        raise DataError("no such folder", file=folder)
    facts: dict[str, str] = {}
    problems: list[Problem] = []
    notes: list[Problem] = []
    parts: tuple[Part, ...] = ("train", "test")
    for part in parts:
        try:
            root = _part_folder(folder, part)
        except DataError:  # its CSV is broken, which is named when the rows are read
            root = folder if part == "train" else None
        if root is not None and (list_images(_image_folder(root)) or _list_csv(root)):
            _survey_part(folder, root, part, facts, problems)
            notes += skipped(_image_folder(root), within=folder)
    if not facts:
        problems.append(Problem("no labels.csv and no photographs here or under train/ or test/", file=str(folder)))
        notes += skipped(folder, within=folder)
    return Inventory(facts, tuple(problems), tuple(notes))


def read_column(path: Path, names: Sequence[str]) -> dict[str, str]:
    """What a labels file, or that of a folder, says in the first of these columns, by case; empty where it is not."""
    csv = path if is_there(path) else find_csv(path) or find_csv(path / "train")
    if csv is None:
        return {}
    found = {}
    for record in read_records(csv):
        if text := _first_text(record.texts, names):
            found[record.file] = text
    return found


def read_records(csv: Path) -> Iterator[Record]:
    """The rows of a labels file; header case and `,` or `;` do not matter. DataError at the first that does not fit."""
    lines: dict[str, int] = {}
    for record in _all_records(csv):
        if record.fault:
            raise DataError(f"line {record.line}: {record.fault}", file=csv)
        if record.file in lines:
            what = f"{record.file} is duplicated, first on line {lines[record.file]}: remove one of the rows"
            raise DataError(f"line {record.line}: {what}", file=csv)
        lines[record.file] = record.line
        yield record


def _all_records(csv: Path) -> Iterator[Record]:
    """The same with the rows that do not fit."""
    try:
        rows = read_rows(csv, delimiters=",;")
        header = next(rows, None)
        names = [(cell or "").strip().lower() for cell in header.cells] if header else []
        if not any(name in FILE_COLUMNS for name in names):
            raise TableError(f"no file column; expected one of {', '.join(FILE_COLUMNS)}", 1)
        if twice := [name for name, count in Counter(names).items() if name and count > 1]:
            raise TableError(f"the column {twice[0]!r} is duplicated: remove one of them", 1)
        for row in rows:
            texts = dict(zip(names, ((cell or "").strip() for cell in row.cells), strict=False))
            yield Record(row.line, texts, _fault_of(row, len(names), texts))
    except TableError as error:
        raise DataError(str(error.problem), file=csv) from None


def _fault_of(row: Row, expected: int, texts: Mapping[str, str]) -> str:
    if len(row.cells) != expected:
        return f"{counted(len(row.cells), 'field')}, the header has {expected}"
    if any("\ud800" <= letter <= "\udfff" for letter in "".join(texts.values())):  # how read_rows shows such bytes
        return "not UTF-8 text: save the file as UTF-8"
    return "" if any(texts.get(name) for name in FILE_COLUMNS) else "no file name"


def find_csv(folder: Path) -> Path | None:
    """`labels.csv`, or the only CSV file of a folder that has a file column."""
    if is_there(folder / "labels.csv"):
        return folder / "labels.csv"
    found = [path for path in _list_csv(folder) if "submission" not in path.name]
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise DataError(f"several CSV files ({names}): name the one with the labels labels.csv", file=folder)
    return found[0] if found else None


def _list_csv(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.csv")) if is_there(path) and not path.name.startswith(".")]


def read_demographics(texts: Mapping[str, str]) -> dict[str, float | str | int | None]:
    """Age in years, gender `m` or `f`, location 1 to 7; None where unknown. ValueError says what is wrong."""
    return {name: read(_first_text(texts, DEMOGRAPHIC_COLUMNS[name])) for name, read in _DEMOGRAPHICS.items()}


def _first_text(texts: Mapping[str, str], names: Sequence[str]) -> str:
    """What the first of these columns says that says anything."""
    return next((texts[name] for name in names if texts.get(name)), "")


def _read_age(text: str) -> float | None:
    if text.lower() in _UNKNOWN:
        return None
    if not re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{0,9})?", text):
        raise ValueError(f"age {text[:20]!r} is not a number; leave it empty where unknown")
    age = float(text)
    if not 0 <= age <= MAX_AGE:
        raise ValueError(f"age {text} is out of range; expected 0 to {MAX_AGE}")
    return age


def _read_gender(text: str) -> str | None:
    if text.lower() in _UNKNOWN:
        return None
    gender = text.lower().removesuffix(".0")  # a column of numbers with gaps is written as 1.0
    if gender not in _GENDERS:
        raise ValueError(f"gender {text!r}; expected m, f, male, female or nothing")
    return _GENDERS[gender]


def _read_location(text: str) -> int | None:
    if text.lower() in _UNKNOWN:
        return None
    if text.lower() in LOCATIONS:
        return LOCATIONS.index(text.lower()) + 1
    number = text.removesuffix(".0")
    if len(number) == 1 and "1" <= number <= str(len(LOCATIONS)):
        return int(number)
    raise ValueError(f"location {text!r}; expected 1 to 7 or one of {', '.join(LOCATIONS)}, or nothing")


_DEMOGRAPHICS: Mapping[str, Callable[[str], float | str | int | None]] = {
    "age": _read_age,
    "gender": _read_gender,
    "location": _read_location,
}


def _part_folder(folder: Path, part: Part) -> Path | None:
    if any((folder / name).is_dir() for name in ("train", "test")):
        return folder / part if (folder / part).is_dir() else None
    if not folder.is_dir():
        raise DataError("no such folder", file=folder)
    return folder if (part == "train") == _has_labels(folder) else None


def _has_labels(folder: Path) -> bool:
    csv = find_csv(folder)
    first = next(read_records(csv), None) if csv else None
    return first is not None and _any_label(first) is not None


def _image_folder(root: Path) -> Path:
    return root / "images" if (root / "images").is_dir() else root


def _photograph(root: Path, name: str) -> Path:
    beside = root / name
    return beside if is_there(beside) else _image_folder(root) / name


def _case(record: Record, source: Path) -> Case:
    """`source` is the CSV of the record, or the folder of a photograph without one."""
    try:
        details = read_demographics(record.texts)
    except ValueError as error:
        raise DataError(f"line {record.line}: {error}", file=source) from None
    root = source if source.is_dir() else source.parent
    group = _first_text(record.texts, GROUP_COLUMNS) or record.file
    return Case(record.file, _photograph(root, record.file), None, group, details)


def _with_lesions(csv: Path, records: Sequence[Record]) -> list[Case]:
    """The cases of a table; `details` name all photographs of a lesion that has several."""
    cases = [_case(record, csv) for record in records]
    paths: dict[str, list[Path]] = {}
    for record, case in zip(records, cases, strict=True):
        paths.setdefault(record.texts.get(LESION_COLUMN, ""), []).append(case.path)
    found = []
    for record, case in zip(records, cases, strict=True):
        lesion = record.texts.get(LESION_COLUMN, "")
        several = bool(lesion) and len(paths[lesion]) > 1
        found.append(replace(case, details={**case.details, LESION: tuple(paths[lesion])}) if several else case)
    return found


def _survey_part(folder: Path, root: Path, part: Part, facts: dict[str, str], problems: list[Problem]) -> None:
    pictures = list_images(_image_folder(root))
    tally = _Tally()
    try:
        if csv := find_csv(root):
            _survey_csv(folder, csv, part, tally, problems)
        elif part == "train":
            problems.append(Problem("no labels.csv: expected filename,label", file=inside(root, folder)))
        listed = {Path(name).name for name in tally.lines} if csv else {path.name for path in pictures}
    except DataError as error:  # the table ends there: who has no row cannot be said
        problems.append(error.problem(folder))
        listed = {path.name for path in pictures}
    pictures += sorted(tally.photographs - set(pictures))
    facts[f"{part} photographs"] = f"{len(pictures):,}"
    _survey_pictures(folder, pictures, part, facts, problems)
    if tally.lines:
        unknown = "".join(f", {name} unknown: {n:,}" for name, n in tally.unknown.items() if n)
        facts[f"{part} rows"] = f"{len(tally.lines):,}{unknown}"
    if tally.classes:
        facts[f"{part} classes"] = ", ".join(f"{name} {count:,}" for name, count in tally.classes.most_common())
    without = [path for path in pictures if path.name not in listed]
    problems += [Problem("no row in the CSV for it: add one", file=inside(path, folder)) for path in without]


def _survey_pictures(
    folder: Path, pictures: Sequence[Path], part: Part, facts: dict[str, str], problems: list[Problem]
) -> None:
    sizes: Counter[tuple[int, int]] = Counter()
    for path in pictures:
        try:
            header = read_header(path)
            sizes[header.shape] += 1
            if header.mode not in ("RGB", "L"):
                what = f"mode {header.mode}; expected RGB without alpha: save it as RGB"
                problems.append(Problem(what, file=inside(path, folder)))
        except DataError as error:
            problems.append(error.problem(folder))
    if sizes:
        facts[f"{part} sizes (height x width)"] = ", ".join(f"{shown(s)}: {n:,}" for s, n in sizes.most_common(4))
    if small := sum(count for shape, count in sizes.items() if min(shape) < SMALL_SIDE):
        facts[f"{part} warning"] = f"{small:,} photographs have a side under {SMALL_SIDE}; they are read all the same"


@dataclass(frozen=True, slots=True)
class _Tally:
    """What the rows of a CSV said so far: file to first line, photographs that are there, classes, unknowns."""

    lines: dict[str, int] = field(default_factory=dict)
    photographs: set[Path] = field(default_factory=set)
    classes: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)


def _survey_csv(folder: Path, csv: Path, part: Part, tally: _Tally, problems: list[Problem]) -> None:
    name = inside(csv, folder)
    labelled = False
    for record in _all_records(csv):
        label = _any_label(record)
        labelled |= label is not None or bool(record.fault)
        problems += [
            Problem(what, file=name, line=record.line, id=record.file)
            for what in _faults(record, label, csv.parent, tally)
        ]
    if part == "train" and not labelled:
        problems.append(Problem("no rows with a label: expected the columns filename,label", file=name))


def _faults(record: Record, label: str | None, root: Path, tally: _Tally) -> Iterator[str]:
    """What is wrong with a row; the sound part of it is added to the tally."""
    if record.file and record.file in tally.lines:
        yield f"this file is duplicated, first on line {tally.lines[record.file]}: remove one of the rows"
    tally.lines.setdefault(record.file, record.line)
    if record.fault:
        yield record.fault
        return
    photograph = _photograph(root, record.file)
    if is_there(photograph):
        tally.photographs.add(photograph)
    else:
        yield "no such photograph: add it or remove the row"
    if label is not None:
        tally.classes[label] += 1
        if not any(label in taxonomy.classes for taxonomy in TAXONOMIES.values()):
            yield f"unknown class {label!r}; the classes are {', '.join(TAXONOMIES['ten'].classes)}"
    for name, read in _DEMOGRAPHICS.items():
        try:
            tally.unknown[name] += read(_first_text(record.texts, DEMOGRAPHIC_COLUMNS[name])) is None
        except ValueError as error:
            yield str(error)


def _any_label(record: Record) -> str | None:
    """The label of the first edition that has a column here."""
    labels = (record.label(taxonomy) for taxonomy in TAXONOMIES.values())
    return next((label for label in labels if label is not None), None)
