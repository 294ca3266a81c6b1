"""What is wrong with a placement instance beyond its schema: names, cycles, costs, co-location, memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from topoopt.files.faults import MAX_LISTED, Fault, Path, nearest_text, value_text
from topoopt.files.operator_order import topological_order
from topoopt.kinds.placement.schema import DeviceFile, GraphOperatorFile, PlacementServerFile, TensorFile

SHOWN_NAMES = 8
"""Names of a cycle or a group written out; more are counted."""


def _repeated(names: Iterable[tuple[Path, str]], what: str) -> list[Fault]:
    first: dict[str, Path] = {}
    faults = []
    for path, name in names:
        if name in first:
            faults.append(Fault((*path, "name"), f"the name of another {what}", value_text(name), "each name once"))
        first.setdefault(name, path)
    return faults


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(value_text(name) for name in names[:SHOWN_NAMES])
    return text if len(names) <= SHOWN_NAMES else f"{text} and {len(names) - SHOWN_NAMES} more"


def server_faults(servers: Sequence[PlacementServerFile]) -> list[Fault]:
    """Names twice, no device at all, servers that cannot be reached."""
    at: list[tuple[Path, str]] = [(("servers", i), server.name) for i, server in enumerate(servers)]
    faults = _repeated(at, "server")
    faults += _repeated(
        (
            (("servers", i, "devices", j), device.name)
            for i, server in enumerate(servers)
            for j, device in enumerate(server.devices)
        ),
        "device",
    )
    for i, server in enumerate(servers):
        faults += _repeated(((("servers", i, "links", j), link.name) for j, link in enumerate(server.links)), "link")
        if len(servers) > 1 and not server.links:
            faults.append(Fault(("servers", i, "links"), "no link to the other servers", allowed="at least one"))
        elif not server.links and len(server.devices) > 1 and server.intra_gbps is None:
            allowed = "intra_gbps or links"
            faults.append(Fault(("servers", i), "no rate between the devices of the server", allowed=allowed))
    if not any(server.devices for server in servers):
        faults.append(Fault(("servers",), "no device at all", allowed="at least one server with devices"))
    return faults


def _runs_on(operator: GraphOperatorFile, device: DeviceFile) -> bool:
    return operator.times_ms.get(device.device_class) is not None


def operator_faults(operators: Sequence[GraphOperatorFile], servers: Sequence[PlacementServerFile]) -> list[Fault]:
    """Names twice, classes missing, operators and co-located groups that fit no device."""
    faults = _repeated(((("operators", i), operator.name) for i, operator in enumerate(operators)), "operator")
    devices = [device for server in servers for device in server.devices]
    classes = list(dict.fromkeys(device.device_class for device in devices))
    if not devices:
        return faults
    groups: dict[str, list[int]] = {}
    for i, operator in enumerate(operators):
        if len(faults) >= MAX_LISTED:
            return faults
        path: Path = ("operators", i)
        missing = [name for name in classes if name not in operator.times_ms]
        if missing:
            allowed = f"a time, or null where it cannot run, for each of {', '.join(classes)}"
            faults.append(Fault((*path, "times_ms"), "no time for a device class", ", ".join(missing), allowed))
            continue
        able = [device for device in devices if _runs_on(operator, device)]
        if not able:
            faults.append(Fault(path, "the operator runs on no device", value_text(operator.name)))
        elif all(device.memory_bytes is not None and operator.memory_bytes > device.memory_bytes for device in able):
            most = max(device.memory_bytes or 0 for device in able)
            text = f"{operator.memory_bytes} bytes of {value_text(operator.name)}"
            allowed = f"at most {most}, the memory of the largest device it runs on"
            faults.append(Fault((*path, "memory_bytes"), "the operator fits no device", text, allowed))
        elif operator.colocation is not None:
            groups.setdefault(operator.colocation, []).append(i)
    for label, members in groups.items():
        faults += _group_faults(label, [operators[i] for i in members], ("operators", members[0]), devices)
    return faults


def _group_faults(
    label: str, members: Sequence[GraphOperatorFile], path: Path, devices: Sequence[DeviceFile]
) -> list[Fault]:
    """A co-located group (of operators that fit singly) that nothing can hold."""
    where = (*path, "colocation")
    names = _listed([operator.name for operator in members])
    able = [device for device in devices if all(_runs_on(operator, device) for operator in members)]
    if not able:
        text = f"no device runs all operators of a co-located group: {names}"
        return [Fault(where, text, value_text(label))]
    total = sum(operator.memory_bytes for operator in members)
    if all(device.memory_bytes is not None and total > device.memory_bytes for device in able):
        most = max(device.memory_bytes or 0 for device in able)
        text = f"a co-located group fits no device, {total} bytes: {names}"
        return [Fault(where, text, value_text(label), f"at most {most} bytes together")]
    return []


def tensor_faults(tensors: Sequence[TensorFile], operators: Sequence[GraphOperatorFile]) -> list[Fault]:
    """Unknown names, consumers twice, and a cycle."""
    index = {operator.name: i for i, operator in enumerate(operators)}
    faults: list[Fault] = []
    inputs: list[list[int]] = [[] for _ in operators]
    for i, tensor in enumerate(tensors):
        if len(faults) >= MAX_LISTED:
            return faults
        for key, name in (("producer", tensor.producer), *(("consumers", name) for name in tensor.consumers)):
            if name not in index:
                allowed = nearest_text(name, index)
                faults.append(Fault(("tensors", i, key), "no operator of that name", value_text(name), allowed))
            elif key == "consumers" and tensor.producer in index:
                inputs[index[name]].append(index[tensor.producer])
        if len(set(tensor.consumers)) < len(tensor.consumers):
            faults.append(Fault(("tensors", i, "consumers"), "a consumer more than once", allowed="each once"))
    if not faults:
        _, cycle = topological_order(inputs)
        if cycle:
            names = _listed([operators[i].name for i in cycle])
            faults.append(Fault(("tensors",), f"the graph has a cycle of {len(cycle)} operators", names, "no cycle"))
    return faults
