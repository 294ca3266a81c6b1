"""Files of kind `shared-cluster`: what is read, and everything that is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import INSTANCES
from topoopt.core.errors import InputError
from topoopt.core.job import CoOptimisation
from topoopt.core.shared_cluster import FAT_TREE, IDEAL_SWITCH, PARTITIONED, DrawnJobs, SharedCluster
from topoopt.kinds.files import instance_text, read_instance
from topoopt.kinds.job import SOLUTION_FILE as JOB_SOLUTIONS
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve

SHIPPED = INSTANCES / "shared"


def document(**changes: Any) -> dict[str, Any]:
    """A small file, with sections replaced."""
    base: dict[str, Any] = {
        "schema_version": 1,
        "kind": "shared-cluster",
        "name": "case",
        "cluster": {"servers": 16, "degree": 4, "link_gbps": 100.0},
        "classes": [
            {"name": "a", "servers": 4, "iteration_ms": [10.0, 20.0], "allreduce_gbytes": 0.2, "iterations": 5},
            {"name": "b", "servers": 8, "iteration_ms": 30.0, "duration_s": 60.0},
        ],
        "jobs": {"count": 3, "load": 0.5},
    }
    return {**base, **changes}


def read(folder: Path, given: dict[str, Any], trace: str | None = None) -> SharedCluster:
    """Through a file, with a trace beside it."""
    file = folder / "case.yaml"
    file.write_text(instance_text(given, file))
    if trace is not None:
        (folder / "trace.csv").write_text(trace)
    problem = read_instance(file)
    assert isinstance(problem, SharedCluster)
    return problem


def test_defaults(tmp_path: Path) -> None:
    """One switch a plane, four fabrics, sending after compute, equal weights."""
    problem = read(tmp_path, document())
    assert [fabric.kind for fabric in problem.fabrics] == [
        PARTITIONED,
        FAT_TREE,
        FAT_TREE,
        IDEAL_SWITCH,
    ]
    assert [fabric.server_gbps for fabric in problem.fabrics] == [400.0, None, 400.0, 400.0]
    assert problem.layer.switch_ports == 16
    # 0.2 GB at 400 Gbit/s: 4 ms of the shortest time are not compute.
    assert problem.classes[0].compute_ms == pytest.approx(6.0)
    assert problem.classes[1].compute_ms == 30.0
    assert problem.jobs == DrawnJobs(3, ((0, 1.0), (1, 1.0)), None, 0.5, "fixed")


@pytest.mark.parametrize("name", ["published-mix-432", "arrivals-432", "arrivals-4096", "trace-16"])
def test_shipped_files_are_read(name: str) -> None:
    """All of them."""
    assert read_instance(SHIPPED / f"{name}.yaml").name == name


TRACE = {"jobs": {"trace": "trace.csv"}}


def test_a_trace_is_read(tmp_path: Path) -> None:
    """Columns in any order; servers and iterations may be left out or empty; equal content is the same instance."""
    problem = read(tmp_path, document(**TRACE), "class,job,arrival_s,iterations\nb,x,0,\na,y,1.5,7\n")
    assert not isinstance(problem.jobs, DrawnJobs)
    assert [(job.name, job.arrival_s, job.class_index, job.iterations) for job in problem.jobs] == [
        ("x", 0.0, 1, None),
        ("y", 1.5, 0, 7),
    ]
    again = read(tmp_path, document(**TRACE), "job,arrival_s,class,servers,iterations\nx,0,b,8,\ny,1.50,a,,7\n")
    assert again.sha256 == problem.sha256


def test_everything_wrong_with_a_trace_is_said(tmp_path: Path) -> None:
    """Each line with its number, its column and what is allowed."""
    lines = [
        "job,arrival_s,class,servers,iterations",
        "x,5,a,4,1",
        "y,4,a,4,1",
        "x,6,a,4,1",
        "z,-1,a,4,1",
        "u,7,c,4,1",
        "v,8,a,5,1",
        "w,9,a,4,0",
        "q,nan,a,4,1",
        "r,10,a,4",
        "s,1_0,a,4,1.5",
    ]
    with pytest.raises(InputError) as caught:
        read(tmp_path, document(**TRACE), "\n".join(lines) + "\n")
    found = {(problem.line, problem.path, problem.message) for problem in caught.value.problems}
    assert found == {
        (3, "arrival_s", "out of order"),
        (4, "job", "a job more than once"),
        (5, "arrival_s", "out of range"),
        (6, "class", "unknown class"),
        (7, "servers", "not the servers of the class"),
        (8, "iterations", "out of range"),
        (9, "arrival_s", "out of range"),
        (10, "line", "wrong number of cells"),
        (11, "arrival_s", "out of range"),
        (11, "iterations", "out of range"),
    }


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ("", "no such column"),
        ("job,arrival_s,class\n", "no jobs"),
        ("job,arrival_s,class,colour\nx,0,a,red\n", "unknown column"),
        ("job,arrival_s,class,job\nx,0,a,x\n", "a column more than once"),
        ('job,arrival_s,class\n"x,0,a\n', "no CSV"),
        ("job,arrival_s,class\n,0,a\n", "no name"),
    ],
)
def test_no_trace(tmp_path: Path, trace: str, message: str) -> None:
    """Files that are no traces at all."""
    with pytest.raises(InputError, match=message):
        read(tmp_path, document(**TRACE), trace)


def test_a_length_is_needed_somewhere(tmp_path: Path) -> None:
    """In the trace or in the class."""
    classes = [{"name": "a", "servers": 4, "iteration_ms": 10.0}]
    with pytest.raises(InputError, match="iterations: missing"):
        read(tmp_path, document(classes=classes, **TRACE), "job,arrival_s,class\nx,0,a\n")
    with pytest.raises(InputError, match="how long its jobs are is missing"):
        read(tmp_path, document(classes=classes))


A = {"name": "a", "servers": 4, "iteration_ms": 10.0, "iterations": 5}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": [{**A, "servers": 17}]}, "larger than the cluster"),
        ({"classes": [{**A, "servers": 8}], "optical": {"switch_ports": 4}}, "no shard this large can be cut"),
        ({"classes": [A, dict(A)]}, "a name more than once"),
        ({"classes": [{**A, "compute_ms": 11.0}]}, "more compute than the shortest iteration is long"),
        ({"classes": [{**A, "allreduce_gbytes": 0.6, "compute_ms": 1.0}]}, "shorter than sending the bytes"),
        ({"classes": [{**A, "allreduce_gbytes": 0.5, "fabric_ms": {"ideal-switch": 9.0}}]}, "shorter than sending"),
        ({"classes": [{**A, "servers": 1, "allreduce_gbytes": 1.0}]}, "one server sends nothing"),
        ({"classes": [{**A, "duration_s": 5.0}]}, "both iterations and duration_s"),
        ({"classes": [{**A, "plan": "plan.yaml"}]}, "one of iteration_ms and plan"),
        ({"classes": [{"name": "a", "iterations": 5, "plan": "none.yaml"}]}, "no such file"),
        ({"classes": [{**A, "fabric_ms": {"torus": 5.0}}]}, "no such fabric"),
        ({"classes": [{**A, "iteration_ms": 0.0}]}, "out of range"),
        ({"classes": []}, "wrong length"),
        ({"jobs": {"count": 0, "load": 0.5}}, "out of range"),
        ({"jobs": {"count": 5, "load": -0.5}}, "out of range"),
        ({"jobs": {"count": 5}}, "one of rate_per_s and load"),
        ({"jobs": {"count": 5, "load": 0.5, "rate_per_s": 1.0}}, "one of rate_per_s and load"),
        ({"jobs": {"count": 5, "load": 0.5, "arrival": "together"}}, "plays no part"),
        ({"jobs": {"count": 5, "load": 0.5, "mix": {"c": 1.0}}}, "unknown class"),
        ({"jobs": {"count": 5, "load": 0.5, "mix": {}}}, "no classes"),
        ({"jobs": {}}, "one of trace, count and at_once"),
        ({"jobs": {"trace": "none.csv"}}, "no such file"),
        ({"jobs": {"trace": "none.csv", "load": 0.5}}, "plays no part with a trace"),
        ({"cluster": {"servers": 4097, "degree": 4, "link_gbps": 100.0}}, "out of range"),
        ({"fabrics": [{"kind": "ideal-switch", "oversubscription": 2.0}]}, "plays no part for ideal-switch"),
        ({"fabrics": [{"kind": "partitioned", "server_gbps": 2.0}]}, "that of the interfaces"),
        ({"fabrics": [{"kind": "partitioned", "placement": "random"}]}, "no placement for partitioned"),
        ({"fabrics": [{"kind": "fat-tree"}, {"kind": "fat-tree"}]}, "a name more than once"),
        ({"classes": [{**A, "interfaces": 5}]}, "more than a server has"),
        (
            {"fabrics": [{"kind": "partitioned", "placement": "spread"}], "scheduling": {"defragment": True}},
            "not moved where the placement is spread",
        ),
        (
            {"fabrics": [{"kind": "partitioned", "placement": "exact"}], "scheduling": {"defragment": True}},
            "not moved where the placement is exact",
        ),
        (
            {
                "cluster": {"servers": 65, "degree": 4, "link_gbps": 100.0},
                "fabrics": [{"kind": "partitioned", "placement": "exact"}],
            },
            r"up to 64 servers, this one has 65.*allowed: spread",
        ),
        ({"fabrics": [{"kind": "fat-tree", "oversubscription": 0.5}]}, "out of range"),
    ],
)
def test_refusals(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """What no cluster can be, said in words."""
    with pytest.raises(InputError, match=message):
        read(tmp_path, document(**changes))


def test_what_fits_under_shifted_switches(tmp_path: Path) -> None:
    """16 servers, switches of 8, four planes shifted by 2: 2 servers share all switches, 6 those of two planes."""
    changes: dict[str, Any] = {
        "optical": {"switch_ports": 8, "wiring": "staggered"},
        "fabrics": [{"kind": "partitioned", "placement": "spread"}],
        "classes": [{**A, "servers": 6, "interfaces": 2}],
    }
    assert read(tmp_path, document(**changes)).classes[0].interfaces == 2
    with pytest.raises(InputError, match="allowed: 1 to 6, or more"):
        read(tmp_path, document(**{**changes, "classes": [{**A, "servers": 7, "interfaces": 2}]}))
    with pytest.raises(InputError, match="allowed: 1 to 2, or more"):
        read(tmp_path, document(**{**changes, "classes": [A]}))


def test_all_problems_at_once(tmp_path: Path) -> None:
    """One message tells them all, with their places."""
    changes = {
        "classes": [{**A, "servers": 99}, {**A, "name": "b", "compute_ms": 20.0}],
        "jobs": {"count": 1, "load": 0.5, "mix": {"c": 1.0}},
    }
    with pytest.raises(InputError) as caught:
        read(tmp_path, document(**changes))
    assert {problem.path for problem in caught.value.problems} == {
        "classes[0].servers",
        "classes[1].compute_ms",
        "jobs.mix.c",
    }


def test_a_class_from_a_plan(tmp_path: Path) -> None:
    """An instance is kept to be solved, with the interfaces of this cluster."""
    plan = INSTANCES / "tiny-4.yaml"
    (tmp_path / "plan.yaml").write_text(plan.read_text())
    tiny = read_instance(plan)
    cluster = tiny.cluster  # type: ignore[union-attr]
    entry = {"name": "a", "plan": "plan.yaml", "iterations": 5}
    section = {"servers": 16, "degree": cluster.degree, "link_gbps": cluster.link_gbps}
    problem = read(tmp_path, document(classes=[entry], cluster=section))
    assert problem.classes[0].servers == cluster.servers
    assert problem.classes[0].plan is not None
    assert problem.classes[0].plan.sha256 == tiny.sha256
    more = read(tmp_path, document(classes=[entry], cluster={**section, "degree": cluster.degree + 1}))
    assert more.classes[0].plan is not None
    assert more.classes[0].plan.cluster.degree == cluster.degree + 1


def test_a_class_from_a_solution(tmp_path: Path) -> None:
    """Its times and bytes are those of the plan; one for servers with other interfaces is refused."""
    tiny = read_instance(INSTANCES / "tiny-4.yaml")
    assert isinstance(tiny, CoOptimisation)
    solution = solve(tiny, SolveOptions(budget=5, objective_only=True))
    JOB_SOLUTIONS.write(solution, tmp_path / "plan.json")
    entry = {"name": "a", "plan": "plan.json", "iterations": 5}
    section = {"servers": 16, "degree": tiny.cluster.degree, "link_gbps": tiny.cluster.link_gbps}
    problem = read(tmp_path, document(classes=[entry], cluster=section))
    assert problem.classes[0].iteration_ms == (solution.objective.value,)
    assert problem.classes[0].plan is None
    with pytest.raises(InputError, match="other interfaces"):
        read(tmp_path, document(classes=[entry], cluster={**section, "degree": tiny.cluster.degree + 1}))
