"""Typed settings: fields with a type, a range, a default and a sentence, validated by msgspec, named in `--help`.

A challenge has one `Settings` class; `setting(...)` marks which commands offer a field as an option. Settings of a
training may hold other settings, such as those of its augmentation; `--set augmentation.stain=0.3` reaches into them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from handlens.errors import HandlensError, did_you_mean

SettingsT = TypeVar("SettingsT", bound="Settings")


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all settings: immutable, by keyword only, unknown names are refused.

    Made directly, values are trusted; made by `parse`, they are checked.
    """

    @classmethod
    def parse(cls: type[SettingsT], given: Mapping[str, Any], *, strict: bool = True) -> SettingsT:
        """Checked settings of plain values; HandlensError says which is wrong and what is expected.

        Without `strict` numbers and booleans may be texts, as on a command line.
        """
        try:
            settings = msgspec.convert(given, cls, strict=strict, dec_hook=_decode)
        except msgspec.ValidationError as error:
            raise HandlensError(_explain(cls, given, str(error))) from None
        for name, value in _leaves(settings.plain()):
            if isinstance(value, float) and not math.isfinite(value):
                raise HandlensError(f"{name} is {value}; expected a finite number")
        return settings

    def plain(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        page: dict[str, Any] = msgspec.to_builtins(self, enc_hook=str)
        return page

    def replace(self: SettingsT, **changes: Any) -> SettingsT:
        """The same with some fields changed."""
        return msgspec.structs.replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Field:
    """One field as a command line or a page shows it; `path` is its name, with dots inside nested settings."""

    path: str
    type: Any
    default: Any
    help: str
    commands: tuple[str, ...]
    minimum: float | None = None
    maximum: float | None = None
    multiple: int | None = None

    @property
    def choices(self) -> tuple[Any, ...]:
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def expected(self) -> str:
        """What a value of it looks like."""
        if self.choices:
            return f"one of {', '.join(map(str, self.choices))}"
        if self.type is bool:
            return "true or false"
        if get_origin(self.type) is tuple:
            return "a list"
        nouns = {int: "a whole number", float: "a number", Path: "a path", str: "text"}
        words = ["names with texts" if get_origin(self.type) is dict else nouns.get(self.type, str(self.type))]
        if self.multiple is not None:
            words = [f"a multiple of {self.multiple}"]
        if self.minimum is not None and self.maximum is not None:
            words.append(f"from {self.minimum:g} to {self.maximum:g}")
        elif self.minimum is not None:
            words.append(f"of at least {self.minimum:g}")
        elif self.maximum is not None:
            words.append(f"of at most {self.maximum:g}")
        return " ".join(words)


def setting(
    help: str,
    *commands: str,
    ge: float | None = None,
    le: float | None = None,
    multiple_of: int | None = None,
) -> msgspec.Meta:
    """What is said about a field, for `Annotated`: a sentence, its range, and the commands that offer it."""
    return msgspec.Meta(
        ge=ge, le=le, multiple_of=multiple_of, description=help, extra={"commands": commands} if commands else None
    )


def fields_of(settings: type[Settings] | Settings, prefix: str = "") -> Iterator[Field]:
    """Every field, those of nested settings too; defaults are those of an instance where one is given."""
    cls = settings if isinstance(settings, type) else type(settings)
    hints = get_type_hints(cls, include_extras=True)
    for each in msgspec.structs.fields(cls):
        default = getattr(settings, each.name) if not isinstance(settings, type) else _default(each)
        type_, meta = _unpack(hints[each.name])
        path = f"{prefix}{each.name}"
        if isinstance(type_, type) and issubclass(type_, Settings):
            yield from fields_of(default if isinstance(default, Settings) else type_, f"{path}.")
            continue
        extra = (meta.extra or {}) if meta else {}
        text, commands = (meta.description or "") if meta else "", tuple(extra.get("commands", ()))
        multiple = int(meta.multiple_of) if meta and meta.multiple_of else None
        limits = (meta.ge, meta.le) if meta else (None, None)
        yield Field(path, type_, default, text, commands, *limits, multiple)


def change(settings: SettingsT, given: Mapping[str, str]) -> SettingsT:
    """Settings with the fields that `--set NAME=VALUE` names changed; texts are converted and checked.

    A field of nested settings may be named without its prefix, where only one has that name.
    """
    known = [field.path for field in fields_of(settings)]
    page = settings.plain()
    for name, text in given.items():
        found = [path for path in known if path == name] or [path for path in known if path.split(".")[-1] == name]
        if not found:
            raise HandlensError(unknown_field([name], sorted(known)))
        if len(found) > 1:
            raise HandlensError(f"{name} may be {' or '.join(found)}: name one of them whole")
        *groups, last = found[0].split(".")
        place = page
        for group in groups:
            place = place[group]
        place[last] = text
    return type(settings).parse(page, strict=False)


def unknown_field(names: Sequence[str], known: Sequence[str]) -> str:
    """What to say of fields that settings do not have; the known ones are listed, the nearest one is offered."""
    nearest = next(filter(None, (did_you_mean(name, known) for name in names)), "")
    return f"there is no field {', '.join(names)}; there are {', '.join(known) or 'none'}{nearest}"


def require_order(settings: Settings, low: str, high: str) -> None:
    """HandlensError where the field `low` is above the field `high`."""
    if not getattr(settings, low) <= getattr(settings, high):
        found = f"{low} {getattr(settings, low)}, {high} {getattr(settings, high)}"
        raise HandlensError(f"{found}; expected {low} to be the smaller one")


def _default(field: Any) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else None


def _unpack(hint: Any) -> tuple[Any, msgspec.Meta | None]:
    """The type of a field without `None`, and what is said about it."""
    meta = None
    if get_origin(hint) is Annotated:
        hint, *said = get_args(hint)
        meta = next((each for each in said if isinstance(each, msgspec.Meta)), None)
    options = [each for each in get_args(hint) if each is not type(None)] if get_origin(hint) is not Literal else []
    if len(options) == 1 and type(None) in get_args(hint):
        inner, inner_meta = _unpack(options[0])
        return inner, meta or inner_meta
    return hint, meta


def _leaves(given: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in given.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _decode(type_: type[Any], value: Any) -> Any:
    """A path is whole from here on: a run that is resumed from elsewhere must find it."""
    return Path(value).absolute() if type_ is Path else type_(value)


def _explain(cls: type[Settings], given: Mapping[str, Any], message: str) -> str:
    """msgspec's message in terms of the field: its value, and what is expected of it."""
    unknown = re.search(r"unknown field `([^`]*)`", message)
    if unknown:
        return unknown_field([unknown[1]], [field.path for field in fields_of(cls)])
    missing = re.search(r"missing required field `([^`]*)`(?: - at `\$\.([\w.]+)`)?", message)
    if missing:
        path = ".".join(filter(None, (missing[2], missing[1])))
        field = next(each for each in fields_of(cls) if each.path == path)
        return f"{path} is missing; expected {field.expected}"
    place = re.search(r"`\$\.([\w.]+)(?:\[[^`]*)?`", message)
    if place is None:
        return message
    value: Any = given
    for name in place[1].split("."):
        value = value[name]
    expected = next((each.expected for each in fields_of(cls) if each.path == place[1]), "a mapping of its fields")
    return f"{place[1]} is {value!r}; expected {expected}"
