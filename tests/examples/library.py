"""topoopt as a library: solve an instance, look at the plan, move it to another fabric, write it down.

Run from the project's root: ``.venv/bin/python tests/examples/library.py instances/tiny-6.yaml out/example``
"""

from __future__ import annotations

import sys
from pathlib import Path

import topoopt


def main(instance_path: str, out: str) -> float:
    """Solve, check and report; returns the iteration time in ms."""
    instance = topoopt.read_instance(instance_path)
    solution = topoopt.solve(instance, budget=500, seed=1)
    print(f"{solution.name}: {solution.objective.value:.3f} ms, at least {solution.bound.value:.3f} ms is needed")
    print(f"topology {solution.plan.topology.origin}, diameter {solution.diameter} hops")
    for choice in solution.operators:
        print(f"  {choice.name:<12} {choice.split:<8} on servers {choice.servers}")

    violations = topoopt.check(instance, solution)  # shares no code with the solver
    assert not violations, violations

    faster = topoopt.evaluate_plan(instance, solution.plan, "hop")  # another time model
    print(f"the fast model says {faster.iteration_time_ms:.3f} ms")

    rings = topoopt.topologies.totient(16, 4)  # TotientPerms on its own
    print(f"16 servers of degree 4: ring distances {rings.offsets}, diameter {rings.diameter}")

    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    topoopt.write_solution(solution, folder / "solution.json")
    (folder / "report.html").write_text(topoopt.render_report(topoopt.read_solution(folder / "solution.json")))
    return solution.objective.value


if __name__ == "__main__":
    main(*sys.argv[1:3])
