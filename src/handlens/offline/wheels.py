"""Wheels: our own, those of what it needs, which of them fit a Python and a platform, and their licences."""

from __future__ import annotations

import ast
import base64
import hashlib
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path

from handlens.errors import DataError, HandlensError

NAME = "handlens"
SINCE = (1980, 1, 1, 0, 0, 0)
"""Time of every file in our wheel: the same files make the same bytes."""

ALIASES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
"""Older names of manylinux_2_N."""


@dataclass(frozen=True, slots=True)
class Target:
    """The Python and platform that wheels are for; None is the one that runs this."""

    python: str | None = None
    platform: str | None = None

    def __post_init__(self) -> None:
        if self.python is not None and not re.fullmatch(r"3\.\d{1,2}", self.python):
            raise HandlensError(f"--python {self.python}; expected a version such as 3.11")
        if self.platform is not None and not re.fullmatch(r"[a-z0-9_]+", self.platform):
            raise HandlensError(
                f"--platform {self.platform}; expected a wheel's platform, such as manylinux_2_28_x86_64"
            )

    @property
    def version(self) -> str:
        return self.python or f"{sys.version_info.major}.{sys.version_info.minor}"

    @property
    def platforms(self) -> list[str]:
        """The platform and all older ones whose wheels run on it.

        >>> Target(platform="manylinux_2_18_x86_64").platforms[:3]
        ['manylinux_2_18_x86_64', 'manylinux_2_17_x86_64', 'manylinux2014_x86_64']
        """
        if self.platform is None:
            return []
        found = re.fullmatch(r"manylinux_2_(\d+)_(\w+)", self.platform)
        if not found:
            return [self.platform]
        newest, machine = int(found[1]), found[2]
        names = []
        for minor in range(newest, 4, -1):
            names.append(f"manylinux_2_{minor}_{machine}")
            names += [f"{ALIASES[minor]}_{machine}"] if minor in ALIASES else []
        return [*names, f"linux_{machine}"]

    def tags(self) -> frozenset[object]:
        """Every tag that a wheel may have to be installed there."""
        from packaging import tags

        if self.python is None and self.platform is None:
            return frozenset(tags.sys_tags())
        version = tuple(int(part) for part in self.version.split("."))
        places = self.platforms or list(tags.platform_tags())
        interpreter = f"cp{''.join(map(str, version))}"
        return frozenset(
            [*tags.cpython_tags(version, platforms=places), *tags.compatible_tags(version, interpreter, places)]
        )

    def markers(self) -> dict[str, str]:
        """What environment markers are compared with."""
        from packaging.markers import default_environment

        found: dict[str, str] = {name: str(value) for name, value in default_environment().items()}
        if self.python is not None:
            found |= {"python_version": self.python, "python_full_version": f"{self.python}.0"}
        if self.platform is not None and "linux" in self.platform:
            machine = "aarch64" if self.platform.endswith("aarch64") else "x86_64"
            found |= {
                "sys_platform": "linux",
                "platform_system": "Linux",
                "os_name": "posix",
                "platform_machine": machine,
            }
        return found

    def options(self) -> list[str]:
        """For pip."""
        version = ["--python-version", self.python, "--implementation", "cp"] if self.python else []
        return [*version, *(word for name in self.platforms for word in ("--platform", name))]


@dataclass(frozen=True, slots=True)
class Wheel:
    """What the metadata of a wheel say."""

    path: Path
    name: str
    version: str
    licence: str
    requires: tuple[str, ...]
    tags: frozenset[object]


def read_wheel(path: Path) -> Wheel:
    """Name, version, licence and requirements of a wheel; DataError where it is none."""
    from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

    try:
        name, version, _, tags = parse_wheel_filename(path.name)
        with zipfile.ZipFile(path) as archive:
            inside = next(item for item in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", item))
            page = HeaderParser().parsestr(archive.read(inside).decode("utf-8", "replace"))
    except (InvalidWheelFilename, zipfile.BadZipFile, StopIteration, OSError) as error:
        raise DataError(f"no wheel ({error}): build the bundle again", file=path) from None
    return Wheel(
        path, canonicalize_name(name), str(version), licence_of(page), tuple(page.get_all("Requires-Dist") or ()), tags
    )


def licence_of(page: Message) -> str:
    """The licence that metadata state, in one line; `unknown` where they say nothing."""
    if stated := page.get("License-Expression"):
        return str(stated)
    classifiers = [
        text.rpartition(" :: ")[2] for text in page.get_all("Classifier") or () if text.startswith("License ::")
    ]
    first = (str(page.get("License") or "").strip().splitlines() or [""])[0]
    if first and len(first) <= 60:
        return first
    return ", ".join(name for name in classifiers if name != "OSI Approved") or first[:60] or "unknown"


def build_own_wheel(folder: Path) -> Path:
    """A wheel of this program as it is installed here, without compiling anything; the same files, the same bytes."""
    import handlens

    found = metadata.distribution(NAME)
    root = Path(handlens.__file__).parent
    _refuse_stale(found, root.parents[1] / "pyproject.toml")
    info = f"{NAME}-{found.version}.dist-info"
    files: dict[str, bytes] = {
        f"{NAME}/{path.relative_to(root).as_posix()}": path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }
    files[f"{info}/METADATA"] = (found.read_text("METADATA") or found.read_text("PKG-INFO") or "").encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: handlens\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = (found.read_text("entry_points.txt") or "").encode()
    for path in found.files or ():
        if "licenses" in path.parts and (text := found.read_text("/".join(path.parts[1:]))):
            files[f"{info}/{'/'.join(path.parts[1:])}"] = text.encode()
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    files[f"{info}/RECORD"] = "".join(f"{line}\n" for line in [*lines, f"{info}/RECORD,,"]).encode()
    target = folder / f"{NAME}-{found.version}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            item = zipfile.ZipInfo(name, SINCE)
            item.external_attr = 0o644 << 16
            archive.writestr(item, content, zipfile.ZIP_DEFLATED)
    return target


def _refuse_stale(found: metadata.Distribution, project: Path) -> None:
    """HandlensError where the sources lie in a checkout that states other requirements than those installed."""
    from packaging.requirements import Requirement

    if not project.is_file():
        return
    page = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
    if page.get("name") != NAME:
        return
    extras = page.get("optional-dependencies", {})
    stated = {str(Requirement(text)) for text in page.get("dependencies", ())}
    stated |= {str(_under_extra(text, extra)) for extra, texts in extras.items() for text in texts}
    installed = {str(Requirement(text)) for text in found.requires or ()}
    if stated != installed or page.get("version") != found.version:
        other = ", ".join(sorted(stated ^ installed)) or f"version {page.get('version')}, installed {found.version}"
        raise HandlensError(
            f"{project}: changed since handlens was installed ({other}): install it again (pip install -e .), so that"
            " the wheel states what the program needs"
        )


def _under_extra(text: str, extra: str) -> object:
    """A requirement as metadata state it for an extra."""
    from packaging.requirements import Requirement

    plain, _, marker = text.partition(";")
    both = f"({marker.strip()}) and " if marker.strip() else ""
    return Requirement(f'{plain}; {both}extra == "{extra}"')


def undeclared_imports(own: Wheel, wheels: Iterable[Wheel], provided: Iterable[str]) -> list[str]:
    """Modules that the code of our wheel imports and that neither its requirements nor the other wheels bring."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    known = {canonicalize_name(Requirement(text).name) for text in own.requires} | set(provided)
    known |= {wheel.name for wheel in wheels}
    bring = metadata.packages_distributions()
    problems = []
    for module, file in sorted(_imports(own.path).items()):
        names = {canonicalize_name(name) for name in bring.get(module, [module])}
        if module != NAME and module not in sys.stdlib_module_names and not names & known:
            problems.append(f"{own.path.name}: {file} imports {module}, which the wheel's requirements do not name")
    return problems


def _imports(path: Path) -> dict[str, str]:
    """The top-level modules that the Python files of a wheel import, each with one file that does."""
    found: dict[str, str] = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            for node in ast.walk(ast.parse(archive.read(name))) if name.endswith(".py") else ():
                modules = [each.name for each in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    modules = [node.module]
                for module in modules:
                    found.setdefault(module.partition(".")[0], name)
    return found


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def download_wheels(
    own: Path, folder: Path, target: Target, provided: Mapping[str, str], extras: Sequence[str]
) -> None:
    """The wheels that ours needs on the target, with pip, in the versions that are installed here where they fit.

    What is `provided` is left out; a version that it states binds the others.
    """
    if not missing_from([read_wheel(own)], target, provided, extras):
        return  # nothing is left to fetch
    wanted = f"{own}[{','.join(extras)}]" if extras else str(own)
    pins = {**_installed(), **{name: version for name, version in provided.items() if version}}
    constraints = folder / ".constraints.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in sorted(pins.items()) if version))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", str(folder)]
    try:
        done = subprocess.run(
            [*command, "--constraint", str(constraints), *target.options(), wanted],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError as error:
        raise HandlensError(f"pip cannot be started: {error}") from None
    finally:
        constraints.unlink()
    if done.returncode:
        lines = [
            line for line in done.stderr.strip().splitlines() if line.startswith("ERROR")
        ] or done.stderr.splitlines()
        what = f"pip finds no wheels for Python {target.version}{f' on {target.platform}' if target.platform else ''}"
        raise HandlensError("\n  ".join([what, *lines[-3:]]))
    for path in sorted(folder.glob("*.whl")):
        if read_wheel(path).name in provided:
            path.unlink()


def _installed() -> dict[str, str]:
    from packaging.utils import canonicalize_name

    found = {
        canonicalize_name(each.metadata["Name"]): each.version for each in metadata.distributions() if each.metadata
    }
    # A local version, such as of torch for the CPU, is on no index.
    return {name: version for name, version in found.items() if name != NAME and "+" not in version}


def read_provided(text: str | None) -> dict[str, str]:
    """`numpy,scipy`, or a file with lines as `pip freeze` prints them: versions by name, empty where none is said."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    if not text:
        return {}
    lines = Path(text).read_text(encoding="utf-8").splitlines() if Path(text).is_file() else text.split(",")
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        plain = line.partition("#")[0].split(" @ ")[0].strip()
        if not plain or plain.startswith("-"):
            continue
        try:
            requirement = Requirement(plain)
        except InvalidRequirement:
            raise HandlensError(
                f"--provided: {plain!r} (entry {number}) names no package; expected NAME or NAME==VERSION"
            ) from None
        pins = [each.version for each in requirement.specifier if each.operator == "=="]
        found[canonicalize_name(requirement.name)] = pins[0] if pins else ""
    return found


def missing_from(wheels: Iterable[Wheel], target: Target, provided: Iterable[str], extras: Sequence[str]) -> list[str]:
    """What is wrong with a set of wheels: requirements that nothing meets, wheels that do not fit the target."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    have = {wheel.name: wheel for wheel in wheels}
    tags, markers, given = target.tags(), target.markers(), set(provided)
    problems = [f"{wheel.path.name} does not fit the target" for wheel in have.values() if not wheel.tags & tags]
    if NAME not in have:
        problems.append(f"no wheel of {NAME} is there")
    asked: dict[str, set[str]] = {NAME: set(extras)}
    queue = list(have.values())
    while queue:
        wheel = queue.pop(0)
        chosen = ("", *sorted(asked.get(wheel.name, ())))
        for text in wheel.requires:
            needed = Requirement(text)
            if needed.marker and not any(needed.marker.evaluate({**markers, "extra": extra}) for extra in chosen):
                continue
            name = canonicalize_name(needed.name)
            if name in given:
                continue
            if name in have and not needed.extras <= asked.setdefault(name, set()):
                asked[name] |= needed.extras
                queue.append(have[name])  # once more, with what these extras need
            if name not in have:
                problems.append(f"{wheel.name} needs {needed}, which is not there")
            elif not needed.specifier.contains(have[name].version, prereleases=True):
                problems.append(f"{wheel.name} needs {needed}, there is {have[name].version}")
    return list(dict.fromkeys(problems))
