"""The modules of the product as syntax trees: their imports, the dotted names in their texts. Nothing is imported."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("formulations", "solvers", "topoopt")


@dataclass(frozen=True)
class Module:
    """One source file.

    Attributes:
        name: dotted; that of the package for `__init__.py`.
        file: relative to the root.
        text: its source.
        nodes: all of its syntax tree, the root first.
    """

    name: str
    file: Path
    text: str
    nodes: tuple[ast.AST, ...]

    @property
    def is_package(self) -> bool:
        """Whether it is the `__init__.py` of one."""
        return self.file.name == "__init__.py"

    @property
    def syntax(self) -> ast.Module:
        """Its syntax tree."""
        root = self.nodes[0]
        assert isinstance(root, ast.Module)
        return root


Tree = Mapping[str, Module]


def read_tree(root: Path, like: Tree | None = None) -> Tree:
    """All modules of the product under a root, by name; those of another tree where the text is the same."""
    collecting = gc.isenabled()
    gc.disable()  # looking for garbage among a million nodes, of which none is, would take longer than reading them
    try:
        return {module.name: module for package in PACKAGES for module in _read(root, package, like or {})}
    finally:
        if collecting:
            gc.enable()


def _read(root: Path, package: str, like: Tree) -> Iterator[Module]:
    for path in sorted((root / package).rglob("*.py")):
        file = path.relative_to(root)
        parts = file.with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        same = like.get(name)
        if same is None or (same.file, same.text) != (file, text):
            same = Module(name, file, text, tuple(ast.walk(ast.parse(text))))
        yield same


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _statements(nodes: list[ast.stmt]) -> Iterator[ast.stmt]:
    """What runs when the module is imported, branches included."""
    for node in nodes:
        yield node
        if _is_type_checking(node) or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(node, field, []))
        for handler in getattr(node, "handlers", []):
            yield from _statements(handler.body)


def _targets(module: Module, node: ast.AST, tree: Tree) -> Iterator[str]:
    """Modules of the tree that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in tree)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            own = module.name.split(".")
            kept = own[: len(own) - node.level + (1 if module.is_package else 0)]
            base = ".".join([*kept, *([base] if base else [])])
        for alias in node.names:
            if f"{base}.{alias.name}" in tree:
                yield f"{base}.{alias.name}"
            elif base in tree:
                yield base


def imports_at_load(module: Module, tree: Tree) -> set[str]:
    """Modules imported when this one is; imports in functions and for type checking only are left out."""
    return {name for node in _statements(module.syntax.body) for name in _targets(module, node, tree)} - {module.name}


def imports_anywhere(module: Module, tree: Tree) -> set[str]:
    """Modules imported by this one, also in its functions."""
    return {name for node in module.nodes for name in _targets(module, node, tree)} - {module.name}


def named_in_texts(module: Module, tree: Tree) -> set[str]:
    """Modules that stand as a text in this one, as tables name them: `package.module` or `package.module:name`."""
    values = {node.value for node in module.nodes if isinstance(node, ast.Constant)}
    return {text.partition(":")[0] for text in values if isinstance(text, str)} & set(tree) - {module.name}
