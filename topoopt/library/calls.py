"""What can be done with a problem and its solution; every function takes every kind, or names those it takes.

problem = topoopt.read_instance("instances/tiny-6.yaml")
solution = topoopt.solve(problem, budget=500, seed=1)
assert topoopt.check(problem, solution).holds
topoopt.write_solution(solution, "solution.json")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from solvers.stop import Stop
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.result import SolutionHead
from topoopt.kinds import KINDS, kind_named, kind_of
from topoopt.kinds.files import check_whole
from topoopt.kinds.kind import Effort, Kind, Progress, SolveOptions
from topoopt.kinds.pipeline import Explanation, Question
from topoopt.library.instances import problem_of
from topoopt.verify.checker import BRIEF, FULL, CheckDepth, CheckFindings

if TYPE_CHECKING:
    from topoopt.core.price_book import PriceBook
    from topoopt.core.topology import Topology
    from topoopt.core.workload import Strategy


def solve(
    problem: Any,
    *,
    method: str | None = None,
    seed: int | None = None,
    time_limit_s: float | None = None,
    budget: int | None = None,
    objective_only: bool = False,
    book: PriceBook | None = None,
    progress: Progress | None = None,
    jobs: int = 1,
) -> Any:
    """Find the best plan of a problem, compute all its figures, bound and check it.

        problem = topoopt.TopologyInstance(servers=8, degree=2, demand=traffic)
        solution = topoopt.solve(problem, seed=1, time_limit_s=60)
        solution.objective.value, solution.bound.value, solution.status

    Ctrl-C and the time limit end the search; the best so far is returned.

    Args:
        problem: of any kind.
        method: of `topoopt.methods(problem)`; this and the following are by default as the problem says.
        seed: of every random choice; the same seed gives the same solution where no time limit ends the search.
        time_limit_s: seconds of search.
        budget: proposals of the search, for kinds that count them.
        objective_only: leave out what is reported beside the objective, as the same job on other fabrics.
        book: prices of networks; None: those shipped.
        progress: called with (what is being done, steps done, of how many or None).
        jobs: processes that share the independent parts of the search, for kinds whose search has some.

    Returns:
        The solution of the kind, with the verdict of its checker in `solution.check`.

    Raises:
        InputError: settings out of range, an unknown method, or one that does not cover the problem.
        InfeasibleError: nothing satisfies the constraints.
        LimitError: the limit came before anything was found.
    """
    from topoopt.kinds.pipeline import solve as solve_any

    options = SolveOptions(seed, time_limit_s, budget, method, objective_only, book, progress, jobs=jobs)
    return solve_any(problem_of(problem), options)


def methods(problem: Any) -> dict[str, str]:
    """The methods for a problem, each with a line on what it does; `auto` first."""
    problem = problem_of(problem)
    return {name: method.summary for name, method in kind_of(problem).methods(problem).items()}


def check(
    problem: Any,
    solution: SolutionHead | None = None,
    *,
    quick: bool = False,
    book: PriceBook | None = None,
    progress: Progress | None = None,
) -> CheckFindings:
    """What is wrong with a solution, found by code that shares nothing with what made it, and what was left out.

    Args:
        problem: what was solved; or a result, which has its problem.
        solution: of it.
        quick: leave out long simulations.
        book: prices that the solution was made with; None: those shipped.
        progress: told how far a long check is.

    Returns:
        `violations`, none if the solution holds (`ok`), and `not_recomputed`.

    Raises:
        InputError: the solution is of another kind.
    """
    if solution is None:  # a result alone, which has its problem
        problem, solution = problem.problem, problem
    problem, depth = problem_of(problem), CheckDepth(0 if quick else FULL.events, book, progress)
    _kind_of_both(problem, solution)
    return check_whole(problem, solution, depth)


def report(solution: SolutionHead) -> str:
    """The report of a solution: one HTML page that needs nothing else.

    Raises:
        CheckError: its plan does not hold, so that it has no figures.
    """
    try:
        return kind_of(solution).pages().report(solution)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        problem = getattr(solution, "problem", None)
        findings = None if problem is None else check_whole(problem, solution, BRIEF)
        if findings is None or findings.ok:
            raise
        violations = "\n".join(map(str, findings.violations))
        raise CheckError(f"the checker rejects the solution:\n{violations}") from error


def explain(
    solution: SolutionHead,
    problem: Any | None = None,
    *,
    added_links: float | None = None,
    checks: int = 8,
    time_limit_s: float = 60.0,
) -> Explanation:
    """What limits a solution, and what more capacity would gain; `print(...)` says it in words.

    Args:
        solution: of a kind that is explained.
        problem: what was solved; its demand and constraints hold where something is solved again.
        added_links: capacity to add, in links; None: 100 Gbit/s where the rate of a link is known, else one link.
        checks: positions of one more link that are solved again.
        time_limit_s: for all that is solved again.

    Raises:
        InputError: a kind that is not explained (the message names those that are), a problem of another kind.
        CheckError: the solution does not hold for the problem.
    """
    kind = _able(kind_of(solution), "explain", lambda other: other.explain is not None)
    if problem is not None:
        problem = problem_of(problem)
        _kind_of_both(problem, solution)
    added = None if added_links is None else Fraction(added_links).limit_denominator(1000)
    assert kind.explain is not None
    return kind.explain()(problem, solution, Question(added, checks, Stop().within(time_limit_s)))


def evaluate(
    problem: Any,
    solution: SolutionHead | None = None,
    *,
    topology: Topology | None = None,
    strategy: Strategy | None = None,
    seed: int | None = None,
    time_limit_s: float | None = None,
    book: PriceBook | None = None,
) -> Any:
    """What a topology, or a strategy, given by hand is worth: the rest is kept, and routes and rings are made anew.

        changed = topoopt.Topology.from_edges(edges)
        topoopt.evaluate(problem, solution, topology=changed).objective

    A job keeps the strategy of `solution` (data parallelism without one) and gets rings and routes by the steps that
    end every search. Kinds routing and topology route their demand with a certificate; a solution of kind routing is
    one of the problem with the topology given.

    Args:
        problem: of kind co-optimisation, routing or topology.
        solution: whose topology and strategy are kept where no others are given.
        topology: links between the servers of the problem.
        strategy: split and place of every operator of a job.
        seed, time_limit_s, book: as for `solve`.

    Returns:
        A checked solution, its bound over all plans of the problem.

    Raises:
        InputError: a kind that is not evaluated (the message names those that are), a topology or strategy that does
            not fit the problem.
    """
    from solvers.stop import stop_on_signals
    from topoopt.kinds.pipeline import judged

    problem = problem_of(problem)
    kind = _able(kind_of(problem), "evaluate", lambda other: other.evaluate is not None)
    if solution is not None:
        _kind_of_both(problem, solution)
    options = SolveOptions(seed, time_limit_s, objective_only=True, book=book)
    search = problem.search.but(seed=seed, time_limit_s=time_limit_s, method="given")
    given = {name: value for name, value in (("topology", topology), ("strategy", strategy)) if value is not None}
    assert kind.evaluate is not None
    with stop_on_signals(search.time_limit_s) as stop:
        effort = Effort(search, stop, options)
        asked, found = kind.evaluate()(replace(problem, search=search), effort, solution, **given)
        return judged(asked, found, effort)


def _kind_of_both(problem: Any, solution: SolutionHead) -> Kind:
    """The kind of a problem and its solution.

    Raises:
        InputError: they are of different kinds.
    """
    kind = kind_of(problem)
    if KINDS[kind.name] != KINDS[kind_of(solution).name]:  # kinds of one folder have solutions of one class
        text = "not a solution of this problem"
        raise InputError([Problem(text, path="kind", value=solution.kind, allowed=kind.name)])
    return kind


def _able(kind: Kind, what: str, can: Callable[[Kind], bool]) -> Kind:
    """The kind, if it can do something.

    Raises:
        InputError: it cannot; names the kinds that can.
    """
    if can(kind):
        return kind
    able = ", ".join(name for name in KINDS if can(kind_named(name)))
    raise InputError([Problem(f"this kind has no {what}", path="kind", value=kind.name, allowed=able)])
