"""A command that has one form for each challenge, with that challenge's own options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handlens.errors import HandlensError

if TYPE_CHECKING:
    from handlens.types import Challenge


class ChallengeGroup(click.Group):
    """A command with one form for each challenge that has one; a form is made when it is asked for."""

    def __init__(
        self,
        name: str,
        build: Callable[[Challenge], click.Command],
        usage: str,
        text: str,
        *,
        has_form: Callable[[Challenge], bool] | None = None,
        params: list[click.Parameter] | None = None,
    ) -> None:
        super().__init__(
            name, help=text, options_metavar="", subcommand_metavar=usage, no_args_is_help=True, params=params
        )
        self.build = build
        self.has_form = has_form

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        from handlens import registry

        return [name for name in registry.names() if self.has_form is None or self._has_form(name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from handlens import registry

        if cmd_name not in registry.BUILT_IN and cmd_name not in registry.names():
            return None
        try:
            challenge = registry.challenge(cmd_name)
        except HandlensError as error:  # a broken plug-in must not hide the others
            return _broken(cmd_name, error)
        if self.has_form is None or self.has_form(challenge):
            return self.build(challenge)
        have = ", ".join(self.list_commands(ctx)) or "none"
        return _broken(cmd_name, HandlensError(f"{cmd_name} has no `{self.name}`; challenges that have it: {have}"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from handlens import registry

        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"{args[0]!r} is not a challenge; there are {', '.join(registry.names())}")
        return super().resolve_command(ctx, args)

    def _has_form(self, name: str) -> bool:
        from handlens import registry

        try:
            return self.has_form is None or self.has_form(registry.challenge(name))
        except HandlensError:
            return False


def with_options(command: click.Command, challenge: Challenge, name: str) -> click.Command:
    """Add the challenge's own options for the command of this name."""
    for option in challenge.options:
        if name in option.commands:
            kind: click.ParamType[Any] = click.FloatRange(0)
            if option.choices:
                kind = click.Choice(option.choices)
            elif option.kind == "path":
                kind = click.Path(path_type=Path)
            elif option.kind == "count":
                kind = click.IntRange(1)
            flags = [f"--{option.name.replace('_', '-')}", option.name]
            flag = option.kind == "flag"
            how: dict[str, Any] = {"is_flag": True} if flag else {"type": kind, "show_default": True}
            if option.kind == "fields":
                how = {"multiple": True, "metavar": "FIELD=VALUE", "callback": _read_fields}
            default = None if option.kind == "fields" else option.default
            command.params.append(click.Option(flags, default=default, help=option.help, **how))
    return command


def _read_fields(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """`--set a=1 --set b=2` as a mapping; the last of one name counts."""
    for text in texts:
        if not text.partition("=")[0].isidentifier() or "=" not in text:
            raise click.BadParameter(f"{text!r}; expected FIELD=VALUE")
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def _broken(name: str, error: HandlensError) -> click.Command:
    """A form that can only say what is wrong."""

    def fail(**_: Any) -> None:
        raise error

    settings = {"ignore_unknown_options": True}
    return click.Command(
        name, callback=fail, params=[click.Argument(["rest"], nargs=-1)], help=str(error), context_settings=settings
    )
