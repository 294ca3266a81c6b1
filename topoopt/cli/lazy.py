"""Groups of commands that are loaded when one is called: naming all costs no import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group


class LazyGroup(TyperGroup):
    """Commands known by name and summary until one is called.

    Attributes:
        summaries: what `--help` of the group says of each, in this order.
    """

    summaries: ClassVar[Mapping[str, str]]

    @staticmethod
    def load(name: str) -> Callable[..., None] | typer.Typer:
        """The function of a command, or the group below it."""
        raise NotImplementedError

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.commands = {name: TyperCommand(name, help=text) for name, text in self.summaries.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Command and the words after it; arguments as of the base class."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None:
            command = _loaded(name, self.load(name))
        return name, command, rest


def _loaded(name: str, command: Callable[..., None] | typer.Typer) -> Any:
    """A function as the one command of an application, a group as it is."""
    if isinstance(command, typer.Typer):
        return get_group(command)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    alone.command(name)(command)
    return get_command(alone)
