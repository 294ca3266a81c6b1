"""Which way packets take, found by following the commands of all servers' scripts; shares no code with their writer.

Hardware addresses must be those of the interface at the other end of the circuit, as on a real wire.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.read_back.commands import commands_of, refused
from topoopt.core.arrays import MIB
from topoopt.files.untrusted import read_csv_rows

MAX_BYTES = 256 * MIB

Way = tuple[str, ...]
Exit = tuple[str, str]
"""Interface and hardware address of a next hop."""


@dataclass
class Router:
    """A server after its script."""

    name: str
    addresses: set[str] = field(default_factory=set)
    hardware: dict[str, str] = field(default_factory=dict)
    neighbours: dict[tuple[str, str], str] = field(default_factory=dict)
    routes: dict[str, dict[str, list[tuple[str, str]]]] = field(default_factory=lambda: defaultdict(dict))
    own_table: str = ""
    tables: dict[str, str] = field(default_factory=dict)
    entries: dict[tuple[str, str, str], Exit] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)

    def exits(self, table: str, target: str) -> list[Exit]:
        """Where a table sends a packet."""
        hops = self.routes.get(table, {}).get(target, [])
        return [(device, self.neighbours[via, device]) for via, device in hops]


def interpret_forwarding(folder: Path) -> dict[str, dict[tuple[str, str], Way]]:
    """Hosts on the way of every row of paths.csv, by rendering and by its two addresses.

    Raises:
        InputError: a command that is not understood, a packet that is lost, or one that takes another way.
    """
    wires = {
        (row["from_host"], row["from_interface"]): (row["to_host"], row["to_interface"])
        for row in read_csv_rows(folder / "circuits.csv", MAX_BYTES)
    }
    rows = read_csv_rows(folder / "paths.csv", MAX_BYTES)
    found: dict[str, dict[tuple[str, str], Way]] = {}
    for rendering in ("ip", "flower"):
        routers = {
            one.name: one for one in (_read(file, rendering) for file in sorted(folder.glob(f"*.{rendering}.sh")))
        }
        ways = {
            (row["source_address"], row["target_address"]): _follow(routers, wires, row, rendering == "ip")
            for row in rows
        }
        for row in rows:
            if " ".join(ways[row["source_address"], row["target_address"]]) != row["hosts"]:
                raise refused(row["source"], f"{rendering}: the way is not the one that paths.csv says", row["hosts"])
        found[rendering] = ways
    return found


def _follow(
    routers: dict[str, Router], wires: dict[tuple[str, str], tuple[str, str]], row: dict[str, str], by_kernel: bool
) -> Way:
    source, target = row["source_address"], row["target_address"]
    here, entry, way = routers[row["source"]], "", [row["source"]]
    if source not in here.addresses:
        raise refused(here.name, "it has no such address", source)
    while target not in here.addresses:
        if not entry:
            exits = here.exits(here.own_table, target)
        elif by_kernel:
            exits = (
                here.exits(here.tables.get(source, ""), target) if here.settings["net.ipv4.ip_forward"] == "1" else []
            )
        else:
            exits = [here.entries[entry, source, target]] if (entry, source, target) in here.entries else []
        ends = {wires.get((here.name, device), ("", "")) for device, _ in exits}
        if len({name for name, _ in ends}) != 1 or len(way) > len(routers):
            raise refused(here.name, "a packet is lost, or may go to two servers", f"{source} to {target}")
        for device, hardware in exits:
            name, into = wires[here.name, device]
            if routers[name].hardware[into] != hardware:
                raise refused(here.name, f"{device} leads to another interface than {hardware}", name)
        name, entry = min(ends)
        here = routers[name]
        way.append(name)
    return tuple(way)


def _read(file: Path, rendering: str) -> Router:
    router = Router(file.name.removesuffix(f".{rendering}.sh"))
    for words in commands_of(file):
        try:
            VERBS[words[0]](router, words[1:])
        except (ValueError, KeyError, IndexError) as error:
            raise refused(router.name, f"a command that is not understood: {error!r}", " ".join(words)) from error
    devices = ["all", *router.hardware]
    wrong = [one for one in devices for key in ("rp_filter", "send_redirects")
             if router.settings.get(f"net.ipv4.conf.{one}.{key}") != "0"]  # fmt: skip
    if wrong:
        raise refused(router.name, "packets of others would be dropped", wrong[0])
    return router


def _setting(router: Router, words: list[str]) -> None:
    key, value = words
    router.settings[key] = value


def _hardware(router: Router, words: list[str]) -> None:
    device, value = words
    router.hardware[device] = value


def _address(router: Router, words: list[str]) -> None:
    value, device = words
    if device != "lo" or not value.endswith("/32"):
        raise ValueError("not an address of the host")
    router.addresses.add(value.removesuffix("/32"))


def _neighbour(router: Router, words: list[str]) -> None:
    via, hardware, device = words
    router.neighbours[via, device] = hardware


def _entry(router: Router, words: list[str]) -> None:
    (device,) = words
    if device not in router.hardware:
        raise ValueError("no such interface")


def _run(router: Router, words: list[str]) -> None:
    match words:
        case ["ip", "link", "set", device, "up"] if device in router.hardware:
            pass
        case ["ip", "rule", "add", "iif", "lo", "lookup", table, "priority", "7100", "protocol", "106"]:
            router.own_table = table
        case ["ip", "rule", "add", "from", source, "lookup", table, "priority", "7101", "protocol", "106"]:
            if source in router.tables or table in router.tables.values():
                raise ValueError("two rules")
            router.tables[source] = table
        case ["ip", "route", "add", target, "table", table, "protocol", "106", *hops] if target.endswith("/32"):
            if hops[:1] == ["src"]:
                if hops[1] not in router.addresses:
                    raise ValueError("not its own address")
                hops = hops[2:]
            if target.removesuffix("/32") in router.routes[table]:
                raise ValueError("two routes")
            router.routes[table][target.removesuffix("/32")] = _next_hops(hops)
        case ["tc", "filter", "add", "dev", entry, "ingress", "protocol", "ip", "prio", "1", "flower", "src_ip", source,
              "dst_ip", target, "action", "pedit", "ex", "munge", "eth", "dst", "set", hardware, "pipe", "action",
              "mirred", "egress", "redirect", "dev", device]:  # fmt: skip
            if (entry, source, target) in router.entries or entry not in router.hardware:
                raise ValueError("two filters, or no such interface")
            router.entries[entry, source, target] = device, hardware
        case _:
            raise ValueError("unknown")


def _next_hops(words: list[str]) -> list[tuple[str, str]]:
    match words:
        case ["via", via, "dev", device, "onlink"]:
            return [(via, device)]
        case ["nexthop", "via", via, "dev", device, "weight", "1", "onlink", *rest]:
            return [(via, device), *(_next_hops(rest) if rest else [])]
        case _:
            raise ValueError("not a next hop")


VERBS: dict[str, Callable[[Router, list[str]], None]] = {
    "setting": _setting,
    "hardware": _hardware,
    "address": _address,
    "neighbour": _neighbour,
    "entry": _entry,
    "run": _run,
}
