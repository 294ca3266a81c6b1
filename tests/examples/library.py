"""topoopt as a library, cell by cell as in a notebook: a training job, a topology by hand, rates on it.

Run from the project's root: ``.venv/bin/python tests/examples/library.py out/example``
"""

from __future__ import annotations

import sys
from pathlib import Path

import networkx as nx
import numpy as np

import topoopt


def main(out: str) -> dict[str, float]:
    """All cells; returns the figures they find."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, float] = {}

    # %% A training job (or `topoopt.read_instance(file)`): strategy, topology and routes of least iteration time
    cluster = {"servers": 8, "gpus_per_server": 4, "degree": 3, "link_gbps": 25}
    job = topoopt.job_problem(cluster=cluster, workload="dlrm", name="dlrm-8")
    solution = topoopt.solve(job, method="alternating", budget=200, seed=1, objective_only=True)
    print(solution)
    print(topoopt.explain(solution, job))
    print(solution.tables()["links"].to_pandas().head())
    assert topoopt.check(job, solution).ok  # shares no code with the solver
    found |= {"job, ms": solution.objective.value, "job, bound, ms": solution.bound.value}

    # %% The same strategy on a topology changed by hand: routes and rings are made anew
    wagner = topoopt.Topology.from_edges([(i, (i + 1) % 8) for i in range(8)] + [(i, i + 4) for i in range(4)])
    changed = topoopt.evaluate(job, solution, topology=wagner)
    print(f"{changed.objective.value:.3f} ms instead of {solution.objective.value:.3f} ms: {changed.plan.topology}")
    found["by hand, ms"] = changed.objective.value

    # %% A demand matrix: which links serve it best, and how much worse is a graph of networkx?
    demand = np.random.default_rng(0).lognormal(size=(8, 8))
    np.fill_diagonal(demand, 0.0)
    problem = topoopt.topology_problem(servers=8, degree=3, demand=demand, name="skewed-8")
    rows = topoopt.compare(problem, methods=["totient", "matching", "random"], seeds=2, time_limit_s=60)
    print(rows.to_pandas()[["method", "seed", "value", "gap_to_bound"]])
    cube = topoopt.Topology.from_networkx(nx.hypercube_graph(3))
    by_hand = topoopt.evaluate(problem, topology=cube)
    print(by_hand, by_hand.topology.adjacency(), sep="\n")
    found["cube, theta"] = by_hand.objective.value
    found["best of methods, theta"] = min(row["value"] for row in rows.records())

    # %% Fair rates of transfers over the links of the cube
    transfers = [{"source": 0, "destination": 7}, {"source": 1, "destination": 7, "min_gbps": 40}]
    rates = topoopt.solve(
        topoopt.allocation_problem(topology=cube, link_gbps=100, transfers=transfers, objective="min-guarantee")
    )
    print(rates.tables()["transfers"].to_pandas()[["name", "rate_gbps"]])
    found["least above the guarantee, Gbit/s"] = rates.objective.value

    # %% Files, and a page to look at
    topoopt.write_solution(solution, folder / "solution.json")
    (folder / "report.html").write_text(topoopt.report(topoopt.read_solution(folder / "solution.json")))
    (folder / "notebook.html").write_text("".join(shown._repr_html_() for shown in (job, solution, rows, by_hand)))
    return found


if __name__ == "__main__":
    print(main(sys.argv[1]))
