"""Commands with a sub-command for each challenge, which has that challenge's own options."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin

import click

from handlens.cli.options import PATH
from handlens.cli.output import with_verbosity
from handlens.errors import HandlensError
from handlens.settings import Field, fields_of

if TYPE_CHECKING:
    from handlens.types import AnyChallenge


HELP_WIDTH = 80
"""Columns of help texts: what the narrowest usual terminal has."""


class ChallengeGroup(click.Group):
    """A command with a sub-command for each challenge that supports it, built when it is needed."""

    def __init__(
        self,
        name: str,
        build: Callable[[AnyChallenge], click.Command],
        usage: str,
        text: str,
        *,
        supports: Callable[[AnyChallenge], bool] | None = None,
        params: list[click.Parameter] | None = None,
    ) -> None:
        super().__init__(
            name, help=text, options_metavar="", subcommand_metavar=usage, no_args_is_help=True, params=params
        )
        self.build = build
        self.supports = supports

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        from handlens import registry

        return [name for name in registry.names() if self.supports is None or self._is_supported(name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from handlens import registry

        if cmd_name not in registry.BUILT_IN and cmd_name not in registry.names():
            return None
        try:
            challenge = registry.challenge(cmd_name)
        except HandlensError as error:  # a broken plug-in must not hide the others
            return _broken(cmd_name, error)
        if self.supports is None or self.supports(challenge):
            return self.build(challenge)
        have = ", ".join(self.list_commands(ctx)) or "none"
        return _broken(cmd_name, HandlensError(f"{cmd_name} has no `{self.name}`; challenges that have it: {have}"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from handlens import registry

        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(registry.unknown(args[0]))
        return super().resolve_command(ctx, args)

    def _is_supported(self, name: str) -> bool:
        from handlens import registry

        try:
            return self.supports is None or self.supports(registry.challenge(name))
        except HandlensError:
            return False


def with_options(command: click.Command, challenge: AnyChallenge, name: str) -> click.Command:
    """Add the challenge's own options for the command of this name, and `-q` and `-v`."""
    for field in fields_of(challenge.settings_type):
        if name in field.commands:
            command.params.append(_option(field))
    return with_verbosity(command)


def _option(field: Field) -> click.Option:
    """A field of the settings as an option."""
    flags = [f"--{field.path.replace('_', '-')}", field.path]
    if field.type is bool:
        return click.Option(flags, is_flag=True, default=field.default, help=field.help)
    if get_origin(field.type) is dict:
        how: dict[str, Any] = {"multiple": True, "metavar": "FIELD=VALUE", "callback": _read_fields}
        return click.Option(flags, help=f"{field.help} The fields are listed below.", **how)
    if get_origin(field.type) is tuple:
        return click.Option(flags, multiple=True, metavar="FOLDER[=WEIGHT][,LICENCE]", help=field.help)
    kind: click.ParamType[Any]
    if field.choices:
        kind = _Choice(field.choices)
    elif field.type is Path:
        kind = PATH
    elif field.type is int:
        kind = click.IntRange(field.minimum, field.maximum)  # type: ignore[arg-type]
    elif field.type is float:
        kind = click.FloatRange(field.minimum, field.maximum)
    else:
        kind = click.STRING
    return click.Option(flags, type=kind, default=field.default, show_default=True, help=field.help)


def instead_option(flag: str, metavar: str, text: str, run: Callable[[click.Context, Path], None]) -> click.Option:
    """An option of a group that is given in place of a sub-command: `run` does all, and the command ends."""

    def callback(context: click.Context, _option: click.Parameter, path: Path | None) -> None:
        if path is not None and not context.resilient_parsing:
            run(context, path)
            context.exit()

    return click.Option(
        [flag], type=PATH, is_eager=True, expose_value=False, callback=callback, metavar=metavar, help=text
    )


class _Choice(click.Choice[str]):
    """One of some values, which may be numbers."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        super().__init__([str(value) for value in values])
        self.values = {str(value): value for value in values}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self.values[super().convert(str(value), param, ctx)]


def fields_help(challenge: AnyChallenge) -> str:
    """The fields that `--set` can change, with their defaults, for the end of `handlens train NAME --help`."""
    fields = [field for settings in challenge.training_fields for field in fields_of(settings)]
    if not fields:
        return ""
    width = max(len(field.path) for field in fields)
    lines = ["\b", "Fields for --set:"]
    for field in fields:
        default = "" if field.default in ("", None) else f" [{_shown_default(field.default)}]"
        choices = f" ({'|'.join(map(str, field.choices))})" if field.choices else ""
        room = max(20, HELP_WIDTH - width - 6)  # click indents all by 2
        text = textwrap.wrap(f"{field.help}{choices}{default}", room)
        lines.append(f"  {field.path:{width}}  {text[0]}")
        lines += [f"  {'':{width}}  {line}" for line in text[1:]]
    return "\n".join(lines)


def _shown_default(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_fields(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """`--set a=1 --set b=2` as a mapping; the last of one name counts."""
    for text in texts:
        name, equals, _ = text.partition("=")
        if not equals or not all(part.isidentifier() for part in name.split(".")):
            raise click.BadParameter(f"{text!r}; expected FIELD=VALUE")
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def _broken(name: str, error: HandlensError) -> click.Command:
    """A sub-command that can only say what is wrong."""

    def fail(**_: Any) -> None:
        raise error

    settings = {"ignore_unknown_options": True}
    return click.Command(
        name, callback=fail, params=[click.Argument(["rest"], nargs=-1)], help=str(error), context_settings=settings
    )
