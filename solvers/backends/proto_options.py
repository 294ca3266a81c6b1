"""Solver options that live in protocol buffer messages, by dotted field names."""

from __future__ import annotations

from typing import Any

from solvers.backends.backend import bad_option
from solvers.backends.result import Options


def field_names(descriptor: Any, prefix: str = "") -> frozenset[str]:
    """Names of all single-valued leaf fields, nested ones with dots."""
    names: set[str] = set()
    for field in descriptor.fields:
        if field.is_repeated:
            continue
        if field.message_type is not None:
            names |= field_names(field.message_type, f"{prefix}{field.name}.")
        else:
            names.add(prefix + field.name)
    return frozenset(names)


def fill(message: Any, options: Options, library: str) -> None:
    """Set fields of a message; enum fields take their value's name or number.

    Raises:
        InputError: a value of the wrong kind.
    """
    for name, value in options.items():
        *nesting, leaf = name.split(".")
        inner = message
        for part in nesting:
            inner = getattr(inner, part)
        field = inner.DESCRIPTOR.fields_by_name[leaf]
        try:
            if field.enum_type is not None and isinstance(value, str):
                setattr(inner, leaf, field.enum_type.values_by_name[value].number)
            else:
                setattr(inner, leaf, value)
        except (TypeError, ValueError, KeyError) as error:
            allowed = ", ".join(field.enum_type.values_by_name) if field.enum_type is not None else ""
            raise bad_option(library, name, value, allowed) from error
