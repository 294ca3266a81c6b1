"""Groups of commands that are loaded when one is called: naming all costs no import."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from topoopt.cli.usage import EXAMPLES
from topoopt.console.quiet import be_quiet


class LazyGroup(TyperGroup):
    """Commands known by name until one is called, or shown by `--help`.

    Attributes:
        names: of the commands, in the order of `--help`.
        path: words before them, after `topoopt`.
    """

    names: ClassVar[Iterable[str]]
    path: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    @abstractmethod
    def load(name: str) -> Callable[..., None] | typer.Typer:
        """The function of a command, or the group below it."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.commands = {name: TyperCommand(name) for name in self.names}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, None if there is none; arguments as of the base class."""
        return as_command((*self.path, cmd_name), self.load(cmd_name)) if cmd_name in self.commands else None


def as_command(path: tuple[str, ...], command: Callable[..., None] | typer.Typer) -> Any:
    """A function as the one command of an application, a group as it is; with what all commands have.

    Args:
        path: its name, after the groups above it.
        command: function or group.
    """
    if isinstance(command, typer.Typer):
        return _finished(path, get_group(command))
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    alone.command(path[-1])(command)
    return _finished(path, get_command(alone))


def _finished(path: tuple[str, ...], command: Any) -> Any:
    """Add the option `--quiet`, examples below the help, and let paragraphs fill the width they have."""
    command.help = "\n\n".join(_joined(part) for part in (command.help or "").split("\n\n"))
    if isinstance(command, LazyGroup):
        return command
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            _finished((*path, name), each)
        return command
    command.params.insert(_last_option(command.params), _quiet_option())
    examples = EXAMPLES.get(" ".join(path))
    if examples is not None:
        command.epilog = "\n\n".join(("[bold]Examples[/]", *(f"  {line}".replace("[", "\\[") for line in examples)))
    return command


def _joined(paragraph: str) -> str:
    return paragraph if paragraph.startswith("\b") else " ".join(paragraph.split())


def _last_option(params: list[Any]) -> int:
    """Before `--help`, where that is already one of the options."""
    return next((i for i, param in enumerate(params) if "--help" in param.opts), len(params))


def _quiet_option() -> Any:
    """The option as typer makes it of a function: its class has no public constructor."""
    alone = typer.Typer(add_completion=False)

    @alone.command()
    def carrier(
        quiet: Annotated[
            bool,
            typer.Option(
                "--quiet",
                "-q",
                callback=be_quiet,
                expose_value=False,
                is_eager=True,
                help="Print nothing but errors, and the object of --json.",
            ),
        ] = False,
    ) -> None: ...

    return get_command(alone).params[0]
