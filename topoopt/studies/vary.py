"""Values of a study file put into instances: fields by path, sequences, combinations."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping
from typing import Any

from topoopt.files.faults import Fault, Path, parse_path, path_text, value_text
from topoopt.studies.schema import MAX_LISTED, GroupFile, SeedCount, Sequence

NAMES = ("label", "name", "fabric", "kind")
"""Fields by which an item with settings is known."""

Factors = tuple[tuple[str, Any], ...]


def sequence_values(rule: Sequence) -> list[float | int]:
    """Numbers of a rule, the first included, the last when it is met; whole numbers stay whole.

    Raises:
        ValueError: neither or both of step and factor, nothing in it, or too many.
    """
    if (rule.step is None) == (rule.factor is None):
        raise ValueError("either step or factor")
    if rule.factor is not None and rule.start <= 0:
        raise ValueError("a sequence by factor starts above 0")
    values: list[float | int] = []
    for k in itertools.count():
        try:
            value = rule.start + k * rule.step if rule.step is not None else rule.start * (rule.factor or 1) ** k
            beyond = not math.isfinite(value) or value > rule.to * (1 + 1e-12)
        except OverflowError:  # beyond what a float holds, so beyond `to`
            break
        if beyond:
            break
        if len(values) == MAX_LISTED:
            raise ValueError(f"more than {MAX_LISTED} values")
        values.append(value)
    if not values:
        raise ValueError("from is above to")
    return values


def seeds_of(seeds: list[int] | SeedCount) -> list[int]:
    """Seeds in order, each once."""
    if isinstance(seeds, SeedCount):
        return list(range(seeds.first, seeds.first + seeds.count))
    return list(dict.fromkeys(seeds))


def cell_of(value: Any) -> Any:
    """What stands in the table for a value put into an instance: of a list its items, of settings their name."""
    if not isinstance(value, list):
        return value
    named = [
        next((item[key] for key in NAMES if item.get(key)), item) if isinstance(item, dict) else item for item in value
    ]
    return str(named)


def combinations(group: GroupFile, around: Path, faults: list[Fault]) -> list[Factors]:
    """Every case of a group: each of `together` with every combination of `vary`."""
    axes: list[list[tuple[str, Any]]] = []
    for path, values in group.vary.items():
        if not parse_path(path):
            faults.append(Fault((*around, "vary", path), "not a path", value_text(path), "such as cluster.degree"))
        try:
            listed = sequence_values(values) if isinstance(values, Sequence) else values
        except ValueError as error:
            faults.append(Fault((*around, "vary", path), str(error), allowed="{from: 8, to: 64, factor: 2}"))
            continue
        axes.append([(path, value) for value in listed])
    cases: list[Factors] = [tuple(case.items()) for case in group.together] or [()]
    for index, case in enumerate(group.together):
        for path in set(case) & set(group.vary):
            where = (*around, "together", index, path)
            faults.append(Fault(where, "varied twice", path, "either in vary or in together"))
    number = len(cases)
    for axis in axes:
        number *= len(axis)
    if number > MAX_LISTED:
        faults.append(Fault(around, "too many cases", str(number), f"at most {MAX_LISTED} a group"))
        return []
    return [(*case, *combined) for case in cases for combined in itertools.product(*axes)]


def varied(document: Mapping[str, Any], factors: Factors) -> dict[str, Any]:
    """A copy of an instance with fields set; mappings that are missing on the way are made.

    Raises:
        KeyError: a path leads through something that is no mapping or list; the message says where.
    """
    result: dict[str, Any] = copy.deepcopy(dict(document))
    for path, value in factors:
        parts = parse_path(path)
        place: Any = result
        for depth, part in enumerate(parts):
            last = depth == len(parts) - 1
            if isinstance(place, dict) and isinstance(part, str):
                if last:
                    place[part] = copy.deepcopy(value)
                else:
                    place = place.setdefault(part, {})
            elif isinstance(place, list) and isinstance(part, int) and part < len(place):
                if last:
                    place[part] = copy.deepcopy(value)
                else:
                    place = place[part]
            else:
                raise KeyError(path_text(parts[: depth + 1]) or path)
    return result
