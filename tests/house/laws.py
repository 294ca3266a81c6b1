"""The laws: each takes the tree, and gives a line for every place that breaks it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

import networkx as nx

from tests.house.ceilings import CEILINGS, sizes
from tests.house.tree import Module, Tree, imports_anywhere, imports_at_load, named_in_texts

MOST_LINES_OF_MODULE = 800
MOST_LINES_OF_FUNCTION = 80

ROOTS = (
    "topoopt",
    "topoopt.cli.main",
    "topoopt.native.cmake.build_backend",
    "topoopt.formats.nccl",
    "topoopt.formats.patch_list",
)
"""Modules that are run or imported from outside; the last two are readers that tests alone use as yet."""

RECORDS = frozenset({"Exporter", "ListedFabric", "TimeModel", "Kind", "Formulation", "KindCommands"})
"""Classes whose instances, as constants of a module, are plug-ins: something else must name each."""

Law = Callable[[Tree], Iterator[str]]


def short_modules(tree: Tree) -> Iterator[str]:
    """A module is read in one sitting."""
    for module in tree.values():
        lines = len(module.text.splitlines())
        if lines > MOST_LINES_OF_MODULE:
            yield f"{module.file}: {lines} lines, at most {MOST_LINES_OF_MODULE}"


def short_functions(tree: Tree) -> Iterator[str]:
    """A function is seen on one screen."""
    for module in tree.values():
        for node in module.nodes:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MOST_LINES_OF_FUNCTION:
                yield f"{module.file}:{node.lineno}: {node.name} has {lines} lines, at most {MOST_LINES_OF_FUNCTION}"


def no_cycles(tree: Tree) -> Iterator[str]:
    """No module needs itself to be loaded; imports in functions do not count."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for module in tree.values():
        graph.add_edges_from((module.name, other) for other in imports_at_load(module, tree))
    for members in sorted(map(sorted, nx.strongly_connected_components(graph))):
        if len(members) > 1:
            yield f"import cycle: {' -> '.join(_round_trip(graph, members))}"


def _round_trip(graph: nx.DiGraph[str], members: list[str]) -> list[str]:
    edges = nx.find_cycle(graph.subgraph(members), members[0])
    return [*(edge[0] for edge in edges), edges[-1][1]]


def all_reached(tree: Tree) -> Iterator[str]:
    """Every module is imported or named in a table on a way that starts at an entry point."""
    found = [name for name in ROOTS if name in tree]
    seen = set(found)
    while found:
        module = tree[found.pop()]
        parents = {module.name.rpartition(".")[0]} & set(tree)
        new = (imports_anywhere(module, tree) | named_in_texts(module, tree) | parents) - seen
        seen |= new
        found += new
    for name in sorted(set(tree) - seen):
        if tree[name].text.strip():
            yield f"{tree[name].file}: nothing imports it and no table names it"


def all_plugins_named(tree: Tree) -> Iterator[str]:
    """Every record of a plug-in is used by its name, or a table names it as `module:constant`."""
    used: set[str] = set()
    for module in tree.values():
        for node in module.nodes:
            if isinstance(node, ast.ImportFrom):
                used.update(alias.name for alias in node.names)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                used.add(node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                used.add(node.value)
    for module in tree.values():
        for line, name in _records(module):
            if not used & {name, f"{module.name}:{name}"}:
                yield f"{module.file}:{line}: no table names {name}"


def _records(module: Module) -> Iterator[tuple[int, str]]:
    """Line and name of the module's constants that are records of plug-ins."""
    for node in module.syntax.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        made = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else None
        if made in RECORDS and isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield node.lineno, target.id


def one_class_a_name(tree: Tree) -> Iterator[str]:
    """A class name stands for one thing in a package; names with an underscore are the module's own affair."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module in tree.values():
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                package = module.name.rpartition(".")[0]
                places[package, node.name].append(f"{module.file}:{node.lineno}")
    for (_, name), where in sorted(places.items()):
        if len(where) > 1:
            yield f"class {name} is defined in {', '.join(where)}"


OPENER = "topoopt.files.untrusted"

OWN_FILES: Mapping[str, str] = {
    "topoopt.analyses.collective.search": "a table of the package",
    "topoopt.costs": "a price book of the package",
    "topoopt.page.charts": "a style sheet of the package",
    "topoopt.formats.hosts": "parts of scripts of the package",
    "topoopt.native.cmake.build_backend": "wheels that pip asked for",
    "topoopt.studies.expand": "sources of the package",
    "topoopt.studies.runner": "/proc/meminfo",
    "solvers.stop": "/proc/PID/statm",
    "topoopt.studies.execute": "/proc/PID/stat, the lock and the table of a study, the streams of a run",
    "topoopt.files.atomic": "writes",
    "topoopt.page.output": "writes nowhere",
}
"""Modules that open files themselves, and which; none of them is of unknown origin."""

OPENS = frozenset({"open", "read_text", "read_bytes", "fromfile", "genfromtxt", "loadtxt", "memmap", "ZipFile"})
"""Methods and functions of other packages that open a file by its name."""

OPENS_BY_NAME = frozenset(
    {("np", "load"), ("numpy", "load"), ("json", "load"), ("ElementTree", "parse"), ("io", "FileIO")}
)
"""More of them, where the name alone says too little."""


def one_opener(tree: Tree) -> Iterator[str]:
    """Files of unknown origin are opened in one module, which refuses what could hang or fill the memory."""
    for module in tree.values():
        found = [node for node in module.nodes if isinstance(node, ast.Call) and _opens(node.func)]
        if module.name in OWN_FILES and not found:
            yield f"{module.file}: opens no file, but is listed as if it did"
        elif module.name not in (OPENER, *OWN_FILES):
            for call in found:
                yield f"{module.file}:{call.lineno}: {ast.unparse(call.func)} opens a file; {OPENER} does that"


def _opens(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in OPENS - {"read_text", "read_bytes"}  # those of the opener are called by their names
    if not isinstance(function, ast.Attribute):
        return False
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    return function.attr in OPENS or (owner, function.attr) in OPENS_BY_NAME


REFUSED_WORDS = frozenset(
    "found known told asked worth way ways due stated heat dust hurry room laid wanting fault faults".split()  # noqa: SIM905
)
"""Words that say too little, or something else in this field, as a part of any name."""

REFUSED_NAMES = frozenset({"place", "one", "each"})
"""Names that hide what they stand for."""

NAMED_ELSEWHERE = frozenset({"PackageNotFoundError", "sample_ways", "channel_ways", "reduce_ways", "room"})
"""A class of Python's library, keys of instance files, and a field that native code reads by its name."""


def plain_names(tree: Tree) -> Iterator[str]:
    """Names are those of the field's textbooks: a result, an incumbent, a path, an index."""
    for module in tree.values():
        fields = {id(node.target) for cls in module.nodes if isinstance(cls, ast.ClassDef) for node in _fields(cls)}
        for node in module.nodes:
            for name, variable in _names_given(node):
                hides = variable and name in REFUSED_NAMES and id(node) not in fields
                if (hides or _words(name) & REFUSED_WORDS) and name not in NAMED_ELSEWHERE:
                    yield f"{module.file}:{getattr(node, 'lineno', 1)}: the name {name} says too little"


def _fields(cls: ast.ClassDef) -> list[ast.AnnAssign]:
    return [node for node in cls.body if isinstance(node, ast.AnnAssign)]


def _names_given(node: ast.AST) -> list[tuple[str, bool]]:
    """Names that a node of a syntax tree defines, and whether they are those of variables and parameters."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [(node.name, False)]
    if isinstance(node, ast.arg):
        return [(node.arg, True)]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [(node.id, True)]
    return [(node.asname, True)] if isinstance(node, ast.alias) and node.asname else []


def _words(name: str) -> set[str]:
    return {word.lower() for word in re.findall("[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def below_ceilings(tree: Tree) -> Iterator[str]:
    """No package grows unseen."""
    for package, size in sizes(tree).items():
        ceiling = CEILINGS.get(package, size)
        for name, amount, most in zip(size._fields, size, ceiling, strict=True):
            if amount > most:
                yield f"{package}: {amount} {name}, at most {most}"


LAWS: Mapping[str, Law] = {
    "short modules": short_modules,
    "short functions": short_functions,
    "no import cycles": no_cycles,
    "no module out of reach": all_reached,
    "no plug-in without a line": all_plugins_named,
    "one class a name": one_class_a_name,
    "one opener of files": one_opener,
    "plain names": plain_names,
    "below ceilings": below_ceilings,
}


def breaches(tree: Tree) -> dict[str, list[str]]:
    """What the laws say of a tree, by law; those kept are left out."""
    return {name: found for name, law in LAWS.items() if (found := list(law(tree)))}
