"""The section `network` of a hierarchical instance: shapes with prices and constraints, and all that may be wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence

from topoopt.core.hierarchy import Block, Dimension, HierarchicalNetwork, LinearConstraint
from topoopt.files.faults import Fault, Path, nearest_text, value_text
from topoopt.kinds.hierarchy.schema import ConstraintFile, DimensionFile, HierarchicalNetworkFile, ShapeFile, TierFile

TOTAL = "total"
"""Name of the constraint on the sum of all dimensions."""


def shapes_of(file: HierarchicalNetworkFile) -> list[tuple[Path, ShapeFile]]:
    """Every candidate shape and where it stands below `network`; empty when none or both forms are given."""
    if (file.dimensions is None) == (file.shapes is None):
        return []
    if file.dimensions is not None:
        return [((), ShapeFile(name="network", dimensions=file.dimensions))]
    return [(("shapes", index), shape) for index, shape in enumerate(file.shapes or ())]


def network_faults(file: HierarchicalNetworkFile) -> list[Fault]:
    """What the schema cannot state; paths begin with `network`."""
    faults: list[Fault] = []
    shapes = shapes_of(file)
    if not shapes:
        faults.append(Fault((), "which shape?", allowed="exactly one of dimensions and shapes"))
    faults += _repeated([(("shapes", index, "name"), shape.name) for index, (_, shape) in enumerate(shapes)])
    for path, shape in shapes:
        rows = [((*path, "dimensions", index), one) for index, one in enumerate(shape.dimensions)]
        faults += _repeated([((*where, "name"), one.name) for where, one in rows])
        for where, one in rows:
            faults += _dimension_faults(where, one, file)
    counts = {math.prod(one.size for one in shape.dimensions) for _, shape in shapes}
    if len(counts) > 1:
        listed = ", ".join(str(count) for count in sorted(counts))
        faults.append(Fault(("shapes",), "shapes of different numbers of NPUs", listed, "the same product of sizes"))
    if file.total_gbytes_per_s is not None and file.total_at_most_gbytes_per_s is not None:
        faults.append(Fault(("total_at_most_gbytes_per_s",), "two totals", allowed="one of the two"))
    faults += _repeated([(("constraints", k, "name"), one.name) for k, one in enumerate(file.constraints)], (TOTAL,))
    for index, constraint in enumerate(file.constraints):
        faults += _constraint_faults(("constraints", index), constraint, [shape for _, shape in shapes])
    return [Fault(("network", *fault.path), fault.message, fault.value, fault.allowed) for fault in faults]


def _repeated(named: Sequence[tuple[Path, str]], taken: Sequence[str] = ()) -> list[Fault]:
    seen = set(taken)
    faults = []
    for path, name in named:
        if name in seen:
            faults.append(Fault(path, "name used twice", name, "a name of its own"))
        seen.add(name)
    return faults


def _dimension_faults(where: Path, one: DimensionFile, file: HierarchicalNetworkFile) -> list[Fault]:
    faults = []
    most = math.inf if one.max_gbytes_per_s is None else one.max_gbytes_per_s
    if one.min_gbytes_per_s > most:
        allowed = f"at most max_gbytes_per_s, {most:g}"
        faults.append(Fault((*where, "min_gbytes_per_s"), "above the maximum", f"{one.min_gbytes_per_s:g}", allowed))
    speeds = one.speeds_gbytes_per_s
    if speeds is not None and not any(one.min_gbytes_per_s <= speed <= most for speed in speeds):
        allowed = f"a speed from {one.min_gbytes_per_s:g} to {most:g}"
        faults.append(Fault((*where, "speeds_gbytes_per_s"), "no speed within the bounds", value_text(speeds), allowed))
    if one.tier is None:
        if file.tiers:
            faults.append(Fault((*where, "tier"), "missing price", allowed=nearest_text("", file.tiers)))
    elif one.tier not in file.tiers:
        faults.append(Fault((*where, "tier"), "unknown tier", one.tier, nearest_text(one.tier, file.tiers)))
    elif one.block == "switch" and file.tiers[one.tier].switch is None:
        faults.append(
            Fault(("tiers", one.tier), "missing price: a dimension of this tier is a switch", allowed="switch")
        )
    return faults


def _constraint_faults(where: Path, one: ConstraintFile, shapes: Sequence[ShapeFile]) -> list[Fault]:
    faults = []
    names = list(dict.fromkeys(dimension.name for shape in shapes for dimension in shape.dimensions))
    for name in one.terms:
        if shapes and name not in names:
            faults.append(Fault((*where, "terms", name), "no such dimension", name, nearest_text(name, names)))
    if not faults and shapes and not any(_applies(one, shape) for shape in shapes):
        faults.append(Fault((*where, "terms"), "no shape has all these dimensions", ", ".join(one.terms)))
    if not any(one.terms.values()):
        faults.append(Fault((*where, "terms"), "all coefficients are 0", allowed="one that is not 0"))
    if one.equals is None and one.at_least is None and one.at_most is None:
        faults.append(Fault(where, "a constraint without a side", allowed="at_least, at_most or equals"))
    elif one.equals is not None and (one.at_least is not None or one.at_most is not None):
        faults.append(Fault((*where, "equals"), "equals beside at_least or at_most", allowed="one of them"))
    elif one.at_least is not None and one.at_most is not None and one.at_least > one.at_most:
        faults.append(Fault((*where, "at_least"), "above at_most", f"{one.at_least:g}", f"at most {one.at_most:g}"))
    return faults


def _applies(constraint: ConstraintFile, shape: ShapeFile) -> bool:
    """A constraint holds for the shapes that have all its dimensions."""
    return set(constraint.terms) <= {dimension.name for dimension in shape.dimensions}


def _price(block: str, tier: TierFile) -> float:
    """US dollars for 1 GB/s of one NPU (every block's links and ports reduce to this)."""
    if Block(block) is not Block.SWITCH:
        return tier.link
    return tier.link + (tier.switch or 0.0) + (tier.nic or 0.0)


def _dimension(one: DimensionFile, tiers: dict[str, TierFile]) -> Dimension:
    most = math.inf if one.max_gbytes_per_s is None else one.max_gbytes_per_s
    speeds = sorted({speed for speed in one.speeds_gbytes_per_s or () if one.min_gbytes_per_s <= speed <= most})
    return Dimension(
        name=one.name,
        block=Block(one.block),
        size=one.size,
        tier=one.tier or "",
        usd_per_gbytes_per_s=None if one.tier is None else _price(one.block, tiers[one.tier]),
        min_gbytes_per_s=speeds[0] if speeds else one.min_gbytes_per_s,
        max_gbytes_per_s=speeds[-1] if speeds else most,
        speeds_gbytes_per_s=tuple(speeds),
    )


def _constraint(one: ConstraintFile, names: Sequence[str]) -> LinearConstraint:
    least = one.equals if one.equals is not None else one.at_least
    most = one.equals if one.equals is not None else one.at_most
    return LinearConstraint(
        name=one.name,
        coefficients=tuple(one.terms.get(name, 0.0) for name in names),
        at_least=-math.inf if least is None else least,
        at_most=math.inf if most is None else most,
    )


def networks_of(file: HierarchicalNetworkFile) -> tuple[HierarchicalNetwork, ...]:
    """The candidate networks of a section without faults."""
    total = file.total_gbytes_per_s or file.total_at_most_gbytes_per_s
    networks = []
    for _, shape in shapes_of(file):
        names = [one.name for one in shape.dimensions]
        constraints = [_constraint(one, names) for one in file.constraints if _applies(one, shape)]
        if total is not None:
            least = total if file.total_gbytes_per_s is not None else -math.inf
            constraints.insert(0, LinearConstraint(TOTAL, (1.0,) * len(names), least, total))
        networks.append(
            HierarchicalNetwork(
                name=shape.name,
                dimensions=tuple(_dimension(one, file.tiers) for one in shape.dimensions),
                constraints=tuple(constraints),
                total_gbytes_per_s=total,
                fixed_cost_usd=file.fixed_cost_usd,
            )
        )
    return tuple(networks)
