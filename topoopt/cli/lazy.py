"""Groups of commands that are loaded when one is called: naming all costs no import."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group


class LazyGroup(TyperGroup):
    """Commands known by name until one is called, or shown by `--help`.

    Attributes:
        names: of the commands, in the order of `--help`.
    """

    names: ClassVar[Iterable[str]]

    @staticmethod
    @abstractmethod
    def load(name: str) -> Callable[..., None] | typer.Typer:
        """The function of a command, or the group below it."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.commands = {name: TyperCommand(name) for name in self.names}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, None if there is none; arguments as of the base class."""
        return as_command(cmd_name, self.load(cmd_name)) if cmd_name in self.commands else None


def as_command(name: str, command: Callable[..., None] | typer.Typer) -> Any:
    """A function as the one command of an application, a group as it is."""
    if isinstance(command, typer.Typer):
        return get_group(command)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    alone.command(name)(command)
    return get_command(alone)
