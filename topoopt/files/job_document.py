"""Parts of the instance file of a job: its fabric, operators in order, measured profiles, and how they are written.

A profile is ``{batch_size, ngpus, measurements: [{name, pc_str, fw_time, bw_time, mem_req}]}``; `ngpus` counts
servers, times are ms, memory is bytes on one GPU. `pc_str` is ``<dims>-<ways of each dimension>``, sample dimension
last. The files are untrusted: sizes are bounded and every fault is listed.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from topoopt.core.arrays import GIB, MIB
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import Operator, Split, Workload
from topoopt.files.documents import Limits, load_document
from topoopt.files.reader_fields import FieldTable, notes_of
from topoopt.workloads.operators import Measurement, Profile

Entry = dict[str, object]


def split_document(split: Split) -> Entry:
    """One entry of `splits`."""
    keys = ("sample_ways", "channel_ways", "reduce_ways")
    return {name: getattr(split, name) for name in (*keys, "forward_ms", "backward_ms", "server_memory_bytes")}


def operator_document(operator: Operator, workload: Workload) -> Entry:
    """One entry of `operators`."""
    return {
        "name": operator.name,
        "kind": operator.kind,
        "output_elements": operator.output_elements,
        "element_bytes": operator.element_bytes,
        "weight_elements": list(operator.weight_elements),
        "inputs": [
            {"operator": workload.operators[edge.producer].name, "fraction": edge.fraction} for edge in operator.inputs
        ],
        "mixes_channels": operator.mixes_channels,
        "locally_reduced": operator.locally_reduced,
        "pinned_offset": operator.pinned_offset,
        "splits": [split_document(split) for split in operator.splits],
    }


def workload_document(workload: Workload) -> Entry:
    """A workload in full, as it stands under `workload`; reading it back gives an equal one."""
    return {
        "name": workload.name,
        "samples": workload.samples,
        "operators": [operator_document(operator, workload) for operator in workload.operators],
    }


def cluster_document(cluster: Cluster) -> Entry:
    """A cluster as it stands under `cluster`; reading it back gives an equal one."""
    memory = cluster.gpu_memory_bytes
    return {
        "servers": cluster.servers,
        "gpus_per_server": cluster.gpus_per_server,
        "degree": cluster.degree,
        "link_gbps": cluster.link_gbps,
        "links": cluster.links.value,
        "hop_latency_us": cluster.hop_latency_us,
        "ring_round_latency_us": cluster.ring_round_latency_us,
        "intra_server_gbps": cluster.intra_server_gbps,
        "local_allreduce": cluster.local_allreduce,
        "link_sharing": cluster.link_sharing.value,
        "compute_order": cluster.compute_order.value,
        "gpu_memory_gib": None if memory is None else memory / GIB,
    }


def topological_order(inputs: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Order of the operators in which producers stand before consumers, ties as in the file; and a cycle, if any.

    Args:
        inputs: for every operator the indices of its producers.

    Returns:
        (order, []) or (what could be ordered, the indices of one cycle, each the consumer of the one before).
    """
    waiting = [len(set(producers)) for producers in inputs]
    users: list[list[int]] = [[] for _ in inputs]
    for index, producers in enumerate(inputs):
        for producer in set(producers):
            users[producer].append(index)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for user in users[index]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, user)
    if len(order) == len(inputs):
        return order, []
    # Every operator left waits for another one left, so walking back must come round.
    index = next(index for index, count in enumerate(waiting) if count)
    walk: dict[int, int] = {}
    trail: list[int] = []
    while index not in walk:
        walk[index] = len(trail)
        trail.append(index)
        index = next(producer for producer in inputs[index] if waiting[producer])
    return order, trail[walk[index] :][::-1]


FIELDS: FieldTable = {
    "batch_size": ("used", "samples of an iteration"),
    "ngpus": ("used", "servers"),
    "measurements[].name": ("used", "operator"),
    "measurements[].pc_str": ("used", "into how many parts it is split"),
    "measurements[].fw_time": ("used", "ms of the forward pass"),
    "measurements[].bw_time": ("used", "ms of the backward pass"),
    "measurements[].mem_req": ("used", "bytes on a GPU"),
}
MAX_BYTES = 64 * MIB
MAX_MEASUREMENTS = 200_000
MAX_COUNT = 1 << 40
MAX_MS = 1e9
MAX_MEMORY = 1 << 60
MAX_PROBLEMS = 100


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def refuse(self, message: str, path: str, value: object = None, allowed: str | None = None) -> None:
        text = None if value is None else repr(value)[:80]
        self.problems.append(Problem(message, file=self.file, path=path, value=text, allowed=allowed))

    def field(self, table: Mapping[str, Any], name: str, path: str) -> Any:
        if name not in table:
            self.refuse("missing key", f"{path}{name}")
            return None
        return table[name]

    def integer(self, table: Mapping[str, Any], name: str, path: str, low: int, high: int) -> int | None:
        value = self.field(table, name, path)
        if value is None and name not in table:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse("not a count in range", f"{path}{name}", value, f"integer from {low} to {high}")
            return None
        return value

    def milliseconds(self, table: Mapping[str, Any], name: str, path: str) -> float | None:
        value = self.field(table, name, path)
        if value is None and name not in table:
            return None
        good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_MS
        if not good or not math.isfinite(value):
            self.refuse("not a time in range", f"{path}{name}", value, f"number from 0 to {MAX_MS:g} (ms)")
            return None
        return float(value)

    def parts(self, table: Mapping[str, Any], path: str, servers: int | None) -> int | None:
        text = self.field(table, "pc_str", path)
        if text is None and "pc_str" not in table:
            return None
        where = f"{path}pc_str"
        fields = text.split("-") if isinstance(text, str) and len(text) <= 100 else []
        if len(fields) < 2 or not all(f.isascii() and f.isdigit() and len(f) <= 9 for f in fields):
            self.refuse("not a split", where, text, "<dimensions>-<ways>-...-<ways>")
            return None
        dimensions, *counts = (int(f) for f in fields)
        if dimensions != len(counts):
            self.refuse("the number of ways differs from the number of dimensions", where, text)
            return None
        if any(parts != 1 for parts in counts[:-1]):
            self.refuse("only the sample dimension, the last one, may be split", where, text)
            return None
        if counts[-1] < 1 or (servers is not None and servers % counts[-1]):
            self.refuse("the split does not divide the servers", where, text, f"a divisor of {servers}")
            return None
        return counts[-1]


def read_profile(path: Path | str) -> Profile:
    """Read a measured profile.

    Raises:
        InputError: the file cannot be read, is larger than 64 MiB, is not JSON, or breaks the format; all faults are
            listed (at most 100).
    """
    path = Path(path)
    file = load_document(path, Limits(json_bytes=MAX_BYTES))
    document = file.data
    reader = _Reader(str(path))
    if not isinstance(document, dict):
        raise InputError([Problem("not a profile: the document is not an object", file=str(path))])
    try:
        notes_of(file, FIELDS)
    except InputError as error:
        reader.problems.extend(error.problems)
    samples = reader.integer(document, "batch_size", "", 1, MAX_COUNT)
    servers = reader.integer(document, "ngpus", "", 1, 1 << 20)
    entries = reader.field(document, "measurements", "")
    if not isinstance(entries, list) or not 0 < len(entries) <= MAX_MEASUREMENTS:
        if "measurements" in document:
            reader.refuse("not a list of measurements", "measurements", None, f"1 to {MAX_MEASUREMENTS} entries")
        entries = []
    operators: dict[str, dict[int, Measurement]] = {}
    for index, entry in enumerate(entries):
        where = f"measurements[{index}]."
        if len(reader.problems) >= MAX_PROBLEMS:
            break
        if not isinstance(entry, dict):
            reader.refuse("not an object", where[:-1], entry)
            continue
        name = reader.field(entry, "name", where)
        if "name" in entry and (not isinstance(name, str) or not 0 < len(name) <= 200):
            reader.refuse("not a name", f"{where}name", name, "text of 1 to 200 characters")
        parts = reader.parts(entry, where, servers)
        forward = reader.milliseconds(entry, "fw_time", where)
        backward = reader.milliseconds(entry, "bw_time", where)
        memory = reader.integer(entry, "mem_req", where, 0, MAX_MEMORY)
        if parts is None or forward is None or backward is None or memory is None or not isinstance(name, str):
            continue
        table = operators.setdefault(name, {})
        if parts in table:
            reader.refuse("measured twice", where[:-1], f"{name} in {parts} parts")
        table[parts] = Measurement(forward, backward, memory)
    if reader.problems or samples is None or servers is None:
        raise InputError(reader.problems)
    return Profile(servers=servers, samples=samples, operators=operators, source=str(path))
