"""Places in the code where one small change makes a fault: a mutant.

A place is in the body of a function. Its rank is a hash of a seed and of its text, so that an edit of the code
elsewhere leaves the draw as it was.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import CodeType

from tests.support.paths import ROOT

PACKAGES = ("topoopt", "solvers", "formulations")

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
"""What an operator becomes."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Site:
    """A change of one node: the `index`-th that can be changed in its function, in the order of the walk."""

    module: str
    function: str
    index: int
    line: int
    before: str
    after: str
    rank: str


def _change(node: ast.AST) -> ast.AST | None:
    """The node changed, or nothing where no change is made."""
    new = copy.copy(node)
    match node:
        case ast.Compare(ops=[first, *rest]) if type(first) in SWAPS:
            new.ops = [SWAPS[type(first)](), *rest]
        case ast.BinOp(op=op, left=left) if type(op) in SWAPS and not isinstance(left, ast.JoinedStr):
            if any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (left, node.right)):
                return None
            new.op = SWAPS[type(op)]()
        case ast.AugAssign(op=op) if type(op) in SWAPS:
            new.op = SWAPS[type(op)]()
        case ast.BoolOp(op=op):
            new.op = SWAPS[type(op)]()
        case ast.UnaryOp(op=ast.Not(), operand=operand) | ast.UnaryOp(op=ast.USub(), operand=operand):
            return operand
        case ast.Constant(value=bool() as value):
            new.value = not value
        case ast.Constant(value=int() | float() as value):
            new.value = value + 1
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare | ast.UnaryOp):
            new.test = ast.UnaryOp(ast.Not(), test)
        case ast.Break():
            new = ast.Continue()
        case ast.Continue():
            new = ast.Break()
        case ast.Expr(value=ast.Call()):
            new = ast.Pass()
        case _:
            return None
    return ast.fix_missing_locations(ast.copy_location(new, node))


def _nodes(function: Function) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Nodes that may be changed, each with where it hangs; not in annotations, messages of errors or texts."""

    def walk(parent: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
        for field, value in ast.iter_fields(parent):
            if field in {"annotation", "returns", "decorator_list", "args", "pattern"} and not isinstance(
                parent, ast.Call
            ):
                continue
            for i, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.Raise | ast.JoinedStr):
                    yield parent, field, i, child
                    yield from walk(child)

    for i, statement in enumerate(function.body):
        yield function, "body", i, statement
        yield from walk(statement)


def _functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Functions that stand in a module or in a class of it, with their names."""
    stack: list[tuple[str, ast.AST]] = [("", tree)]
    while stack:
        prefix, owner = stack.pop()
        for node in ast.iter_child_nodes(owner):
            if isinstance(node, Function):
                yield prefix + node.name, node
            elif isinstance(node, ast.ClassDef):
                stack.append((f"{prefix}{node.name}.", node))
            elif isinstance(node, ast.If | ast.Try | ast.With):
                stack.append((prefix, node))


def _text(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]


def sites_of(module: str, source: str, seed: int) -> Iterator[Site]:
    """All places of a module."""
    for name, function in _functions(ast.parse(source)):
        changes = ((child, _change(child)) for *_, child in _nodes(function))
        for index, (node, new) in enumerate((node, new) for node, new in changes if new is not None):
            key = "\0".join((str(seed), module, name, str(index), _text(node), _text(new)))
            rank = hashlib.sha256(key.encode()).hexdigest()
            yield Site(module, name, index, node.lineno, _text(node), _text(new), rank)


def draw(count: int, seed: int) -> list[Site]:
    """The places of the lowest rank whose code fits where the code of the function was."""
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    every = (
        site
        for path in paths
        if "cmake" not in path.parts and path.name != "__main__.py"
        for site in sites_of(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"), seed)
    )
    drawn: list[Site] = []
    for site in sorted(every, key=lambda site: site.rank):
        if len(drawn) == count:
            break
        if mutant(site).co_freevars == with_probes([site], [0]).co_freevars:
            drawn.append(site)
    return drawn


def by_function(sites: Sequence[Site]) -> list[list[int]]:
    """Numbers of the places that are in one function, for each function."""
    groups: dict[tuple[str, str], list[int]] = {}
    for number, site in enumerate(sites):
        groups.setdefault((site.module, site.function), []).append(number)
    return list(groups.values())


def mutant(site: Site) -> CodeType:
    """The function of a place with the change made."""

    def changed(node: ast.AST) -> ast.AST:
        new = _change(node)
        assert new is not None
        return new

    return _code_with(site, {site.index: changed})


def with_probes(sites: Sequence[Site], numbers: Sequence[int]) -> CodeType:
    """The function of these places, which calls `__hit__(number)` whenever it comes to one of them."""

    def probe(number: int, node: ast.AST) -> ast.AST:
        call = ast.Call(ast.Name("__hit__", ast.Load()), [ast.Constant(number)], [])
        new: ast.AST = ast.Subscript(ast.Tuple([call, node], ast.Load()), ast.Constant(1), ast.Load())
        if isinstance(node, ast.stmt):
            new = ast.If(ast.Compare(call, [ast.Is()], [ast.Constant(None)]), [node], [])
        return ast.fix_missing_locations(ast.copy_location(new, node))

    return _code_with(sites[numbers[0]], {sites[n].index: partial(probe, n) for n in numbers})


def _code_with(site: Site, changes: Mapping[int, Callable[[ast.AST], ast.AST]]) -> CodeType:
    """The compiled function of a place; nodes by their index are replaced, those within others first."""
    path = ROOT / site.module
    tree = ast.parse(path.read_text(encoding="utf-8"))
    function = next(node for name, node in _functions(tree) if name == site.function)
    changeable = [entry for entry in _nodes(function) if _change(entry[3]) is not None]
    for index in sorted(changes, reverse=True):
        parent, field, i, node = changeable[index]
        new = changes[index](node)
        if i is None:
            setattr(parent, field, new)
        else:
            getattr(parent, field)[i] = new
    codes = [compile(tree, str(path), "exec")]
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return [code for code in codes if code.co_qualname == site.function][-1]
