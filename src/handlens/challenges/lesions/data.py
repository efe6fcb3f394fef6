"""Where the lesions challenge keeps its photographs and what its CSV files say, in all their spellings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from handlens.challenges.lesions.taxonomy import LOCATIONS, TAXONOMIES, Taxonomy
from handlens.errors import DataError, Problem
from handlens.images import list_images, read_header, shown
from handlens.table import TableError, read_rows
from handlens.types import Case, Inventory, Part, Settings, Truth

FILE_COLUMNS = ("newfilename", "filepath", "filename", "image_path")
GROUP_COLUMNS = ("lesion_id", "patient_id", "group")
MAX_AGE = 120
SMALL_SIDE = 512
"""Shorter side that the contest asks for; smaller photographs are read all the same."""

_GENDERS = {"m": "m", "male": "m", "1": "m", "f": "f", "female": "f", "0": "f"}
_UNKNOWN = ("", "-1", "unknown", "nan", "none", "na")


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a labels file: texts by column name in small letters."""

    line: int
    texts: Mapping[str, str]

    @property
    def file(self) -> str:
        return next((self.texts[name] for name in FILE_COLUMNS if name in self.texts), "")

    def label(self, taxonomy: Taxonomy) -> str | None:
        """The class as written in the taxonomy; the text itself where it is no class; None without a label column."""
        column = next((name.lower() for name in taxonomy.label_columns if name.lower() in self.texts), None)
        if column is None:
            return None
        text = self.texts[column]
        return next((name for name in taxonomy.classes if name.lower() == text.lower()), text)


def read_cases(folder: Path, part: Part) -> list[Case]:
    """The photographs of one part, in the order of its CSV; a folder of pictures without CSV is a test part."""
    root = _part_folder(folder, part)
    if root is None:
        return []
    csv = find_csv(root)
    if csv is None:
        return [_case(Record(0, {"filename": path.name}), root) for path in list_images(_image_folder(root))]
    return [_case(record, root) for record in read_records(csv)]


def open_truth(path: Path, settings: Settings) -> Truth:
    """A labels file, or a folder with one."""
    taxonomy = TAXONOMIES[settings["taxonomy"]]
    csv = path if path.is_file() else find_csv(path) or find_csv(path / "train")
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
        if record.file in labels:
            raise DataError(f"line {record.line}: {record.file} is there twice", file=csv)
        labels[record.file] = label
        cases.append(_case(record, csv.parent))
    if not cases:
        raise DataError("no rows under the header", file=csv)
    return Truth(tuple(cases), lambda case: labels[case.id])


def inspect(folder: Path) -> Inventory:
    """Photographs, classes, demographics, and what is wrong, from headers and the CSV."""
    facts: dict[str, str] = {}
    problems: list[Problem] = []
    parts: tuple[Part, ...] = ("train", "test")
    for part in parts:
        if (root := _part_folder(folder, part)) is not None:
            _inspect_part(folder, root, part, facts, problems)
    if not facts:
        problems.append(Problem("no labels.csv and no photographs here or under train/ or test/", file=str(folder)))
    return Inventory(facts, tuple(problems))


def read_records(csv: Path) -> Iterator[Record]:
    """The rows of a labels file; header case and `,` or `;` do not matter."""
    try:
        rows = read_rows(csv, delimiters=",;")
        header = next(rows, None)
        names = [(cell or "").strip().lower() for cell in header.cells] if header else []
        if not any(name in FILE_COLUMNS for name in names):
            raise TableError(f"no file column; expected one of {', '.join(FILE_COLUMNS)}", 1)
        for row in rows:
            if len(row.cells) != len(names):
                raise TableError(f"{len(row.cells)} fields, the header has {len(names)}", row.line)
            yield Record(row.line, dict(zip(names, ((cell or "").strip() for cell in row.cells), strict=True)))
    except TableError as error:
        raise DataError(str(error.problem), file=csv) from None


def find_csv(folder: Path) -> Path | None:
    """`labels.csv`, or the only CSV file of a folder that has a file column."""
    if (folder / "labels.csv").is_file():
        return folder / "labels.csv"
    found = [path for path in sorted(folder.glob("*.csv")) if "submission" not in path.name]
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise DataError(f"several CSV files ({names}): name the one with the labels labels.csv", file=folder)
    return found[0] if found else None


def read_demographics(texts: Mapping[str, str]) -> dict[str, float | str | int | None]:
    """Age in years, gender `m` or `f`, location 1 to 7; None where unknown. ValueError says what is wrong."""
    return {
        "age": _read_age(texts.get("age", "")),
        "gender": _read_gender(texts.get("gender", "")),
        "location": _read_location(texts.get("location", "")),
    }


def _read_age(text: str) -> float | None:
    if text.lower() in _UNKNOWN:
        return None
    try:
        age = float(text)
    except ValueError:
        raise ValueError(f"age {text!r} is not a number; leave it empty where unknown") from None
    if not 0 <= age <= MAX_AGE:
        raise ValueError(f"age {text} is out of range; expected 0 to {MAX_AGE}")
    return age


def _read_gender(text: str) -> str | None:
    if text.lower() in _UNKNOWN:
        return None
    if text.lower() not in _GENDERS:
        raise ValueError(f"gender {text!r}; expected m, f, male, female or nothing")
    return _GENDERS[text.lower()]


def _read_location(text: str) -> int | None:
    if text.lower() in _UNKNOWN:
        return None
    if text.lower() in LOCATIONS:
        return LOCATIONS.index(text.lower()) + 1
    if text.isascii() and text.isdigit() and 1 <= int(text) <= len(LOCATIONS):
        return int(text)
    raise ValueError(f"location {text!r}; expected 1 to 7 or one of {', '.join(LOCATIONS)}, or nothing")


def _part_folder(folder: Path, part: Part) -> Path | None:
    if any((folder / name).is_dir() for name in ("train", "test")):
        return folder / part if (folder / part).is_dir() else None
    if not folder.is_dir():
        raise DataError("no such folder", file=folder)
    return folder if (part == "train") == _has_labels(folder) else None


def _has_labels(folder: Path) -> bool:
    csv = find_csv(folder)
    first = next(read_records(csv), None) if csv else None
    return first is not None and any(first.label(taxonomy) is not None for taxonomy in TAXONOMIES.values())


def _image_folder(root: Path) -> Path:
    return root / "images" if (root / "images").is_dir() else root


def _photograph(root: Path, name: str) -> Path:
    beside = root / name
    return beside if beside.is_file() else _image_folder(root) / name


def _case(record: Record, root: Path) -> Case:
    try:
        details = read_demographics(record.texts)
    except ValueError as error:
        raise DataError(f"line {record.line}: {error}", file=root) from None
    group = next((record.texts[name] for name in GROUP_COLUMNS if record.texts.get(name)), record.file)
    return Case(record.file, _photograph(root, record.file), None, group, details)


def _inspect_part(folder: Path, root: Path, part: Part, facts: dict[str, str], problems: list[Problem]) -> None:
    csv = find_csv(root)
    pictures = {path.name: path for path in list_images(_image_folder(root))}
    facts[f"{part} photographs"] = f"{len(pictures):,}"
    _inspect_pictures(folder, pictures, part, facts, problems)
    if csv is None:
        return
    classes: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    seen: dict[str, int] = {}
    try:
        for record in read_records(csv):
            _inspect_record(record, csv.relative_to(folder), root, seen, classes, unknown, problems)
    except DataError as error:
        problems.append(error.problem(folder))
    facts[f"{part} rows"] = f"{len(seen):,}" + "".join(f", {name} unknown: {n:,}" for name, n in unknown.items())
    if classes:
        facts[f"{part} classes"] = ", ".join(f"{name} {count:,}" for name, count in classes.most_common())
    listed = {Path(name).name for name in seen}
    without = sorted(set(pictures) - listed)
    problems += [Problem("no row in the CSV for it", file=str(pictures[name].relative_to(folder))) for name in without]


def _inspect_pictures(
    folder: Path, pictures: Mapping[str, Path], part: Part, facts: dict[str, str], problems: list[Problem]
) -> None:
    sizes: Counter[tuple[int, int]] = Counter()
    for path in pictures.values():
        try:
            header = read_header(path)
            sizes[header.shape] += 1
            if header.mode not in ("RGB", "L"):
                what = f"mode {header.mode}; expected RGB without alpha: save it as RGB"
                problems.append(Problem(what, file=str(path.relative_to(folder))))
        except DataError as error:
            problems.append(error.problem(folder))
    if sizes:
        facts[f"{part} sizes (height x width)"] = ", ".join(f"{shown(s)}: {n:,}" for s, n in sizes.most_common(4))
    if small := sum(count for shape, count in sizes.items() if min(shape) < SMALL_SIDE):
        facts[f"{part} warning"] = f"{small:,} photographs have a side under {SMALL_SIDE}; they are read all the same"


def _inspect_record(
    record: Record,
    csv: Path,
    root: Path,
    seen: dict[str, int],
    classes: Counter[str],
    unknown: Counter[str],
    problems: list[Problem],
) -> None:
    def report(what: str) -> None:
        problems.append(Problem(what, file=str(csv), line=record.line, id=record.file))

    if record.file in seen:
        report(f"this file is there twice, first on line {seen[record.file]}")
    seen.setdefault(record.file, record.line)
    if not record.file or not _photograph(root, record.file).is_file():
        report("no such photograph: add it or remove the row")
    label = record.label(TAXONOMIES["ten"])
    if label is not None:
        classes[label] += 1
        if not any(label in taxonomy.classes for taxonomy in TAXONOMIES.values()):
            report(f"unknown class {label!r}; the classes are {', '.join(TAXONOMIES['ten'].classes)}")
    try:
        unknown.update(name for name, value in read_demographics(record.texts).items() if value is None)
    except ValueError as error:
        report(str(error))
