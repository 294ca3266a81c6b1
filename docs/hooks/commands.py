"""The page of all commands, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from topoopt.cli.app import app


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


NAMES = {"path": "file", "int": "whole number", "integer": "whole number", "float": "number", "str": "text"}


def _value(parameter: Any) -> str:
    """What may stand there; typer has it from click or from a copy of its own, depending on the version."""
    if getattr(parameter, "is_flag", False):
        return ""
    kind = getattr(parameter, "type", None)
    if kind is None:
        annotation = parameter.type_descriptor.annotation
        word = getattr(annotation, "__args__", (annotation,))[0].__name__.lower()
        low, high = parameter.min, parameter.max
    else:
        word = kind.name.removesuffix(" range")
        low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    ends = [f"from {low:g}" if low is not None else "", f"to {high:g}" if high is not None else ""]
    return " ".join(each for each in (NAMES.get(word, word), *ends) if each)


def _default(parameter: Any) -> str:
    if parameter.required:
        return " Required."
    value = parameter.default
    shown = value is not None and not callable(value) and value is not False and value != () and value is not True
    return f" Default: {value}." if shown and getattr(parameter, "show_default", True) else ""


def _rows(command: Any) -> Iterator[str]:
    for parameter in command.params:
        names = parameter.opts if parameter.param_type_name == "option" else [str(parameter.name).upper()]
        also = getattr(parameter, "secondary_opts", [])
        words = ", ".join(f"`{name}`" for name in [*names, *also])
        help_text = _plain(getattr(parameter, "help", None) or "")
        yield f"| {words} | {_value(parameter)} | {help_text}{_default(parameter)} |"


def _section(name: str, command: Any, context: Any, depth: int) -> Iterator[str]:
    yield f"{'#' * depth} `{name}`"
    help_text = (command.help or "").replace("\b", "").strip()
    yield "\n\n".join(_plain(part) for part in help_text.split("\n\n"))
    inner = command.make_context(name, [], parent=context, resilient_parsing=True)
    if hasattr(command, "resolve_command"):
        for each in command.list_commands(inner):
            _, below, _ = command.resolve_command(inner, [each])
            yield from _section(f"{name} {each}", below, inner, depth + 1)
        return
    rows = "\n".join(_rows(command))
    yield f"| | value | |\n|---|---|---|\n{rows}"


def page() -> str:
    """All commands with all options, in the order of `topoopt --help`."""
    command = get_command(app)
    context = command.make_context("topoopt", [], resilient_parsing=True)
    parts = ["# Commands", "What holds for all of them, and exit codes: [at the command line](../guide/commands.md)."]
    for name in command.list_commands(context):
        _, each, _ = command.resolve_command(context, [name])
        parts.extend(_section(f"topoopt {name}", each, context, 2))
    return "\n\n".join(parts) + "\n"
