"""Input files of LIBRA: network, communicator and cost model (YAML), workload (12 columns a layer, no header).
Workloads of LIBRA as instances.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import Field, RootModel, model_validator

from topoopt.core.arrays import MIB
from topoopt.core.errors import Problem, raise_any
from topoopt.files.codec import FileModel
from topoopt.files.documents import parse_document
from topoopt.files.issues import Issue, key_text, value_text
from topoopt.files.reader_fields import FieldTable, named, read_checked
from topoopt.files.untrusted import read_text
from topoopt.formats.table import Imported, Importer, name_of, require_choice, require_positive

MAX_PROBLEMS = 50

BLOCKS = {"Ring": "ring", "FullyConnected": "fully-connected", "Switch": "switch"}
COLLECTIVES = {
    "ALLREDUCE": "all-reduce",
    "ALLGATHER": "all-gather",
    "REDUCESCATTER": "reduce-scatter",
    "ALLTOALL": "all-to-all",
}
PHASES = (("Forward", "forward"), ("InputGrad", "input_gradient"), ("WeightGrad", "weight_gradient"))

COLUMNS = 12


NETWORK_FIELDS: FieldTable = {
    "Topology[]": ("used", "blocks, innermost first: Ring, FullyConnected, Switch"),
    "NpusCount[]": ("used", "NPUs of each dimension"),
    "CostDimension[]": ("used", "tier of each dimension"),
}
COMMUNICATOR_FIELDS: FieldTable = {
    "Forward[]": ("used", "ranks of the forward pass in each dimension; negative: not used"),
    "InputGrad[]": ("used", "ranks of the input gradients"),
    "WeightGrad[]": ("used", "ranks of the weight gradients"),
}
COST_FIELDS: FieldTable = {
    "*.Link": ("used", "dollars for 1 GB/s of a link of the tier; keys in any case of letters"),
    "*.Switch": ("used", "of a switch"),
    "*.Nic": ("used", "of a network interface"),
    "*.Npu": ("noted", "of an NPU, which LIBRA does not count"),
}
WORKLOAD_FIELDS: FieldTable = {
    "column 1": ("used", "name of the layer"),
    "column 2": ("noted", "reserved; -1 says nothing"),
    "columns 3, 6, 9": ("used", "nanoseconds of the forward pass, the input and the weight gradient"),
    "columns 4, 7, 10": ("used", "their collective, or NONE"),
    "columns 5, 8, 11": ("used", "its bytes; beside NONE noted"),
    "column 12": ("noted", "weight-update time, which LIBRA does not count; 0 says nothing"),
}


class NetworkYaml(FileModel):
    """The dimensions, innermost first."""

    Topology: Annotated[list[Literal["Ring", "FullyConnected", "Switch"]], Field(min_length=1, max_length=12)]
    NpusCount: list[Annotated[int, Field(ge=2, le=2**24)]]
    CostDimension: list[str]


class CommunicatorYaml(FileModel):
    """Ranks in each dimension; negative: not used."""

    Forward: list[int]
    InputGrad: list[int]
    WeightGrad: list[int]


class TierYaml(FileModel):
    """Prices of one tier, by keys in any case of letters."""

    link: Annotated[float, Field(gt=0)]
    switch: Annotated[float, Field(gt=0)] | None = None
    nic: Annotated[float, Field(gt=0)] | None = None
    npu: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="before")
    @classmethod
    def lower_keys(cls, data: object) -> object:
        """Keys in small letters; those that would be given twice stay, and are unknown."""
        if not isinstance(data, dict):
            return data
        lower = [str(key).lower() for key in data]
        return {low if lower.count(low) == 1 else key: data[key] for low, key in zip(lower, data, strict=True)}


def read_libra_network(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Dimensions of an instance file.

    Raises:
        InputError: what is wrong with the file.
    """
    file = read_checked(path, NetworkYaml)
    count = len(file.Topology)
    issues = [
        Issue((key,), "not one entry for each dimension", str(len(rows)), f"{count}, as Topology")
        for key, rows in (("NpusCount", file.NpusCount), ("CostDimension", file.CostDimension))
        if len(rows) != count
    ]
    parse_document(path).refuse(issues)
    return [
        {
            "name": tier if file.CostDimension.count(tier) == 1 else f"{tier}-{index + 1}",
            "block": BLOCKS[block],
            "size": size,
            "tier": tier,
        }
        for index, (block, size, tier) in enumerate(zip(file.Topology, file.NpusCount, file.CostDimension, strict=True))
    ]


def read_libra_communicator(path: str | os.PathLike[str], sizes: Sequence[int]) -> dict[str, list[int]]:
    """Ranks of the phases, by LIBRA's names of them; 1 where a dimension is not used.

    Raises:
        InputError: what is wrong with the file, or does not fit the dimensions.
    """
    file = read_checked(path, CommunicatorYaml)
    issues = []
    members = {}
    for name, _ in PHASES:
        ranks = getattr(file, name)
        if len(ranks) != len(sizes):
            issues.append(
                Issue((name,), "not one number for each dimension", value_text(ranks), f"{len(sizes)} numbers")
            )
            continue
        for index, (rank, size) in enumerate(zip(ranks, sizes, strict=True)):
            if rank == 0 or (rank > 0 and size % rank):
                issues.append(
                    Issue((name, index), "does not fit the dimension", str(rank), f"-1, or a divisor of {size}")
                )
        members[name] = [max(rank, 1) for rank in ranks]
    parse_document(path).refuse(issues)
    return members


def read_libra_cost(path: str | os.PathLike[str]) -> tuple[dict[str, dict[str, float]], tuple[str, ...]]:
    """Tiers of an instance file, and what is not used.

    Raises:
        InputError: what is wrong with the file.
    """
    tiers = read_checked(path, RootModel[dict[str, TierYaml]]).root
    npus = [name for name, tier in tiers.items() if tier.npu is not None]
    notes = (f"prices of NPUs are not counted, as in LIBRA: Npu of {', '.join(map(key_text, npus))}",) if npus else ()
    return {name: tier.model_dump(exclude_none=True, exclude={"npu"}) for name, tier in tiers.items()}, notes


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def read_libra_workload(
    path: str | os.PathLike[str], communicators: dict[str, str | None]
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Layers of an instance file, and what is not used.

    Args:
        path: the file.
        communicators: for each of LIBRA's phases a name, or None for the whole network.

    Raises:
        InputError: every line that is wrong, as far as `MAX_PROBLEMS`.
    """
    file = os.fspath(path)
    problems: list[Problem] = []
    layers = []
    unused: dict[str, list[int]] = {}
    for line, text in enumerate(read_text(file, 4 * MIB).splitlines(), start=1):
        words = text.split()
        if not words:
            continue
        if len(words) != COLUMNS:
            allowed = f"{COLUMNS} columns: name, -1, (time, collective, size) of the three phases, update time"
            problems.append(Problem("wrong number of columns", file, line, None, str(len(words)), allowed))
            continue
        layers.append(_layer(file, line, words, communicators, problems))
        for column in _unused_columns(words):
            unused.setdefault(column, []).append(line)
    if not layers and not problems:
        problems.append(Problem("no layers", file, allowed=f"lines of {COLUMNS} columns"))
    raise_any(problems[:MAX_PROBLEMS])
    met = [f"{column} in {len(lines)} lines, first in line {lines[0]}" for column, lines in unused.items()]
    return layers, named("not used", met)


def _unused_columns(words: list[str]) -> list[str]:
    unused = [] if words[1] == "-1" else ["column 2 (reserved)"]
    for column in (4, 7, 10):
        if words[column - 1].upper() == "NONE" and _number(words[column]) != 0:
            unused.append(f"column {column + 1} (bytes of no collective)")
    return (
        unused if _number(words[-1]) == 0 else [*unused, "column 12 (weight-update time, which LIBRA does not count)"]
    )


def _layer(
    file: str, line: int, words: list[str], communicators: dict[str, str | None], problems: list[Problem]
) -> dict[str, Any]:
    layer: dict[str, Any] = {"name": words[0][:200]}
    for index, (name, key) in enumerate(PHASES):
        time, kind, size = words[2 + 3 * index : 5 + 3 * index]
        compute = _number(time)
        if compute is None:
            problems.append(Problem("no compute time", file, line, name, value_text(time), "nanoseconds, not negative"))
        phase: dict[str, Any] = {"compute_ns": compute}
        if kind.upper() != "NONE":
            size_bytes = _number(size)
            if kind.upper() not in COLLECTIVES:
                allowed = f"NONE, {', '.join(COLLECTIVES)}"
                problems.append(Problem("no such collective", file, line, name, value_text(kind), allowed))
            elif not size_bytes:
                problems.append(Problem("no size", file, line, name, value_text(size), "bytes, more than 0"))
            entry = {"collective": COLLECTIVES.get(kind.upper()), "bytes": size_bytes}
            own = communicators[name]
            phase["collectives"] = [entry if own is None else {**entry, "communicator": own}]
        if compute or "collectives" in phase:
            layer[key] = phase
    return layer


def libra_document(
    network: str | os.PathLike[str],
    cost_model: str | os.PathLike[str],
    workload: str | os.PathLike[str],
    communicator: str | os.PathLike[str] | None,
    *,
    name: str,
    total_gbytes_per_s: float,
    objective: str,
    loop: str,
    pareto_points: int,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """An instance document of kind `hierarchical-bandwidth`, and what of the files is not used.

    Without communicator every phase uses the whole network.

    Raises:
        InputError: what is wrong with the first file that is wrong.
    """
    dimensions = read_libra_network(network)
    tiers, unused_prices = read_libra_cost(cost_model)
    names: dict[str, str | None] = dict.fromkeys((name for name, _ in PHASES), None)
    communicators: dict[str, list[int]] = {}
    if communicator is not None:
        ranks = read_libra_communicator(communicator, [int(dimension["size"]) for dimension in dimensions])
        for phase, own in ranks.items():
            # Phases of equal ranks share a communicator, so that people see one name for one thing.
            same = next((key for key, value in communicators.items() if value == own), None)
            names[phase] = same or re.sub(r"(?<!^)(?=[A-Z])", "-", phase).lower()
            communicators.setdefault(names[phase] or "", own)
    layers, unused_columns = read_libra_workload(workload, names)
    job: dict[str, Any] = {"name": name, "loop": loop}
    if communicators:
        job["communicators"] = communicators
    document = {
        "schema_version": 1,
        "kind": "hierarchical-bandwidth",
        "name": name,
        "network": {"dimensions": dimensions, "total_gbytes_per_s": total_gbytes_per_s, "tiers": tiers},
        "workloads": [{**job, "layers": layers}],
        "objective": objective,
        "pareto_points": pareto_points,
    }
    return document, (*unused_prices, *unused_columns)


OBJECTIVES = ("time", "time-times-cost")
LOOPS = ("no-overlap", "dp-overlap")


def import_workload(
    network: Annotated[Path, typer.Option(help="Topology, NpusCount and CostDimension (YAML).")],
    cost_model: Annotated[Path, typer.Option(help="Prices by tier (YAML).")],
    workload: Annotated[Path, typer.Argument(help="Layers, 12 columns a line.")],
    total_gbytes_per_s: Annotated[float, typer.Option(help="Bandwidth of an NPU in all dimensions together.")],
    communicator: Annotated[
        Path | None, typer.Option(help="Ranks of each phase (YAML); default: every phase uses the whole network.")
    ] = None,
    objective: Annotated[str, typer.Option(help="time or time-times-cost.")] = "time",
    loop: Annotated[str, typer.Option(help="no-overlap or dp-overlap.")] = "no-overlap",
    pareto_points: Annotated[int, typer.Option(min=0, max=1000, help="Points of the front of time and cost.")] = 25,
    name: Annotated[str | None, typer.Option(help="Name of the instance; default: of the workload file.")] = None,
) -> Imported:
    """A workload on a hierarchical network, in the files of LIBRA."""
    require_positive("--total-gbytes-per-s", total_gbytes_per_s)
    require_choice("--objective", objective, OBJECTIVES)
    require_choice("--loop", loop, LOOPS)
    document, notes = libra_document(
        network,
        cost_model,
        workload,
        communicator,
        name=name or name_of(workload),
        total_gbytes_per_s=total_gbytes_per_s,
        objective=objective,
        loop=loop,
        pareto_points=pareto_points,
    )
    dimensions, layers = document["network"]["dimensions"], document["workloads"][0]["layers"]
    shape = " x ".join(f"{dimension['block']} {dimension['size']}" for dimension in dimensions)
    figures = {"dimensions": len(dimensions), "layers": len(layers), "shape": shape}
    return Imported(document, f"{len(layers)} layers on {shape}", figures, notes)


IMPORTER: Importer = import_workload
