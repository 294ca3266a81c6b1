"""Inputs of TE-CCL (JSON: TopologyParams, InstanceParams) as instances."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.core.collective import CollectiveOp
from topoopt.files.faults import nearest_text, value_text
from topoopt.files.untrusted import parsing, refusal
from topoopt.formats.importer import Imported, Importer, NameOption, name_of
from topoopt.formats.schedules.importer import collective_document
from topoopt.formats.schedules.json_file import read_object
from topoopt.formats.teccl.machines import MACHINES

WHAT = "an input of TE-CCL (JSON with TopologyParams and InstanceParams)"
COLLECTIVES = {1: CollectiveOp.ALLGATHER, 2: CollectiveOp.ALL_TO_ALL}
MOST_CHASSIS = 256
MOST_SIDE = 64


def import_input(
    file: Annotated[Path, typer.Argument(help="Input of TE-CCL (JSON).")], name: NameOption = None
) -> Imported:
    """An input of TE-CCL as an instance; nodes are numbered as there, so that its schedules can be audited on it."""
    document = read_object(file, WHAT)
    with parsing(str(file), WHAT):
        topology, instance = document["TopologyParams"], document["InstanceParams"]
        machine = str(topology["name"])
        if machine not in MACHINES:
            allowed = nearest_text(machine, MACHINES)
            raise refusal("no such network", str(file), value=value_text(machine), allowed=allowed)
        chassis = _whole(topology.get("chassis", 1), MOST_CHASSIS)
        side = _whole(topology.get("side_length", 4), MOST_SIDE) if machine == "Mesh" else 1
        made = MACHINES[machine](chassis, side)
        ranks = made.nodes - len(made.switches)
        chunks = _whole(instance.get("num_chunks", 1), 10**6)
        size = round(float(topology["chunk_size"]) * 1e9 * chunks * ranks)
        number = instance["collective"]
        if number not in COLLECTIVES:
            raise refusal(
                "no such collective", str(file), value=value_text(number), allowed="1 allgather, 2 all-to-all"
            )
        latency = _latency_us(topology, made.latency_us)
    section = {"links": [list(row) for row in made.links], "nodes": made.nodes, "switches": list(made.switches)}
    more = {"switches": {"multicast": True}} if made.switches and instance.get("switch_copy") else {}
    imported = collective_document(
        name or name_of(file), section, COLLECTIVES[number], size, latency_us={"link": latency, "message": 0.0}, **more
    )
    notes = ["of latencies that differ from link to link the least is taken, so that bounds hold"]
    figures = {"collective": COLLECTIVES[number].value, "ranks": ranks, "links": len(made.links)}
    return Imported(imported, f"{figures['collective']} of {ranks} ranks on {machine}", figures, tuple(notes))


def _whole(value: object, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ValueError(f"{value!r} is no whole number from 1 to {most}")
    return value


def _latency_us(topology: Mapping[str, Any], default: float) -> float:
    """The least of `alpha` (seconds), where it is given."""
    given = [float(one) for one in topology.get("alpha", ())]
    least = min(given) * 1e6 if given else default
    if not 0 <= least <= 1e6:
        raise ValueError(f"{least} us is no latency")
    return least


IMPORTER: Importer = import_input
