"""Inputs of TE-CCL (JSON: TopologyParams, InstanceParams) as instances."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.core.collective import CollectiveOp
from topoopt.files.faults import Fault, nearest_text, value_text
from topoopt.files.reader_fields import FieldTable, notes_of
from topoopt.files.untrusted import parsing, refusal
from topoopt.formats.importer import Imported, Importer, NameOption, name_of
from topoopt.formats.schedules.importer import collective_document
from topoopt.formats.schedules.json_file import read_object
from topoopt.formats.teccl.machines import FIXED_CHASSIS, MACHINES

WHAT = "an input of TE-CCL (JSON with TopologyParams and InstanceParams)"
COLLECTIVES = {1: CollectiveOp.ALLGATHER, 2: CollectiveOp.ALL_TO_ALL}
FIELDS: FieldTable = {
    "TopologyParams.name": ("used", "DGX1, NDv2, DGX2, AMD or Mesh"),
    "TopologyParams.chassis": ("used", "how many; refused where the network is always of another number"),
    "TopologyParams.chunk_size": ("used", "GB of a chunk"),
    "TopologyParams.alpha[]": ("used", "latency of links and of links at switches, seconds: the least of them"),
    "TopologyParams.side_length": ("used", "nodes a side of a Mesh; noted for others"),
    "GurobiParams": ("noted", "settings of the solver of TE-CCL"),
    "InstanceParams.collective": ("used", "1 allgather, 2 all-to-all"),
    "InstanceParams.num_chunks": ("used", "chunks from each node to each other"),
    "InstanceParams.switch_copy": ("used", "whether switches copy; where there are switches"),
    "InstanceParams.switch_to_gpu_link_on": ("noted", "whether links from switches take time; here they do"),
    "InstanceParams.epoch_type": ("noted", "how TE-CCL cuts time; instances do not"),
    "InstanceParams.epoch_duration": ("noted", "how TE-CCL cuts time"),
    "InstanceParams.epoch_multiplier": ("noted", "how TE-CCL cuts time"),
    "InstanceParams.num_epochs": ("noted", "how TE-CCL cuts time"),
    "InstanceParams.epsilon": ("noted", "of the objective of TE-CCL"),
    "InstanceParams.alpha_threshold": ("noted", "below which TE-CCL takes latencies for none"),
    "InstanceParams.alpha_epoch_duration_ratio_max": ("noted", "how TE-CCL cuts time"),
    "InstanceParams.objective_type": ("noted", "of the program of TE-CCL"),
    "InstanceParams.solution_method": ("noted", "of the solver of TE-CCL"),
    "InstanceParams.symmetry": ("noted", "constraint on the flows of TE-CCL"),
    "InstanceParams.warmstart": ("noted", "file to start from"),
    "InstanceParams.debug": ("noted", "output of TE-CCL"),
    "InstanceParams.debug_output_file": ("noted", "output of TE-CCL"),
    "InstanceParams.schedule_output_file": ("noted", "output of TE-CCL"),
    "InstanceParams.lower": ("noted", "output of TE-CCL"),
    "InstanceParams.lower_xml": ("noted", "output of TE-CCL"),
}
MOST_CHASSIS = 256
MOST_SIDE = 64


def import_input(
    file: Annotated[Path, typer.Argument(help="Input of TE-CCL (JSON).")], name: NameOption = None
) -> Imported:
    """An input of TE-CCL as an instance; nodes are numbered as there, so that its schedules can be audited on it."""
    document, lines = read_object(file, WHAT)
    if not {"TopologyParams", "InstanceParams"} <= document.keys():
        raise refusal(f"not {WHAT}", str(file), allowed="TopologyParams, InstanceParams")
    notes = list(notes_of(lines, FIELDS, _chassis_faults(document["TopologyParams"])))
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
    if machine != "Mesh" and "side_length" in topology:
        notes.append(f"not used: TopologyParams.side_length, which {machine} does not have")
    if not made.switches and "switch_copy" in instance:
        notes.append(f"not used: InstanceParams.switch_copy, as {machine} has no switches here")
    alphas = topology.get("alpha") or ()
    if len({float(one) for one in alphas}) > 1:
        shown = ", ".join(f"{float(one):g}" for one in alphas)
        notes.append(f"TopologyParams.alpha ({shown} s): the least is taken for every link, so that bounds hold")
    elif not alphas:
        notes.append(
            f"the file states no alpha: {machine} is taken with the least of its latencies, so that bounds hold"
        )
    figures = {"collective": COLLECTIVES[number].value, "ranks": ranks, "links": len(made.links)}
    return Imported(imported, f"{figures['collective']} of {ranks} ranks on {machine}", figures, tuple(notes))


def _chassis_faults(topology: object) -> list[Fault]:
    """A number of chassis that a network of TE-CCL does not heed."""
    given = topology if isinstance(topology, dict) else {}
    machine, chassis = str(given.get("name")), given.get("chassis")
    allowed = FIXED_CHASSIS.get(machine)
    if allowed is None or chassis is None or chassis == allowed:
        return []
    text = f"{machine} of TE-CCL is always of one size"
    return [Fault(("TopologyParams", "chassis"), text, value_text(chassis), str(allowed))]


def _whole(value: object, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ValueError(f"{value!r} is no whole number from 1 to {most}")
    return value


def _latency_us(topology: Mapping[str, Any], default: float) -> float:
    """The least of `alpha` (seconds), where it is given."""
    given = [float(one) for one in topology.get("alpha") or ()]
    least = min(given) * 1e6 if given else default
    if not 0 <= least <= 1e6:
        raise ValueError(f"{least} us is no latency")
    return least


IMPORTER: Importer = import_input
