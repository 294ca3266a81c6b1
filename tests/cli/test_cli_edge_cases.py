"""Odd instances through the whole of `topoopt solve`: each ends in a checked plan or a clear refusal."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import topoopt
from tests.support.cli_cases import GIB, JOB_CHECKED, Run, chain, job, operator, run, write
from topoopt.kinds.job import SOLUTION_FILE

HUGE = 10**15 // (4 * 360)
"""Output elements of a tensor of 10^15 bytes for 360 samples: the largest a file may ask for."""


def tensor_parallel_only() -> list[dict[str, Any]]:
    """Operators over all eight servers, split along channels only."""
    operators = chain(8, 3)
    for each, ways in zip(
        operators,
        ({"channel_ways": 8}, {"reduce_ways": 8}, {"channel_ways": 2, "reduce_ways": 2, "sample_ways": 2}),
        strict=True,
    ):
        each["splits"] = [{"sample_ways": 1, "forward_ms": 1.0, "backward_ms": 2.0, **ways}]
    return operators


PINNED = [
    operator("a", 6, parts=[1], pinned_offset=0),
    operator("b", 6, ["a"], parts=[1], pinned_offset=5),
    operator("c", 6, ["b"], parts=[2], pinned_offset=1),
    operator("d", 6, ["c"], parts=[6], pinned_offset=0),
]

CASES: dict[str, dict[str, Any]] = {
    **{
        f"{n} servers, degree {d}, {links}": job(n, d, chain(n), links=links)
        for n, d in ((2, 2), (3, 2), (3, 3), (5, 2), (7, 3), (9, 3), (13, 4))
        for links in ("bidirectional", "unidirectional")
    },
    **{f"one-way degree {d}": job(5, d, chain(5), links="unidirectional") for d in (1, 2, 3)},
    "two servers, one cable": job(2, 1, chain(2)),
    "more interfaces than servers": job(4, 7, chain(4)),
    "64 interfaces, three servers": job(3, 64, chain(3)),
    "one interface to every other server": job(8, 7, chain(8)),
    "no weights": job(6, 2, chain(6, weights=0)),
    "no edges": job(6, 2, [operator(f"o{i}", 6) for i in range(4)]),
    "no traffic at all": job(6, 2, [operator(f"o{i}", 6, weights=0) for i in range(4)]),
    "one operator": job(6, 2, [operator("o", 6)]),
    "one operator on one server": job(6, 2, [operator("o", 6, weights=0, parts=[1])]),
    "whole operators only": job(6, 2, chain(6, parts=[1])),
    "data parallel only": job(6, 2, chain(6, parts=[6])),
    "channel splits only": job(8, 3, tensor_parallel_only()),
    "zero compute": job(6, 2, chain(6, time_ms=0.0)),
    "zero compute, whole operators": job(6, 2, chain(6, time_ms=0.0, parts=[1])),
    "all zero": job(6, 2, chain(6, time_ms=0.0, weights=0)),
    "long compute": job(6, 2, chain(6, time_ms=1e8)),
    "pinned": job(6, 2, PINNED),
    "largest weights": job(6, 2, [operator("o", 6, weights=10**13)]),
    "largest tensor": job(6, 2, [operator("a", 6, outputs=HUGE), operator("b", 6, ["a"])]),
    "no latency": job(6, 2, chain(6), hop_latency_us=0.0, ring_round_latency_us=0.0),
    "a second of latency": job(6, 2, chain(6), hop_latency_us=1e6, ring_round_latency_us=1e6),
    "slowest links": job(6, 2, chain(6), link_gbps=0.001),
    "fastest links": job(6, 2, chain(6), link_gbps=1e6),
    "one GPU a server": job(6, 2, chain(6), gpus_per_server=1),
    "one sample": job(4, 2, chain(4, 2, parts=[1]), samples=1),
    "no budget": job(6, 2, chain(6), search={"budget": 0}),
    "budget of one": job(6, 2, chain(6), search={"budget": 1}),
    "largest seed": job(6, 3, chain(6), search={"seed": 2**63 - 1}),
    "300 operators": job(4, 2, chain(4, 300, time_ms=0.05), search={"budget": 10}),
    "memory just enough": job(
        4, 2, [operator(f"o{i}", 4, parts=[1], memory_bytes=2 * GIB) for i in range(4)], gpu_memory_gib=1.0
    ),
    "names like markup": job(4, 2, [operator("[red]x[/red]", 4), operator("</script>", 4, ["[red]x[/red]"])]),
}


def solve(folder: Path, document: dict[str, Any], *words: object) -> Run:
    """Solve an instance document."""
    return run("solve", write(folder, document), "--output", folder / "out", "--json", *words)


@pytest.mark.parametrize("case", CASES)
def test_odd_instance_gives_a_checked_plan(tmp_path: Path, case: str) -> None:
    """Exit code 0, the checker takes the plan, and neither plan nor bound-abiding baselines beat the bound."""
    result = solve(tmp_path, CASES[case])
    assert result.code == 0
    document = result.json
    assert document["check"]["violations"] == []
    left_out = {one["figure"] for one in document["check"]["not_recomputed"]}
    # A server with one interface each way is in no random regular graph that is connected.
    assert left_out - {"baseline random-regular"} == {one["figure"] for one in JOB_CHECKED["not_recomputed"]}
    assert document["objective"]["value"] >= document["bound"]["value"] * (1 - 1e-9)
    assert document["iteration_time_ms"] <= document["initial_ms"]
    # The ideal switch has the bandwidth of all links of a server: bounds from bytes and compute bind it, too.
    assert document["baselines_ms"]["ideal-switch"] >= document["bound"]["value"] * (1 - 1e-9)
    assert run("check", tmp_path / "case.json", tmp_path / "out" / "solution.json").code == 0
    cluster = CASES[case]["cluster"]
    switches = SOLUTION_FILE.read(tmp_path / "out" / "solution.json").plan.topology.switches
    assert switches.shape == (cluster["degree"], cluster["servers"])


def test_all_zero_takes_no_time(tmp_path: Path) -> None:
    """Nothing to compute or to send: 0 ms, proven optimal, no gap."""
    document = solve(tmp_path, CASES["all zero"]).json
    assert (document["iteration_time_ms"], document["gap"], document["status"]) == (0.0, 0.0, "optimal")


def test_pinned_operators_stay(tmp_path: Path) -> None:
    """Pinned operators are where the file put them."""
    assert solve(tmp_path, CASES["pinned"]).code == 0
    operators = SOLUTION_FILE.read(tmp_path / "out" / "solution.json").figures.operators
    assert [each.servers for each in operators] == [(0,), (5,), (1, 4), (0, 1, 2, 3, 4, 5)]


def test_whole_chain_of_free_compute_is_bound_by_local_reductions(tmp_path: Path) -> None:
    """Compute free, weights not: everything on one server costs one AllReduce between its two GPUs.

    4 MB at 2400 Gbit/s (3 * 10^8 bytes/ms): 2 * (2 - 1) / 2 * 4e6 / 3e8 ms. No bound may say more.
    """
    document = solve(tmp_path, CASES["zero compute"]).json
    assert document["iteration_time_ms"] == pytest.approx(4e6 / 3e8)
    assert document["bound"]["value"] <= 4e6 / 3e8 * (1 + 1e-9)


def test_no_budget_stops_by_budget(tmp_path: Path) -> None:
    """Without a single proposal nothing has converged."""
    assert solve(tmp_path, CASES["no budget"]).json["stopped_by"] == "budget"


@pytest.mark.parametrize("servers", [3, 4, 7])
def test_degree_one_cannot_join_more_than_two(tmp_path: Path, servers: int) -> None:
    """One two-way interface a server: exit code 3 with the reason, from three servers on."""
    result = solve(tmp_path, job(servers, 1, chain(servers)))
    assert result.code == 3
    assert f"cannot connect {servers} servers" in result.json["error"]


def test_fabric_that_does_not_exist_has_no_time(tmp_path: Path) -> None:
    """No random graph of degree 1 joins five servers: its key stays, its value is null."""
    document = solve(tmp_path, CASES["one-way degree 1"]).json
    assert document["baselines_ms"]["random-regular"] is None
    assert document["baselines_ms"]["ideal-switch"] > 0


MEMORY = {
    "one operator too large": ([5.0], 2),
    "all together too large": ([2.0, 2.0, 2.0], 2),
    "does not pack": ([1.2, 1.2, 1.2], 3),
}


@pytest.mark.parametrize("case", MEMORY)
def test_memory_that_does_not_suffice(tmp_path: Path, case: str) -> None:
    """Two servers of 2 GiB: refused when no strategy can fit, exit code 3 when none was found."""
    sizes, code = MEMORY[case]
    operators = [operator(f"o{i}", 2, parts=[1], memory_bytes=int(size * GIB)) for i, size in enumerate(sizes)]
    result = solve(tmp_path, job(2, 2, operators, gpu_memory_gib=1.0))
    assert result.code == code
    assert "memory" in result.json["error"]
    assert not (tmp_path / "out").exists()


def test_data_parallelism_that_does_not_fit(tmp_path: Path) -> None:
    """Four layers of 1 GiB a replica on servers of 2 GiB: shown, never compared with; asked for it, exit code 3."""
    operators = chain(4)
    for each in operators:
        for split in each["splits"]:
            split["server_memory_bytes"] = GIB
    document = job(4, 2, operators, gpu_memory_gib=1.0)
    result = solve(tmp_path, document)
    assert result.code == 0
    assert result.json["initial_ms"] is None
    needed = result.json["gpu_memory_gib"]
    assert needed["limit"] == 1.0
    rows = topoopt.read_solution(tmp_path / "out/solution.json").figures.operators
    layers = [sum(server in row.servers for row in rows) for server in range(4)]
    assert needed["needed"] == max(layers) / 2 <= 1.0
    document["search"]["method"] = "data-parallel"
    for folder in ("again", "free"):
        (tmp_path / folder).mkdir()
    refused = solve(tmp_path / "again", document)
    assert (refused.code, refused.json["status"]) == (3, "infeasible")
    assert "memory" in refused.json["error"]
    assert not (tmp_path / "again/out").exists()
    unlimited = solve(tmp_path / "free", job(4, 2, operators, gpu_memory_gib=None))
    assert unlimited.json["gpu_memory_gib"]["limit"] is None
    assert unlimited.json["initial_ms"] > 0


def test_one_huge_flow(tmp_path: Path) -> None:
    """10^15 bytes between two pinned servers: at best all six ways out share them, and it ends."""
    operators = [
        operator("a", 6, outputs=HUGE, parts=[1], pinned_offset=0),
        operator("b", 6, ["a"], parts=[1], weights=0, pinned_offset=3),
    ]
    result = solve(tmp_path, job(6, 2, operators, search={"budget": 0}))
    assert result.code == 0
    sent = HUGE * 4 * 360
    # There and back, over two interfaces of 100 Gbit/s.
    assert result.json["iteration_time_ms"] >= 2 * sent / (2 * 12.5e6)
    assert result.json["check"]["ok"]


def test_settings_given_to_the_library_are_checked(tmp_path: Path) -> None:
    """What the command line cannot pass is refused by the library alike, all at once."""
    import topoopt
    from topoopt.core.errors import InputError

    instance = topoopt.read_instance(write(tmp_path, job(4, 2, chain(4))))
    with pytest.raises(InputError) as caught:
        topoopt.solve(instance, seed=-1, budget=-1, time_limit_s=float("nan"), method="luck")
    paths = [problem.path for problem in caught.value.problems]
    assert paths == ["search.method", "search.seed", "search.budget", "search.time_limit_s"]
    # An instance made by hand has no file to point at.
    by_hand = dataclasses.replace(instance, source="", search=dataclasses.replace(instance.search, method="luck"))
    with pytest.raises(InputError, match=r"^search\.method: unknown method"):
        topoopt.solve(by_hand)
