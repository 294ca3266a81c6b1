"""Formulas of families: a little of the expressions of Python over the keys of a configuration."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

_BINARY: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_CALLS: Mapping[str, Callable[..., Any]] = {
    "ceil": math.ceil,
    "len": len,
    "max": max,
    "min": min,
    "of_layer": lambda value, index: value[index] if isinstance(value, list) else value,
}


@lru_cache(maxsize=4096)
def _parsed(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


def value_of(formula: object, keys: Mapping[str, Any]) -> Any:
    """What a formula comes to; anything but text stands for itself.

    Args:
        keys: values by name.

    Raises:
        IndexError: a list of the configuration has no entry for a layer.
        ZeroDivisionError: a size that others are divided by is 0.
    """
    return _value(_parsed(formula), keys) if isinstance(formula, str) else formula


def _value(node: ast.expr, keys: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return keys[node.id]
        case ast.UnaryOp(op=ast.Not()):
            return not _value(node.operand, keys)
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand, keys)
        case ast.BoolOp():
            result: Any = None
            for part in node.values:
                result = _value(part, keys)
                if bool(result) is isinstance(node.op, ast.Or):
                    break
            return result
        case ast.BinOp():
            return _BINARY[type(node.op)](_value(node.left, keys), _value(node.right, keys))
        case ast.Compare():
            left, holds = _value(node.left, keys), True
            for compared, part in zip(node.ops, node.comparators, strict=True):
                right = _value(part, keys)
                holds, left = holds and _BINARY[type(compared)](left, right), right
            return holds
        case ast.IfExp():
            return _value(node.body if _value(node.test, keys) else node.orelse, keys)
        case ast.Subscript():
            return _value(node.value, keys)[_value(node.slice, keys)]
        case ast.Tuple():
            return tuple(_value(part, keys) for part in node.elts)
        case ast.Call(func=ast.Name(id=name)):
            return _CALLS[name](*(_value(part, keys) for part in node.args))
        case _:
            raise ValueError(ast.dump(node))
