"""Forwarding scripts, applied: eight servers as network namespaces behind optical switches, every pair pings."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.handmade import altered
from tests.support.lab import Machine, new_space, process, require, run
from tests.support.make_solution import make_solution
from tests.support.paths import ROOT
from topoopt.core.cluster import LinkDirection
from topoopt.core.job import JobPlan
from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.core.workload import PathTable
from topoopt.formats.forwarding import build_linux
from topoopt.formats.table import ExportOptions

PING = str(ROOT / "tests/support/ping.py")


def two_paths(solution: Result[Any, Any]) -> Result[Any, Any]:
    """The same with two paths from server 0 to server 2, one of them a detour, and only those in its routes."""
    nodes = [(0, 1, 2), (0, 3, 2), (5, 4, 3, 6)]
    routes = PathTable(
        nodes_total=8,
        source=np.array([0, 5], dtype=np.int32),
        target=np.array([2, 6], dtype=np.int32),
        pair_ptr=np.array([0, 2, 3], dtype=np.int64),
        share=np.array([0.5, 0.5, 1.0]),
        path_ptr=np.cumsum([0, *map(len, nodes)]),
        node=np.array([node for path in nodes for node in path], dtype=np.int32),
    )
    return replace(solution, plan=replace(solution.plan, routes=routes))


def one_way() -> Result[Any, Any]:
    """Eight servers whose interfaces send to one server and receive from another: i to i + 1 and to i + 3."""
    n = 8
    switches = np.array([[(i + p) % n for i in range(n)] for p in (1, 3)], dtype=np.int32)
    arcs = np.array(sorted((i, int(row[i])) for row in switches for i in range(n)), dtype=np.int32)
    topology = Topology(n, 2, LinkDirection.UNIDIRECTIONAL, arcs, np.ones(2 * n, dtype=np.int32), switches)
    solution = make_solution(n, (1, 3))
    none = np.zeros(0, dtype=np.int32)
    first = np.zeros(1, dtype=np.int64)
    routes = PathTable(n, none, none, first, np.zeros(0), first, none)
    return altered(
        solution,
        cluster=replace(solution.figures.cluster, degree=2, links=LinkDirection.UNIDIRECTIONAL),
        plan=JobPlan(solution.plan.strategy, topology, routes, ()),
    )


@contextmanager
def optical(topology: Topology, names: list[str], folder: Path) -> Iterator[tuple[str, dict[str, Machine]]]:
    """Servers whose interfaces end at optical switches that send every frame where the topology says."""
    with ExitStack() as stack:
        fabric = new_space(stack, "optics")
        machines = {name: Machine(name, new_space(stack, name), folder / name) for name in names}
        for server, machine in enumerate(machines.values()):
            machine.folder.mkdir()
            for port in range(topology.degree):
                ends = ["link", "add", f"eth{port + 1}", "netns", machine.space, "type", "veth"]
                run("ip", *ends, "peer", "name", f"p{server}x{port}", "netns", fabric)
                run("ip", "-n", fabric, "link", "set", f"p{server}x{port}", "up")
                machine.run("ip", "link", "set", f"eth{port + 1}", "up")
        for port, row in enumerate(topology.switches.tolist()):
            for server, head in enumerate(row):
                device = f"p{server}x{port}"
                run("tc", "-n", fabric, "qdisc", "add", "dev", device, "clsact")
                match = ["protocol", "all", "u32", "match", "u32", "0", "0", "action", "mirred", "egress", "redirect"]
                words = ["tc", "-n", fabric, "filter", "add", "dev", device, "ingress", *match, "dev"]
                if head >= 0:
                    run(*words, f"p{head}x{port}")
        yield fabric, machines


@pytest.mark.parametrize("case", ["two paths", "one way", "rings"])
def test_every_pair_pings_over_its_path(tmp_path: Path, case: str) -> None:
    """Each address pair is answered, its requests pass just the servers planned, and teardown leaves nothing."""
    require("ip", "tc")
    base = make_solution(8, (1, 3))
    solution = {"two paths": two_paths(base), "one way": one_way(), "rings": base}[case]
    export = build_linux(solution, ExportOptions())
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    for name, data in export.files:
        (scripts / name).write_bytes(data)
    rows = list(csv.DictReader(io.StringIO((scripts / "paths.csv").read_text())))
    ways = {f"{row['source_address']}>{row['target_address']}": row["hosts"].split() for row in rows}
    assert {(row["source"], row["target"]) for row in rows} == {
        (f"server{i}", f"server{j}") for i in range(8) for j in range(8) if i != j
    }
    names = [f"server{server}" for server in range(8)]
    with optical(solution.plan.topology, names, tmp_path) as (fabric, machines):
        before = {name: machine.snapshot(ovs=False) for name, machine in machines.items()}
        hardware = {name: machine.run("cat", "/sys/class/net/eth1/address") for name, machine in machines.items()}
        for name, machine in machines.items():
            assert "Dry run" in machine.script(scripts / f"{name}.ip.sh", "dry-run")
            assert machine.script(scripts / f"{name}.ip.sh", "apply") == "applied\n"
            machine.script(scripts / f"{name}.ip.sh", "apply")  # a second time changes nothing
        with process(["ip", "netns", "exec", fabric, sys.executable, PING, "watch"], {}, stdin=True) as watcher:
            assert watcher.stdout is not None
            assert watcher.stdout.readline() == "ready\n"
            for name, machine in machines.items():
                own = [way for way, hosts in ways.items() if hosts[0] == name]
                assert json.loads(machine.run(sys.executable, PING, "send", *own)) == own
            seen = json.loads(watcher.communicate("", timeout=180)[0])
        for way, hosts in ways.items():
            ports = seen[way][-(len(hosts) - 1) :]  # a repeated request leaves earlier ones before it
            assert [f"server{port[1:].split('x')[0]}" for port in ports] == hosts[:-1], way
            assert len(seen[way]) % (len(hosts) - 1) == 0, way
        for name, machine in machines.items():
            assert machine.script(scripts / f"{name}.ip.sh", "teardown") == "torn down\n"
            assert machine.snapshot(ovs=False) == before[name]
            assert machine.run("cat", "/sys/class/net/eth1/address") == hardware[name]
            assert machine.run("ip", "neigh", "show", "nud", "permanent") == ""
