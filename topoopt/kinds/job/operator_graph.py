"""Operator graphs given in full: checks the schema cannot state, and the way to a `Workload`."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from topoopt.core.workload import Operator, OperatorInput, Split, Workload
from topoopt.files.faults import MAX_LISTED, Fault, Path, nearest_text, value_text
from topoopt.files.operator_order import topological_order
from topoopt.kinds.job.schema import GraphWorkload, OperatorFile, SplitFile

_OPERATORS: Path = ("workload", "operators")


def _split_faults(split: SplitFile, path: Path, servers: int | None, samples: int | None, output: int) -> list[Fault]:
    faults = []
    parts = split.sample_ways * split.channel_ways * split.reduce_ways
    if servers is not None and servers % parts:
        ways = f"{split.sample_ways} x {split.channel_ways} x {split.reduce_ways} = {parts} parts"
        faults.append(Fault(path, "the split does not divide the servers", ways, f"parts that divide {servers}"))
    if samples is not None and samples % split.sample_ways:
        where = (*path, "sample_ways")
        message = "the split does not divide the samples"
        faults.append(Fault(where, message, str(split.sample_ways), f"a divisor of {samples}"))
    if split.channel_ways > output:
        where = (*path, "channel_ways")
        message = "more parts than output elements"
        faults.append(Fault(where, message, str(split.channel_ways), f"at most {output}"))
    return faults


def _operator_faults(
    operator: OperatorFile, path: Path, names: Mapping[str, int], servers: int | None, samples: int | None
) -> list[Fault]:
    faults = []
    seen: dict[tuple[int, int, int], int] = {}
    for position, split in enumerate(operator.splits):
        where = (*path, "splits", position)
        faults += _split_faults(split, where, servers, samples, operator.output_elements)
        ways = (split.sample_ways, split.channel_ways, split.reduce_ways)
        if ways in seen:
            faults.append(Fault(where, f"the same ways as splits[{seen[ways]}]", allowed="each split once"))
        seen.setdefault(ways, position)
    most = max(split.sample_ways * split.channel_ways * split.reduce_ways for split in operator.splits)
    if operator.pinned_offset is not None and servers is not None and operator.pinned_offset * most >= servers:
        where = (*path, "pinned_offset")
        allowed = f"less than servers / parts = {servers} / {most}"
        faults.append(Fault(where, "the offset is too large for a split", str(operator.pinned_offset), allowed))
    for position, source in enumerate(operator.inputs):
        if source.operator not in names:
            where = (*path, "inputs", position, "operator")
            allowed = nearest_text(source.operator, names)
            faults.append(Fault(where, "no operator of that name", value_text(source.operator), allowed))
    return faults


def _valid_operators(raw: object) -> list[tuple[int, OperatorFile]]:
    """The operators that follow the schema, with their positions; the others are reported elsewhere."""
    found = []
    for index, entry in enumerate(raw if isinstance(raw, list) else []):
        try:
            found.append((index, OperatorFile.model_validate(entry)))
        except ValidationError:
            continue
    return found


def graph_faults(raw: Mapping[str, object], servers: int | None) -> list[Fault]:
    """What is wrong with a workload in full beyond its schema, so far as the parts that follow it tell.

    Operators are looked at until there is more to say than is shown.

    Args:
        raw: the workload as it stands in the file, already bounded in size by the schema.
        servers: n, None when it is not known.
    """
    entries = raw.get("operators")
    listed = entries if isinstance(entries, list) else []
    names: dict[str, int] = {}
    faults = []
    for index, entry in enumerate(listed):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            continue
        if name in names:
            where = (*_OPERATORS, index, "name")
            message = f"the name of operators[{names[name]}] again"
            faults.append(Fault(where, message, value_text(name), "each name once"))
        names.setdefault(name, index)
    samples = raw.get("samples")
    batch = samples if isinstance(samples, int) and not isinstance(samples, bool) and samples > 0 else None
    producers: list[list[int]] = [[] for _ in listed]
    for index, operator in _valid_operators(listed):
        if len(faults) <= MAX_LISTED:
            faults += _operator_faults(operator, (*_OPERATORS, index), names, servers, batch)
        producers[index] = [names[source.operator] for source in operator.inputs if source.operator in names]
    _, cycle = topological_order(producers)
    if cycle:
        first = cycle.index(min(cycle))
        turn = cycle[first:] + cycle[: first + 1]
        text = " -> ".join(value_text(listed[index]["name"]) for index in turn[:20])
        text += " -> ..." if len(turn) > 20 else ""
        where = (*_OPERATORS, min(cycle), "inputs")
        faults.append(Fault(where, f"the operators form a cycle: {text}", allowed="a graph without cycles"))
    return faults


def to_workload(file: GraphWorkload) -> tuple[Workload, list[int]]:
    """A checked graph as a `Workload`, and for each of its operators the position in the file."""
    names = {operator.name: index for index, operator in enumerate(file.operators)}
    order, _ = topological_order([[names[source.operator] for source in op.inputs] for op in file.operators])
    rank = {index: place for place, index in enumerate(order)}
    operators = []
    for index in order:
        entry = file.operators[index]
        operators.append(
            Operator(
                name=entry.name,
                kind=entry.kind,
                output_elements=entry.output_elements,
                element_bytes=entry.element_bytes,
                weight_elements=tuple(entry.weight_elements),
                inputs=tuple(OperatorInput(rank[names[edge.operator]], edge.fraction) for edge in entry.inputs),
                splits=tuple(Split(**split.model_dump()) for split in entry.splits),
                mixes_channels=entry.mixes_channels,
                locally_reduced=entry.locally_reduced,
                pinned_offset=entry.pinned_offset,
            )
        )
    return Workload(file.name, file.samples, tuple(operators)), order
