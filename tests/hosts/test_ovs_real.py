"""Scripts for hosts, applied: three hosts as network namespaces, state read back, traffic measured, torn down."""

from __future__ import annotations

import json
import re
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.host_cases import allocated, placed
from tests.support.lab import Machine, lab, process, require
from tests.support.paths import ROOT
from topoopt.formats.forwarding import build_ovs
from topoopt.formats.table import Export, ExportOptions

TOOLS = ("ip", "tc", "iperf3", "ethtool")
OVS_TOOLS = ("ovs-vsctl", "ovs-ofctl", "ovsdb-server", "ovsdb-tool", "ovs-vswitchd")

MBIT = 0.001
LINK_MBIT = 20.0
SHARES: dict[tuple[str, str, int], float] = {
    ("A", "B", 0): 3,
    ("A", "C", 0): 15,
    ("A", "B", 1): 13,
    ("A", "C", 1): 4,
    ("B", "A", 0): 3,
    ("B", "C", 0): 4,
    ("B", "A", 1): 2,
    ("B", "C", 1): 15,
    ("C", "A", 0): 6,
    ("C", "B", 0): 10,
    ("C", "A", 1): 13,
    ("C", "B", 1): 3,
}
"""Mbit/s by source, destination and link: within every link of 20 Mbit/s in both directions."""

SECONDS = 3
TOLERANCE = 0.85
"""Part of its share that a destination must receive."""
WINDOWS = 20
"""A busy machine may stop a sender in one window; a wrong share is missed in all of them."""


def scripts(folder: Path, **options: bool) -> Export:
    """The export of the shares above, in a folder."""
    links = {server: {"eth1": LINK_MBIT * MBIT, "eth2": LINK_MBIT * MBIT} for server in "ABC"}
    export = build_ovs(placed(links, {key: MBIT * mbit for key, mbit in SHARES.items()}), ExportOptions(**options))
    for name, data in export.files:
        (folder / name).write_bytes(data)
    return export


def number(host: str) -> int:
    """Last byte of its addresses."""
    return "ABC".index(host) + 1


def check_all_send(machines: dict[str, Machine], offered: dict[tuple[str, str, int], float]) -> None:
    """Every destination gets its share when all hosts send to all others on all links (Mbit/s, UDP)."""
    for _ in range(WINDOWS):
        received = receive_all(machines, offered)
        if all(received[key] >= TOLERANCE * mbit for key, mbit in SHARES.items()):
            return
    raise AssertionError(received)


def receive_all(
    machines: dict[str, Machine], offered: dict[tuple[str, str, int], float]
) -> dict[tuple[str, str, int], float]:
    """Mbit/s that every destination receives in one window."""
    with ExitStack() as stack:
        loads = []
        for name, machine in machines.items():
            own = [f"10.{link + 1}.0.{number(name)}" for link in (0, 1)]
            paths = [
                f"{own[link]}=10.{link + 1}.0.{number(there)}={mbit}"
                for (here, there, link), mbit in sorted(offered.items())
                if here == name
            ]
            load = [sys.executable, str(ROOT / "tests/support/udp_load.py"), str(SECONDS)]
            words = ["ip", "netns", "exec", machine.space, *load, *own, "--", *paths]
            loads.append(stack.enter_context(process(words, {})))
        rates: dict[str, float] = {}
        for load in loads:
            rates |= json.loads(load.communicate(timeout=180)[0])
    ends = {key: [f"10.{key[2] + 1}.0.{number(host)}" for host in key[:2]] for key in SHARES}
    return {key: rates.get(">".join(pair), 0.0) for key, pair in ends.items()}


def await_listener(machine: Machine, port: int) -> None:
    """Until a host listens."""
    for _ in range(100):
        if f":{port:04X} " in machine.run("cat", "/proc/net/tcp", "/proc/net/tcp6"):
            return
        time.sleep(0.05)
    raise AssertionError(f"nobody listens at {port}")


def rates_of_classes(text: str, handle: str) -> dict[int, tuple[str, str]]:
    """Guarantee and limit by queue, of `tc class show`."""
    found = re.findall(rf"class htb {handle}:(\w+) .*? rate (\w+) ceil (\w+) ", text)
    return {int(minor, 16) - 1: (rate, ceil) for minor, rate, ceil in found if int(minor, 16) < 0xFF00}


def test_open_vswitch(tmp_path: Path) -> None:
    """Applied twice, the state is the solution; each destination gets its share when all send; teardown is complete.

    The userspace datapath takes set_queue and ignores it, so that filters on the same classes choose them here.
    """
    require(*TOOLS, *OVS_TOOLS)
    scripts(tmp_path)
    with lab("ABC", 2, tmp_path, ovs=True) as machines:
        first = machines["A"]
        # Things of others that look like ours.
        first.run("ovs-vsctl", "add-br", "br-eth2", "--", "set", "bridge", "br-eth2", "datapath_type=netdev")
        first.run("ovs-vsctl", "add-port", "br-eth2", "eth2")
        first.run("ip", "address", "add", "10.2.0.1/24", "dev", "br-eth2")
        first.run("ip", "link", "set", "br-eth2", "up")
        first.run("ip", "rule", "add", "from", "10.99.0.1", "lookup", "99", "priority", "7101")
        before = {name: machine.snapshot(ovs=True) for name, machine in machines.items()}
        for name, machine in machines.items():
            assert "nothing is changed" in machine.script(tmp_path / f"{name}.ovs.sh", "dry-run")
            assert machine.snapshot(ovs=True) == before[name]
            for _ in range(2 if machine is first else 1):
                assert machine.script(tmp_path / f"{name}.ovs.sh", "apply").endswith("applied\n")
            read_back(machine)
        # The userspace datapath drops in batches what a queue does not take: no destination gets more than its share.
        check_all_send(machines, dict(SHARES))
        check_classes(machines)
        check_tcp(machines, "1")
        assert "another rendering" in first.script(tmp_path / "A.tc.sh", "apply", check=False)
        for name, machine in machines.items():
            for _ in range(2 if machine is first else 1):
                assert machine.script(tmp_path / f"{name}.ovs.sh", "teardown") == "torn down\n"
            assert machine.snapshot(ovs=True) == before[name]


def check_classes(machines: dict[str, Machine]) -> None:
    """What was sent to a destination went through its class."""
    for (here, there, link), mbit in SHARES.items():
        text = machines[here].run("tc", "-s", "class", "show", "dev", f"eth{link + 1}")
        found = re.search(rf"class htb 1:{number(there) + 1} .*\n Sent (\d+) bytes", text)
        assert found is not None
        assert 8 * int(found[1]) >= TOLERANCE * mbit * 1e6 * SECONDS


def read_back(machine: Machine) -> None:
    """Queues, flows, rules and routes as the daemons and the kernel tell them."""
    others = [name for name in "ABC" if name != machine.name]
    for link in (0, 1):
        interface, bridge = f"eth{link + 1}", f"br-eth{link + 1}"
        classes = rates_of_classes(machine.run("tc", "class", "show", "dev", interface), "1")
        wanted = {number(there): (f"{SHARES[machine.name, there, link]:g}Mbit", "20Mbit") for there in others}
        assert classes == {0: ("20Kbit", "20Mbit"), **wanted}
        flows = machine.run("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", bridge, "cookie=0x746f706f/-1")
        chosen = re.findall(r"in_port=LOCAL,nw_dst=(\S+) actions=set_queue:(\d+),NORMAL", flows)
        assert set(chosen) == {
            (address, str(number(there)))
            for there in others
            for address in (f"10.{link + 1}.0.{number(there)}", f"10.200.0.{number(there)}")
        }
        qos = machine.run("ovs-vsctl", "get", "port", interface, "qos").strip()
        assert machine.run("ovs-vsctl", "get", "qos", qos, "other_config:max-rate") == '"20000000"\n'
    rules = json.loads(machine.run("ip", "-j", "rule"))
    ours = {(rule["priority"], rule["src"]) for rule in rules if str(rule.get("protocol")) == "106"}
    assert ours == {(7100, "all"), *((7101 + k, f"10.{k + 1}.0.{number(machine.name)}") for k in (0, 1))}
    for there in others:
        routes = json.loads(machine.run("ip", "-j", "route", "show", "table", "7100", f"10.200.0.{number(there)}"))
        hops = {hop["gateway"]: hop["weight"] for hop in routes[0]["nexthops"]}
        first, second = (SHARES[machine.name, there, k] for k in (0, 1))
        got = [hops[f"10.{k + 1}.0.{number(there)}"] for k in (0, 1)]
        assert got[0] * second == got[1] * first


def test_tc(tmp_path: Path) -> None:
    """The same with plain tc, and a strict share is also the limit."""
    require(*TOOLS)
    scripts(tmp_path)
    with lab("ABC", 2, tmp_path, ovs=False) as machines:
        before = {name: machine.snapshot(ovs=False) for name, machine in machines.items()}
        for name, machine in machines.items():
            for _ in range(2 if name == "A" else 1):
                machine.script(tmp_path / f"{name}.tc.sh", "apply")
            classes = rates_of_classes(machine.run("tc", "class", "show", "dev", "eth1"), "7106")
            others = [there for there in "ABC" if there != name]
            assert {k: v[0] for k, v in classes.items() if k} == {
                number(there): f"{SHARES[name, there, 0]:g}Mbit" for there in others
            }
        check_all_send(machines, dict.fromkeys(SHARES, LINK_MBIT))
        check_tcp(machines, "7106")
        # Sockets to the address of a host use both links: more arrives than one link carries.
        check_rate(machines["A"], machines["B"], "10.200.0.2", "16", (1.1 * LINK_MBIT, 2.2 * LINK_MBIT))
        scripts(tmp_path, strict=True)
        machines["A"].script(tmp_path / "A.tc.sh", "apply")
        check_rate(machines["A"], machines["B"], "10.1.0.2", "2", (0, 1.1 * SHARES["A", "B", 0]))
        for name, machine in machines.items():
            machine.script(tmp_path / f"{name}.tc.sh", "teardown")
            assert machine.snapshot(ovs=False) == before[name]


def check_tcp(machines: dict[str, Machine], handle: str) -> None:
    """Two sockets to C get the larger share of a link beside six to B, where the sockets alone would have it reversed.

    Shares are of what left in a window, so that no clock is read; a busy machine may stop a client in one of them.
    """
    wanted = {there: TOLERANCE * SHARES["A", there, 0] / LINK_MBIT for there in "BC"}
    seen = []
    with ExitStack() as stack:
        for there, sockets, port in (("B", "6", 5201), ("C", "2", 5202)):
            server = ["ip", "netns", "exec", machines[there].space, "iperf3", "-s", "-1", "-p", str(port)]
            stack.enter_context(process(server, {}))
            await_listener(machines[there], port)
            ends = ["iperf3", "-c", f"10.1.0.{number(there)}", "-B", "10.1.0.1", "-p", str(port), "-P", sockets]
            words = ["ip", "netns", "exec", machines["A"].space, *ends, "-t", "300"]
            stack.enter_context(process(words, {}))
        for _ in range(WINDOWS):
            before = sent_bytes(machines["A"], handle)
            time.sleep(1.5)
            sent = {there: after - before[there] for there, after in sent_bytes(machines["A"], handle).items()}
            shares = {there: one / max(sum(sent.values()), 1) for there, one in sent.items()}
            if all(shares[there] >= least for there, least in wanted.items()):
                return
            seen.append(shares)
    raise AssertionError(seen)


def sent_bytes(machine: Machine, handle: str) -> dict[str, int]:
    """What went through the classes of B and C at the first interface."""
    text = machine.run("tc", "-s", "class", "show", "dev", "eth1")
    found = {
        there: re.search(rf"class htb {handle}:{number(there) + 1:x} .*\n Sent (\d+) bytes", text) for there in "BC"
    }
    return {there: int(one[1]) for there, one in found.items() if one is not None}


def check_rate(here: Machine, there: Machine, address: str, sockets: str, mbit: tuple[float, float]) -> None:
    """Several sockets to an address reach a rate between two in some window (Mbit/s)."""
    least, most = mbit
    seen = []
    for _ in range(WINDOWS):
        seen.append(parallel(here, there, address, sockets))
        if least <= seen[-1] <= most:
            return
    raise AssertionError(seen)


def parallel(here: Machine, there: Machine, address: str, sockets: str) -> float:
    """Mbit/s of several sockets to an address."""
    with process(["ip", "netns", "exec", there.space, "iperf3", "-s", "-1", "-p", "5300"], {}):
        await_listener(there, 5300)
        text = here.run("iperf3", "-c", address, "-p", "5300", "-P", sockets, "-t", "2", "-J", "-O", "1")
        return float(json.loads(text)["end"]["sum_received"]["bits_per_second"]) / 1e6


@pytest.mark.parametrize("rendering", ["ovs", "tc"])
def test_failures_are_undone(tmp_path: Path, rendering: str) -> None:
    """An interface that does not exist, a routing table of others: refused, and all is as it was."""
    ovs = rendering == "ovs"
    require(*TOOLS, *(OVS_TOOLS if ovs else ()))
    links = {server: {"eth1": 0.02, "eth9": 0.02} for server in "AB"}
    export = build_ovs(placed(links, {("A", "B", 0): 0.01, ("A", "B", 1): 0.01}), ExportOptions())
    file = tmp_path / f"A.{rendering}.sh"
    file.write_bytes(dict(export.files)[file.name])
    with lab("A", 1, tmp_path, ovs=ovs) as machines:
        machine = machines["A"]
        before = machine.snapshot(ovs=ovs)
        done = machine.script(file, "apply", check=False)
        assert "eth9" in done
        assert "applied" not in done
        assert machine.snapshot(ovs=ovs) == before
        machine.run("ip", "route", "add", "10.77.0.0/24", "dev", "lo", "table", "7101")
        assert "routing table 7101 is in use" in machine.script(file, "apply", check=False)
        machine.run("ip", "route", "del", "10.77.0.0/24", "dev", "lo", "table", "7101")
        assert machine.snapshot(ovs=ovs) == before


def test_forwarding(tmp_path: Path) -> None:
    """Servers in a line: the first reaches the last through the one between, at its share and not above when strict."""
    require(*TOOLS)
    rates = {(0, 2): [(1, 0.012)], (1, 2): [(2, 0.016)]}
    solution = allocated(3, [(0, 1), (1, 0), (1, 2), (2, 1)], 0.02, rates)
    export = build_ovs(solution, ExportOptions(strict=True))
    with lab(("server0", "server1", "server2"), 2, tmp_path, ovs=False, flat=True) as machines:
        before = {name: machine.snapshot(ovs=False) for name, machine in machines.items()}
        for name, machine in machines.items():
            file = tmp_path / f"{name}.tc.sh"
            file.write_bytes(dict(export.files)[file.name])
            machine.script(file, "apply")
        check_rate(machines["server0"], machines["server2"], "10.200.0.3", "2", (TOLERANCE * 12, 1.1 * 12))
        for name, machine in machines.items():
            machine.script(tmp_path / f"{name}.tc.sh", "teardown")
            assert machine.snapshot(ovs=False) == before[name]
