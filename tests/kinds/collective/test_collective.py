"""Kind collective: schedules of every family are executed, bounded and corrupted."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from solvers.backends import SolverLimits
from solvers.collective import limits as all_to_all
from tests.support import collective_networks as nets
from tests.support.cli_cases import run
from tests.support.corruption import PROVENANCE, Harmless, accepted, accepted_together, case_of
from tests.support.mutations import scaled
from tests.support.paths import INSTANCES
from topoopt.core.collective import (
    CollectiveObjective,
    CollectiveOp,
    CollectiveProblem,
    CollectiveSchedule,
    bytes_per_unit,
)
from topoopt.core.errors import InfeasibleError, InputError, LimitError
from topoopt.core.proofs import StopReason
from topoopt.kinds.collective.methods import from_format_2
from topoopt.kinds.files import read_instance, read_solution, write_solution
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.checker import FULL
from topoopt.verify.collective import CHECKER

HARMLESS = (
    *PROVENANCE,
    Harmless("certificates.*.arrays.nodes*", "any other set with the same ratio proves as much"),
)


def instance(folder: Path, **changes: Any) -> Path:
    """A small instance in a file."""
    document = {
        "schema_version": 1, "kind": "collective", "name": "x", "collective": "allgather", "bytes": 1_000_000,
        "topology": {"family": "ring", "servers": 5, "link_gbytes_per_s": 12.5},
        "latency_us": {"link": 1, "message": 1},
    }  # fmt: skip
    path = folder / "x.json"
    path.write_text(json.dumps({**document, **changes}))
    return path


# Ring of five, 12.5 GB/s both ways, 1 MB, 2 us a message. By hand: a rank must receive 4 parts of 200 kB over two
# links, so 32 us; two steps of one part over each link take 16 us and 2 us each, so breadth-first ones reach 36 us.
def test_a_ring_by_hand(tmp_path: Path) -> None:
    solution = solve(read_instance(instance(tmp_path)))
    assert solution.figures.time_us == pytest.approx(36.0)
    assert solution.figures.steps == 2
    assert solution.bound.value == pytest.approx(34.0)
    assert solution.figures.algbw_gbytes_per_s == pytest.approx(1e6 / 36.0 / 1e3)
    assert solution.figures.busbw_gbytes_per_s == pytest.approx(0.8 * 1e6 / 36.0 / 1e3)
    assert solution.check.ok


@pytest.mark.parametrize("method", ["bfb", "forest", "rings", "time-expanded"])
@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
def test_families_on_a_ring(method: str, collective: str, tmp_path: Path) -> None:
    """Without latencies each moves at least what the cut asks for, and the balanced ones no more."""
    file = instance(tmp_path, collective=collective, objective="throughput", latency_us={})
    solution = solve(read_instance(file), SolveOptions(method=method))
    assert solution.check.ok, solution.check.violations
    best = 1e6 / 32.0 / 1e3 / (2 if collective == "allreduce" else 1)
    assert solution.bound.value == pytest.approx(best)
    if method != "time-expanded":  # whole chunks: three over one of two links
        assert solution.objective.value == pytest.approx(best)
        assert solution.status == "optimal"


@pytest.mark.parametrize("collective", ["broadcast", "reduce", "all-to-all"])
def test_other_collectives(collective: str, tmp_path: Path) -> None:
    """Broadcast from one rank over both its links: 40 us; an All-to-All by distances 1, 1, 2, 2 of 200 kB: 48 us."""
    file = instance(tmp_path, collective=collective, objective="throughput", latency_us={})
    solution = solve(read_instance(file))
    assert solution.check.ok, solution.check.violations
    assert solution.figures.busy_us == pytest.approx(48.0 if collective == "all-to-all" else 40.0, rel=1e-6)
    assert solution.status == "optimal"


def test_without_relays(tmp_path: Path) -> None:
    """Ranks that do not relay reach each other through a switch: lambda is that of the ports."""
    links = [[k, 4, 10.0] for k in range(4)]
    network = {"links": links, "directed": False, "switches": [4]}
    file = instance(tmp_path, collective="all-to-all", topology=network, relaying=False, objective="throughput")
    solution = solve(read_instance(file))
    assert solution.check.ok
    assert solution.figures.busy_us == pytest.approx(3 * 250_000 / 10e3)  # three parts of a quarter through a port
    ring = instance(tmp_path, collective="all-to-all", relaying=False)
    with pytest.raises(InfeasibleError, match="do not relay"):
        solve(read_instance(ring))


def test_a_limit_is_not_taken_for_ranks_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that had no time stands at a rate of 0, which says nothing: it is the limit that ends the run."""
    problem = replace(read_instance(INSTANCES / "collectives/dgx2-2-all-to-all.yaml"), relaying=False)
    highs = all_to_all.SOLVERS["highs"]

    def hurried(program: Any, limits: SolverLimits) -> Any:
        result = highs(program, limits)
        return replace(result, raw_x=0.0 * result.raw_x, stopped_by=StopReason.TIME)

    monkeypatch.setattr(all_to_all, "SOLVERS", {"highs": hurried})
    with pytest.raises(LimitError, match="in time"):
        solve(problem)


def test_any_place_of_a_solution_is_corrupted(tmp_path: Path) -> None:
    """Alone, or value and bound together."""
    problem = read_instance(INSTANCES / "collectives/ring-5.yaml")
    case = case_of(problem, solve(problem), tmp_path)
    assert accepted(case, HARMLESS) == []
    together = {
        "faster": lambda document: scaled(document, 0.9, "objective.value"),
        "faster, bound too": lambda document: scaled(document, 0.9, "objective.value", "bound.value"),
    }
    assert accepted_together(case, together) == []


@pytest.mark.parametrize("objective", ["time", "throughput", "latency"])
def test_a_file_holds_decisions_and_proofs_alone(objective: str, tmp_path: Path) -> None:
    """No time stands in it but the objective; all of them come back from the schedule."""
    solution = solve(read_instance(instance(tmp_path, objective=objective)))
    file = tmp_path / "solution.json"
    write_solution(solution, file)
    document = json.loads(file.read_text())
    columns = ("block_units", "block_owner", "block_target", "send_step", "send_block", "send_route", "send_reduce")
    assert set(document["plan"]) == {*columns, "routes", "front", "switch_groups"}
    assert [row["argument"] for row in document["certificates"]] == ["network-cut"]
    again = read_solution(file)
    assert (again.figures.time_us, again.figures.busy_us) == (pytest.approx(36.0), pytest.approx(32.0))
    assert again.figures.makespan_us == solution.figures.makespan_us


def makespan_by_hand(problem: CollectiveProblem, schedule: CollectiveSchedule) -> float:
    """When the last message arrives without barriers, message by message; no switch copies.

    One leaves when its block is there: what an owner sends, and what is summed, when all has come that is added there;
    any other copy when the first copy has come. Links are taken in the order of the schedule.
    """
    network, sends = problem.network, schedule.sends
    unit = bytes_per_unit(problem, schedule.blocks.total)
    arcs = {(tail, head): arc for arc, (tail, head) in enumerate(network.arcs.tolist())}
    free = dict.fromkeys(arcs, 0.0)
    summed: dict[tuple[int, int], float] = {}
    copied: dict[tuple[int, int], float] = {}
    end = 0.0
    rows = (sends.block, sends.tail, sends.head, sends.reduce, sends.route)
    for block, tail, head, adds, route in zip(*(row.tolist() for row in rows), strict=True):
        held = summed if adds or tail == schedule.blocks.owner[block] else copied
        leaves = sent = held.get((block, tail), 0.0)
        slow = problem.message_us
        for hop in itertools.pairwise(schedule.routes[route]):
            leaves = max(leaves, free[hop])
            lasts = schedule.blocks.units[block] * unit / (network.gbytes_per_s[arcs[hop]] * 1e3)
            free[hop] = leaves + lasts
            sent = max(sent, free[hop])
            slow += network.latency_us[arcs[hop]]
        arrival = sent + slow
        end = max(end, arrival)
        if adds:
            summed[block, head] = max(summed.get((block, head), 0.0), arrival)
        else:
            copied[block, head] = min(copied.get((block, head), arrival), arrival)
    return end


@pytest.mark.parametrize("name", ["ring-5", "a100-2", "torus-3x3x3"])
def test_times_without_barriers(name: str) -> None:
    """The compiled simulation against one in plain Python."""
    problem = read_instance(INSTANCES / f"collectives/{name}.yaml")
    solution = solve(problem)
    assert solution.figures.makespan_us == pytest.approx(makespan_by_hand(problem, solution.plan.schedule), rel=1e-9)


def test_schedules_that_do_not_work() -> None:
    """A copy before its receive, a lost block, a contribution twice, a step too late: each is named."""
    problem = read_instance(INSTANCES / "collectives/a100-2.yaml")
    solution = solve(replace(problem, vector_bytes=1 << 20))
    problem = replace(problem, vector_bytes=1 << 20)
    assert CHECKER(problem, solution, FULL).ok
    schedule = solution.plan.schedule
    sends = schedule.sends
    copies = np.flatnonzero(~sends.reduce)

    def codes(**changed: Any) -> set[str]:
        plan = replace(solution.plan, **changed)
        return {one.code for one in CHECKER(problem, replace(solution, plan=plan), FULL).violations}

    early = sends.step.copy()
    early[copies[-1]] = 0
    assert codes(send_step=early) == {"columns"}
    order = np.argsort(early, kind="stable")
    columns = {"send_step": early, "send_block": sends.block, "send_route": sends.route}
    reordered = {name: column[order] for name, column in columns.items()}
    assert codes(**reordered, send_reduce=solution.plan.send_reduce[order]) & {"causality", "sum"}
    lost = sends.block.copy()
    lost[copies[-1]] = lost[copies[0]]
    assert "result" in codes(send_block=lost)
    twice = sends.reduce.astype(np.int32)
    twice[copies[-1]] = 1
    assert "sum" in codes(send_reduce=twice)


def test_refusals(tmp_path: Path) -> None:
    """All that is wrong is told at once, with its path."""
    wrong = instance(tmp_path, bytes="1 parsec", root=3, relaying=False)
    with pytest.raises(InputError) as caught:
        read_instance(wrong)
    assert "bytes" in str(caught.value)
    wrong = instance(tmp_path, bytes="0.3B", root=3, relaying=False)
    with pytest.raises(InputError) as caught:
        read_instance(wrong)
    assert {problem.path for problem in caught.value.problems} == {"bytes", "root"}
    apart = instance(tmp_path, topology={"links": [[0, 1, 1.0]], "nodes": 2})
    with pytest.raises(InputError, match="no way from 1 to 0"):
        read_instance(apart)


@pytest.mark.parametrize(("text", "size"), [("1GiB", 1 << 30), ("16 MB", 16_000_000), ("1.5KiB", 1536), (4096, 4096)])
def test_sizes(text: str | int, size: int, tmp_path: Path) -> None:
    """Decimal and binary units."""
    assert read_instance(instance(tmp_path, bytes=text)).vector_bytes == size


def test_bound_of_a_network(tmp_path: Path) -> None:
    """Files and sections; the values of an A100 pair (ForestColl) and of a mesh by its corner."""
    two = run("collective", "bound", "preset: dgx-a100, boxes: 2", "--json").json
    assert (two["ratio"], two["allgather_rate"]) == ("3/65", pytest.approx(346.6667, rel=1e-6))
    table = tmp_path / "n.csv"
    rows = [(k, (k + 1) % 4) for k in range(4)]
    table.write_text("tail,head,rate\n" + "".join(f"{a},{b},25\n{b},{a},25\n" for a, b in rows))
    ring = run("collective", "bound", table, "--set", "breadth_first=true", "--json").json
    assert (ring["ratio"], ring["steps"], ring["bandwidth_factor"]) == ("3/50", 2, "3/4")
    table.write_text("0,1,fast\n")
    assert run("collective", "bound", table).code == 2
    alone = run("collective", "bound", "preset: dgx-a100, boxes: 2", "--collective", "allgather", "--json").json
    assert (alone["ratio"], alone["allreduce_rate"], alone["all_to_all_lambda"]) == ("3/65", None, None)
    assert run("collective", "bound", "preset: dgx-a100", "--collective", "scan").code == 2
    assert run("collective", "bound", "preset: dgx-a101").code == 2


@pytest.mark.parametrize("collective", ["allgather", "allreduce", "broadcast", "reduce"])
@pytest.mark.parametrize("topology", [{"preset": "dgx2", "boxes": 2}, {"family": "ring", "servers": 7}])
def test_fewest_steps_through_switches(collective: str, topology: dict[str, Any], tmp_path: Path) -> None:
    """Two DGX-2 need three messages: to an odd GPU of the box, over, on in the other box; a ring of 7 as many.

    What is summed at GPU 0 of a DGX-2 comes over straight to it: two.
    """
    file = instance(tmp_path, collective=collective, topology=topology, objective="latency")
    solution = solve(read_instance(file))
    assert solution.check.ok, solution.check.violations
    straight = collective == "reduce" and "preset" in topology
    assert solution.figures.steps == (2 if straight else 3) * (2 if collective == "allreduce" else 1)


# AllReduce over 8 ranks of 100 GB/s at one switch, by hand: straight, each link carries 7 shards out and 7 in, so
# 2 (2 us + 7/8 M / 100 GB/s); a ring takes 14 steps of M/8 over each link: the same bytes, 28 us.
def test_best_schedules_by_size(tmp_path: Path) -> None:
    """The least time of every size, in rising order; the checker holds each point against the bounds."""
    box = {"links": [[k, 8, 100.0] for k in range(8)], "directed": False, "switches": [8]}
    problem = read_instance(
        instance(tmp_path, collective="allreduce", topology=box, objective="pareto", latency_us={"message": 2})
    )
    solution = solve(problem)
    assert solution.check.ok, solution.check.violations
    first = solution.figures.front[0]
    assert (first.from_bytes, first.steps) == (1, 2)
    assert first.latency_us == pytest.approx(4.0)
    assert first.us_per_mbyte == pytest.approx(2 * 7 / 8 * 10)
    assert len(solution.figures.front) == 1  # nothing moves fewer bytes
    (line,) = solution.plan.front
    wrong = replace(solution, plan=replace(solution.plan, front=(replace(line, us_per_mbyte=17.0),)))
    assert "front" in {one.code for one in CHECKER(problem, wrong, FULL).violations}


def test_best_schedules_by_size_differ(tmp_path: Path) -> None:
    """On two A100 boxes whole shards are best for small vectors and trees in pieces for large ones."""
    machine = {"preset": "dgx-a100", "boxes": 2}
    wide = instance(tmp_path, topology=machine, objective="pareto", latency_us={"link": 0.7, "message": 2})
    problem = read_instance(wide)
    solution = solve(problem)
    assert solution.check.ok, solution.check.violations
    sizes = [point.from_bytes for point in solution.figures.front]
    assert len(sizes) > 2
    assert sizes == sorted(set(sizes))
    assert solution.figures.front[0].steps == 1
    assert solution.figures.front[-1].us_per_mbyte >= 3 / 65 / 16 * 1e3 * (1 - 1e-9)  # the ratio of ForestColl
    for size in (10**3, 10**6, 10**9):
        alone = solve(replace(problem, vector_bytes=size, objective="time"))
        best = min(point.time_us(size) for point in solution.figures.front)
        assert best == pytest.approx(alone.figures.time_us, rel=0.1)
    first, second, *others = solution.plan.front
    worse = replace(second, us_per_mbyte=first.us_per_mbyte)
    for front in ((second, first, *others), (first, worse, *others), ()):
        wrong = replace(solution, plan=replace(solution.plan, front=front))
        assert "front" in {one.code for one in CHECKER(problem, wrong, FULL).violations}


@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce", "broadcast", "reduce"])
def test_collectives_without_relays(collective: str, tmp_path: Path) -> None:
    """At a switch every rank gets 3 shards straight, or the root sends 3 vectors: times by hand, and proven."""
    box = {"links": [[k, 4, 10.0] for k in range(4)], "directed": False, "switches": [4]}
    problem = read_instance(
        instance(tmp_path, collective=collective, topology=box, relaying=False, objective="throughput", latency_us={})
    )
    solution = solve(problem)
    assert solution.check.ok, solution.check.violations
    due = {"broadcast": 300.0, "reduce": 300.0, "allreduce": 150.0}.get(collective, 75.0)
    assert solution.figures.busy_us == pytest.approx(due)
    assert solution.status == "optimal"
    single = collective in ("allgather", "reduce-scatter", "allreduce")
    relayed = solve(replace(problem, relaying=True), SolveOptions(method="rings" if single else "forest"))
    passed = replace(relayed, certificates=solution.certificates)
    assert "relaying" in {one.code for one in CHECKER(problem, passed, FULL).violations}


def test_random_networks() -> None:
    """Schedules of every collective on random networks, one-way links and switches among them, pass the checker.

    Rates rounded down to a given number of trees can leave switches out of balance; then other families serve.
    """
    rng = np.random.default_rng(77)
    for number in range(24):
        network = nets.random_network(rng, switches=number % 2 == 0)
        problem = CollectiveProblem(
            "x",
            network,
            tuple(CollectiveOp)[number % 6],
            int(rng.integers(1, 10**9)),
            root=int(rng.integers(len(network.ranks))),
            message_us=float(rng.integers(0, 4)),
            objective=get_args(CollectiveObjective)[int(rng.integers(4))],
            trees_per_root=int(rng.integers(1, 4)) if number % 3 == 0 else None,
            sha256="0" * 64,
        )
        solution = solve(problem)
        assert solution.check.ok, (number, solution.check.violations)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_only_the_root_need_reach_all(collective: str, tmp_path: Path) -> None:
    """A path 1 - 0 - 2 whose ends do not reach each other without a relay: the root between does, by a link each."""
    path = {"links": [[0, 1, 10.0], [0, 2, 10.0]], "directed": False}
    problem = read_instance(
        instance(tmp_path, collective=collective, topology=path, relaying=False, latency_us={"message": 1})
    )
    solution = solve(problem)
    assert solution.check.ok, solution.check.violations
    assert solution.figures.time_us == pytest.approx(100.0 + 1.0)
    assert solution.status == "optimal"


def test_plans_of_format_2_have_their_columns_again() -> None:
    """Rows of blocks (units, owner, target) and of sends (step, block, route, reduce), written by hand."""
    rows = {"blocks": [[3, 0, -1], [5, 1, -1]], "sends": [[0, 0, 0, 0], [1, 1, 1, 1]], "routes": [[0, 1], [1, 0]]}
    document = {"schedule": rows, "proof": {"cut": [0, 1]}}
    plan, certificates = from_format_2(read_instance(INSTANCES / "collectives/ring-5.yaml"), document)
    assert (plan.block_units.tolist(), plan.block_owner.tolist()) == ([3, 5], [0, 1])
    assert plan.block_target.tolist() == [-1, -1]
    assert plan.routes == ((0, 1), (1, 0))
    columns = plan.send_step, plan.send_block, plan.send_route, plan.send_reduce
    assert [column.tolist() for column in columns] == [[0, 1], [0, 1], [0, 1], [0, 1]]
    assert len(certificates) == 1
