"""The table of kinds at the command line."""

from __future__ import annotations

import ast
from pathlib import Path

import topoopt.cli
from topoopt.kinds.instance_file import KINDS as FILES
from topoopt.kinds.kind import KINDS, KindCommands, commands_of


def test_every_kind_of_file_has_commands() -> None:
    """Whatever kind can be read can be solved, checked and reported."""
    assert set(KINDS) == set(FILES)
    for kind in KINDS:
        assert isinstance(commands_of(kind), KindCommands)


def test_every_module_of_a_kind_has_a_line() -> None:
    """A module that defines COMMANDS and stands in no line would be dead."""
    root = Path(topoopt.__path__[0])
    modules = set()
    for file in (root / "kinds").rglob("*.py"):
        names = [
            target.id
            for node in ast.parse(file.read_text()).body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        ]
        if "COMMANDS" in names:
            modules.add(".".join(("topoopt", *file.relative_to(root).with_suffix("").parts)))
    assert modules == set(KINDS.values())
