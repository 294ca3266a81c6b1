"""Every method on every instance, side by side."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from topoopt.core.errors import InfeasibleError, InputError, LimitError
from topoopt.networks.outcome import NetworkProblem
from topoopt.networks.solve import methods_of, solve_network


@dataclass(frozen=True)
class Run:
    """One method on one instance with one seed.

    Attributes:
        instance, kind, method, seed: what was run.
        outcome: status of the solution; or `not applicable`, `infeasible`, `limit` where there is none.
        theta, bound: of the solution, None without one.
        proved_by: the argument behind the bound, or why there is no solution.
        checked: whether the checker accepts the solution.
        wall_s: seconds.
    """

    instance: str
    kind: str
    method: str
    seed: int
    outcome: str
    theta: float | None
    bound: float | None
    proved_by: str
    checked: bool
    wall_s: float


@dataclass(frozen=True)
class Comparison:
    """A run beside the others on the same instance.

    Attributes:
        run: the run.
        gap_to_best: theta / best theta - 1.
        gap_to_bound: (theta - best bound) / theta, where the best bound is the highest any method proved.
        proven: whether the best theta equals the best bound, so that both gaps are to the optimum.
    """

    run: Run
    gap_to_best: float | None
    gap_to_bound: float | None
    proven: bool


PROVEN_RELATIVE = 1e-6


def runs_of(
    problem: NetworkProblem, methods: Sequence[str] | None, seeds: Iterable[int], time_limit_s: float | None
) -> Iterator[Run]:
    """Run methods (None: all of the table) with seeds; what a method cannot do is a row, not an error.

    Raises:
        InputError: a method that is not in the table.
    """
    names = methods_of(problem)[1:] if methods is None else methods
    for name in names:
        if name not in methods_of(problem):
            allowed = ", ".join(methods_of(problem))
            raise InputError(f"--methods: no method {name!r} for kind {problem.kind}; allowed: {allowed}")
    for name in names:
        for seed in seeds:
            yield _run(problem, name, seed, time_limit_s)


def _run(problem: NetworkProblem, method: str, seed: int, time_limit_s: float | None) -> Run:
    began = time.monotonic()

    def row(outcome: str, theta: float | None, bound: float | None, why: str, checked: bool) -> Run:
        wall_s = time.monotonic() - began
        return Run(problem.name, problem.kind, method, seed, outcome, theta, bound, why, checked, wall_s)

    failures: tuple[tuple[type[Exception], str], ...] = (
        (InputError, "not applicable"),
        (InfeasibleError, "infeasible"),
        (LimitError, "limit"),
    )
    try:
        found = solve_network(problem, seed=seed, time_limit_s=time_limit_s, method=method)
    except (InputError, InfeasibleError, LimitError) as error:
        outcome = next(text for kind, text in failures if isinstance(error, kind))
        return row(outcome, None, None, str(error), False)
    return row(found.status.value, found.theta, found.bound.value, found.bound.proved_by, found.check.ok)


def compared(runs: Sequence[Run]) -> list[Comparison]:
    """Gaps of all runs, each to the best theta and to the best bound of its instance; rejected runs set no best."""
    result = []
    for run in runs:
        peers = [peer for peer in runs if (peer.instance, peer.kind) == (run.instance, run.kind) and peer.checked]
        best = min((peer.theta for peer in peers if peer.theta is not None), default=None)
        bound = max((peer.bound for peer in peers if peer.bound is not None), default=None)
        if run.theta is None or best is None or bound is None:
            result.append(Comparison(run, None, None, False))
            continue
        proven = best - bound <= PROVEN_RELATIVE * best
        result.append(Comparison(run, run.theta / best - 1.0, max(0.0, (run.theta - bound) / run.theta), proven))
    return result
