"""Jobs whose AllReduces run on schedules: from the instance file to the plan, its file, checks and exports."""

from __future__ import annotations

import json

import pytest

from solvers.collective.options import AllReduceOption, best_option, inner_network
from solvers.job.candidate_topologies import JobSchedules, allreduce_sizes, group_network
from solvers.stop import Stop
from tests.support.cli_cases import chain, job, run, write
from tests.support.schedule_cases import links_topology
from topoopt.core.collective import TimeLine
from topoopt.core.result import AllReduceChoice
from topoopt.kinds.files import read_instance, read_solution, write_solution
from topoopt.simulate.network import build_task_graph


def document(choice=None, servers=6, **search):
    """A chain of layers, data parallel or not, with gradients of 4 kB and of 40 MB."""
    operators = chain(servers, 3, weights=1000)
    operators[1]["weight_elements"] = [10_000_000, 300]
    asked = {} if choice is None else {"allreduce": choice}
    search = {"budget": 20, "method": "alternating", **asked, **search}
    return job(servers, 3, operators, search=search) | {"baselines": {"fabrics": []}}


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """(instance file, folder) by choice, solved at the command line."""
    folder = tmp_path_factory.mktemp("solved")
    found = {}
    for choice in AllReduceChoice:
        case, out = write(folder, document(choice.value), f"{choice.value}.json"), folder / choice.value
        result = run("solve", case, "--output", out, "--json")
        assert (result.code, result.json["check"]["ok"]) == (0, True), result.stdout
        found[choice] = case, out
    return found


def plan_of(solved, choice):
    """Plan, and the sizes of its AllReduces."""
    case, out = solved[choice]
    instance, solution = read_instance(case), read_solution(out / "solution.json")
    graph = build_task_graph(instance.cluster, instance.workload, solution.plan.strategy)
    return solution, allreduce_sizes(graph)


@pytest.mark.parametrize("choice", list(AllReduceChoice))
def test_allreduces_run_on_what_the_instance_asks_for(solved, choice):
    """Rings for all, trees for all, breadth-first broadcasts for all; every payload has one way."""
    solution, sizes = plan_of(solved, choice)
    plan = solution.plan
    assert sizes
    rings = {tuple(sorted(group.members)) for group in plan.rings}
    for members, own in sizes.items():
        for size in own:
            covering = [one for one in plan.schedules if one.members == members and one.covers(size)]
            assert len(covering) <= 1
            assert covering or members in rings
    methods = {one.method for one in plan.schedules}
    if choice is AllReduceChoice.RINGS:
        assert methods == set()
    elif choice is AllReduceChoice.TREES:
        assert (methods, rings) == ({"trees"}, set())
    elif choice is AllReduceChoice.BFB:
        assert methods <= {"bfb", "fewest-steps"}
        assert rings == set()


def test_the_best_by_size_is_never_worse_than_rings(solved):
    """It begins with what the search on rings ends with."""
    times = {choice: plan_of(solved, choice)[0].objective.value for choice in (AllReduceChoice.RINGS, "best")}
    assert times["best"] <= times["rings"]


@pytest.mark.parametrize("choice", ["bfb", "best"])
def test_same_seed_same_bytes(solved, choice, tmp_path):
    """Solved again, and written again from what was read."""
    case, out = solved[AllReduceChoice(choice)]
    assert run("solve", case, "--output", tmp_path / "again").code == 0
    text = (out / "solution.json").read_bytes()
    assert (tmp_path / "again" / "solution.json").read_bytes() == text
    write_solution(read_solution(out / "solution.json"), tmp_path / "written.json")
    assert (tmp_path / "written.json").read_bytes() == text


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda one: one["sends"].pop(), "schedule-result"),
        (lambda one: one["sends"].pop(0), "schedule-sum"),
        (lambda one: one.update(pieces=one["pieces"] + 1), "iteration-time"),
        (lambda one: one.update(from_bytes=1 << 40), "ring-missing"),
        (lambda one: one.update(method="trees"), "allreduce"),
        (lambda one: one["blocks"][0].__setitem__(0, 7), "iteration-time"),
    ],
    ids=["copy lost", "sum lost", "other pieces", "sizes", "method", "block grown"],
)
def test_a_corrupt_schedule_in_the_solution_is_refused(solved, spoil, code, tmp_path):
    """The checker executes it and computes the time again: exit code 6."""
    case, out = solved[AllReduceChoice.BFB]
    document = json.loads((out / "solution.json").read_text())
    spoil(document["plan"]["schedules"][0])
    corrupt = write(tmp_path, document, "corrupt.json")
    found = run("check", case, corrupt, "--json")
    assert found.code == 6
    assert code in {violation["code"] for violation in found.json["violations"]}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda one: one["sends"][-1].__setitem__(1, len(one["blocks"])),
        lambda one: one["routes"].__setitem__(0, [0, 900]),
        lambda one: one["sends"][-1].__setitem__(0, 70_000),
        lambda one: one["sends"][-1].__setitem__(2, len(one["routes"])),
    ],
    ids=["block", "server", "step", "route"],
)
def test_rows_that_do_not_fit_are_refused(solved, spoil, tmp_path):
    """Servers, blocks, routes and steps beyond their range: by the reader or the checker, never a traceback."""
    case, out = solved[AllReduceChoice.BFB]
    document = json.loads((out / "solution.json").read_text())
    spoil(document["plan"]["schedules"][0])
    refused = run("check", case, write(tmp_path, document, "rows.json"))
    assert refused.code in (2, 6)
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ({"allreduce": "magic"}, "rings"),
        ({"allreduce": "best", "method": "auto", "robust": {}}, "method robust knows AllReduces on rings only"),
        ({"allreduce": "trees", "method": "joint"}, "method joint knows AllReduces on rings only"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(search, said, tmp_path):
    """With the place and what is allowed."""
    found = run("validate", write(tmp_path, document(**search)))
    assert found.code == 2
    assert "search.allreduce" in found.stdout + found.stderr
    assert said in found.stdout + found.stderr


def test_too_many_servers_for_trees_are_refused(tmp_path):
    """Up to 64: packing takes long beyond."""
    found = run("validate", write(tmp_path, document("trees", servers=65)))
    assert found.code == 2
    assert "at most 64" in found.stdout + found.stderr


def test_rings_leave_the_hash_of_an_instance_as_it_was(tmp_path):
    """An instance that says rings is the one that says nothing; any other choice is another instance."""
    plain, rings, best = (
        read_instance(write(tmp_path, document(choice), f"{choice}.json")).sha256 for choice in (None, "rings", "best")
    )
    assert plain == rings != best


def test_exports_follow_schedules_or_refuse_them(solved, tmp_path):
    """MSCCL algorithms are executed when they are read back; NCCL graphs and FlexNet know rings only."""
    _, out = solved[AllReduceChoice.BFB]
    solution = out / "solution.json"
    found = run("export", solution, "--to", "msccl", "--output", tmp_path / "msccl")
    assert found.code == 0, found.stderr
    files = sorted(file.name for file in (tmp_path / "msccl").glob("*.xml"))
    count = len(read_solution(solution).plan.schedules)
    assert files == [f"case.schedule{number}.xml" for number in range(count)]
    for words in (("--to", "nccl-topology"), ("--to", "flexnet-taskgraph")):
        refused = run("export", solution, *words, "--output", tmp_path / "refused")
        assert refused.code == 2
        assert "AllReduces on rings only" in refused.stderr


def test_analyses_of_rings_refuse_schedules(solved):
    """Nothing is said of rings that the plan does not have."""
    _, out = solved[AllReduceChoice.BFB]
    found = run("resilience", out / "solution.json")
    assert found.code == 2
    assert "AllReduces on rings only" in found.stderr


def test_small_gradients_take_few_steps_and_large_ones_what_is_fast():
    """Lines 10 us + 3 us/MB and 100 us + 1 us/MB cross at 45 MB."""
    lines = (TimeLine("bfb", 1, 4, 10.0, 3.0), TimeLine("trees", 1, 40, 100.0, 1.0))
    quick, fast = options = tuple(AllReduceOption(line.method, None, (line,)) for line in lines)
    assert [best_option(options, size)[0] for size in (44_000_000, 46_000_000)] == [quick, fast]


def test_a_group_uses_the_links_between_its_members_where_they_suffice():
    """Of a ring of 4 with one diagonal the even servers use that; the odd ones have none and are helped."""
    cluster, topology = links_topology(4, [(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)], 3)
    inner = inner_network(group_network(cluster, topology, (0, 2)))
    assert inner.arcs.tolist() == [[0, 1], [1, 0]]
    made = JobSchedules(cluster, AllReduceChoice.BFB, Stop())
    (even,) = made.options(topology, (0, 2))
    (odd,) = made.options(topology, (1, 3))
    assert (even.family, set(even.schedule.routes)) == (("bfb", False), {(0, 2), (2, 0)})
    assert odd.family == ("fewest-steps", True)
    assert {len(route) for route in odd.schedule.routes} == {3}
    # Halves of S cross and come back: 2 (S/2 on a link and a round), the odd ones a hop latency more each.
    for option, latency in ((even, 1000.0), (odd, 1200.0)):
        assert option.best(1).latency_us == pytest.approx(latency)
        assert option.best(1).us_per_mbyte == pytest.approx(1000.0)
