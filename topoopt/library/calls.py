"""Instances are made in code from mappings or keywords, in which arrays, frames, graphs and topologies may stand. What
can be done with a problem and its solution: each function takes every kind; models of one's own; tables and HTML.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from pydantic import BaseModel

from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster
from topoopt.core.data import Displayed, short
from topoopt.core.errors import CheckError, InputError, Problem, extra, raise_any
from topoopt.core.result import Result, SolutionHead
from topoopt.core.topology import Topology
from topoopt.core.workload import Workload
from topoopt.files.documents import Document
from topoopt.files.job_document import cluster_document, workload_document
from topoopt.kinds import KINDS, kind_named, kind_of
from topoopt.kinds.files import build_instance, check_whole
from topoopt.kinds.kind import Effort, Kind, Progress, SolveOptions
from topoopt.kinds.pipeline import Explanation, Question
from topoopt.page.charts import element, joined, plain_style
from topoopt.page.networks import find_links, topology_svg
from topoopt.page.text import full_answer, number, objective_text, percent
from topoopt.verify.checker import BRIEF, FULL, CheckDepth, CheckFindings

if TYPE_CHECKING:
    import pyarrow as pa

    from topoopt.core.price_book import PriceBook
    from topoopt.core.workload import Strategy
    from topoopt.kinds.own_model import ModelAnswer, OwnModel


def instance_from_dict(document: Mapping[str, Any]) -> Any:
    """The problem that an instance file with this content states; the inverse of writing it down.

        topoopt.instance_from_dict({"schema_version": 1, "kind": "topology", "name": "all-to-all", "servers": 8,
                                    "degree": 2, "demand": {"family": "uniform"}})

    Args:
        document: keys and values as in a file, or objects that stand for sections (`topoopt.library.calls`).

    Raises:
        InputError: everything that is wrong, with path, value and what is allowed.
    """
    plain = _Plain()
    data = plain.of(document)
    plain.refuse()
    problem = build_instance(Document("", data, lambda _: {}))
    if not plain.labels:
        return problem
    named = ", ".join(f"{number} = {label}" for number, label in enumerate(plain.labels))
    return replace(problem, notes=(*problem.notes, f"servers are numbered in the order of their labels: {named}"))


def problem_of(instance: Any) -> Any:
    """The problem that an instance states, made by keywords: `topoopt.AllocationInstance(link_gbps=100, ...)`.

    A problem is returned as it is. Everything that an instance file may say, and the same objects as in
    `instance_from_dict`, may stand in the fields; nothing is checked before this call.

    Raises:
        InputError: everything that is wrong, by field.
    """
    if not hasattr(instance, "schema_version"):
        return instance
    return instance_from_dict(
        {f.name: value for f in fields(instance) if (value := getattr(instance, f.name)) is not None}
    )


@dataclass
class _Plain:
    """Makes plain data, and keeps the labels of servers that were given on the way.

    Attributes:
        labels: of the servers in their order, from a data frame or a graph; empty where they are just numbers.
    """

    labels: tuple[str, ...] = ()
    problems: list[Problem] = field(default_factory=list)

    def of(self, value: Any, path: str = "") -> Any:
        """The plain data of a value; what it is may depend on the key that it stands at."""
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, BaseModel):
            return value.model_dump(mode="json", exclude_defaults=True)
        if is_dataclass(value) and getattr(value, "__pydantic_config__", None):
            value = {f.name: entry for f in fields(value) if (entry := getattr(value, f.name)) is not None}
        if isinstance(value, Mapping):
            return {str(key): self.of(entry, f"{path}.{key}" if path else str(key)) for key, entry in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.of(entry, f"{path}[{index}]") for index, entry in enumerate(value)]
        if isinstance(value, Topology):
            return _links(value)
        if isinstance(value, Cluster):
            return cluster_document(value)
        if isinstance(value, Workload):
            return workload_document(value)
        if hasattr(value, "is_directed") and hasattr(value, "nodes"):
            return self._graph(value, path)
        if hasattr(value, "columns") and hasattr(value, "index") and hasattr(value, "to_numpy"):
            return self._frame(value, path)
        if isinstance(value, np.generic):
            return value.item()
        return _matrix(np.asarray(value), path) if hasattr(value, "__array__") else value

    def _graph(self, graph: Any, path: str) -> dict[str, Any]:
        nodes = list(graph.nodes)
        if set(nodes) != set(range(len(nodes))):
            self._label([str(node) for node in nodes], path)
        return _links(Topology.from_networkx(graph))

    def _frame(self, frame: Any, path: str) -> Any:
        """A square table whose rows and columns are the servers, columns in the order of the rows."""
        rows, columns = list(frame.index), list(frame.columns)
        if len(set(rows)) < len(rows) or sorted(map(str, rows)) != sorted(map(str, columns)):
            text, allowed = "rows and columns have different labels", "the same labels, each once, in any order"
            self.problems.append(Problem(text, path=path, value=f"{len(rows)} x {len(columns)}", allowed=allowed))
            return None
        if rows != list(range(len(rows))):
            self._label([str(row) for row in rows], path)
        positions = {str(name): at for at, name in enumerate(columns)}
        return _matrix(np.asarray(frame.to_numpy())[:, [positions[str(row)] for row in rows]], path)

    def _label(self, labels: list[str], path: str) -> None:
        """Keep labels of servers; all that are given must be the same."""
        if self.labels and list(self.labels) != labels:
            text, allowed = "servers are labelled otherwise than before", ", ".join(self.labels[:8])
            self.problems.append(Problem(text, path=path, value=", ".join(labels[:8]), allowed=allowed))
        self.labels = tuple(labels)

    def refuse(self) -> None:
        raise_any(self.problems)


def _links(topology: Topology) -> dict[str, Any]:
    units = np.repeat(topology.arcs, topology.multiplicity, axis=0)
    section = {"links": units.tolist(), "servers": topology.servers, "degree": topology.degree}
    if topology.rates is None:
        return section
    rates = np.repeat(topology.rates / topology.multiplicity, topology.multiplicity)
    return {**section, "capacities": rates.tolist()}


def _matrix(array: np.ndarray[Any, Any], path: str) -> Any:
    """A list of rows; where demands stand, a section for each matrix."""
    rows, key = array.tolist(), path.rpartition(".")[2].partition("[")[0]
    if key not in ("demand", "demands") or array.ndim < 2:
        return rows
    return {"matrix": rows} if array.ndim == 2 else [{"matrix": matrix} for matrix in rows]


ALIASES = {
    "job_problem": "CoOptimisationInstance",
    "allocation_problem": "AllocationInstance",
    "collective_problem": "CollectiveInstance",
    "hierarchy_problem": "HierarchicalInstance",
    "placement_problem": "PlacementInstance",
    "routing_problem": "RoutingInstance",
    "shared_cluster_problem": "SharedClusterInstance",
    "topology_problem": "TopologyInstance",
}
"""Name of the function -> public class of the instance, which takes the same keywords."""


def alias(name: str) -> Callable[..., Any]:
    """Return a function of the release before."""

    def problem(**fields: Any) -> Any:
        text = f"topoopt.{name}(...) goes with the next release; topoopt.{ALIASES[name]}(...) takes the same keywords"
        if name == "job_problem":
            fields, text = _of_named_model(**fields), f"{text}, with `model` and `operator_times` in `workload`"
        warnings.warn(text, FutureWarning, stacklevel=2)
        return problem_of(getattr(import_module("topoopt"), ALIASES[name])(**fields))

    problem.__name__ = name
    problem.__doc__ = f"The problem of a `topoopt.{ALIASES[name]}`; this name goes with the next release."
    return problem


def _of_named_model(*, workload: Any, device: str = "a100", **fields: Any) -> dict[str, Any]:
    """Keywords of a job whose workload may be the name of a model, with the device of its operator times."""
    if isinstance(workload, str):
        workload = {"model": workload, "operator_times": {"device": device}}
    return {"workload": workload, **fields}


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
        solution = replace(solution, problem=problem)  # type: ignore[call-arg]  # every result has the field
    added = None if added_links is None else Fraction(added_links).limit_denominator(1000)
    assert kind.explain is not None
    return kind.explain()(solution, Question(added, checks, Stop().within(time_limit_s)))


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
        requested, evaluated = kind.evaluate()(replace(problem, search=search), effort, solution, **given)
        return judged(requested, evaluated, effort)


def _kind_of_both(problem: Any, solution: SolutionHead) -> Kind:
    kind = kind_of(problem)
    if KINDS[kind.name] != KINDS[kind_of(solution).name]:  # kinds of one folder have solutions of one class
        text = "not a solution of this problem"
        raise InputError([Problem(text, path="kind", value=solution.kind, allowed=kind.name)])
    return kind


def _able(kind: Kind, what: str, can: Callable[[Kind], bool]) -> Kind:
    if can(kind):
        return kind
    able = ", ".join(name for name in KINDS if can(kind_named(name)))
    raise InputError([Problem(f"this kind has no {what}", path="kind", value=kind.name, allowed=able)])


HOOK = "change"
"""Name of the function that a file of constraints has."""


@dataclass(frozen=True, eq=False)
class SolvedModel:
    """A solved model.

    Attributes:
        solution: the plan it gives, checked as every solution; None where solutions of the formulation are no plans.
        answer: what the solver said of the model itself: status, objective, bound, and what was changed in it.
        model: with the values of the best point.
    """

    solution: Any
    answer: ModelAnswer
    model: Any


def model(problem: Any, formulation: str | None = None, **options: float) -> Any:
    """The Pyomo model of an instance, with the names of the algebra, to be read, changed and solved.

        model = topoopt.model(problem)                             # joint_topology, for a problem of kind topology
        model.no_link = pyomo.environ.Constraint(expr=model.x[0, 3] == 0)
        solved = topoopt.solve_model(model, solver="gurobi")
        solved.solution.objective, solved.solution.check.ok

    Rules that only break symmetry are left out, as constraints of yours could clash with them.

    Args:
        problem: of any kind that a formulation takes.
        formulation: name, as in `topoopt export --list`; None: the one whose solutions are plans of this kind.
        options: of the formulation, as in that list; with any of them, or where there is no readable model, variables
            are `x[name]` and constraints `row[name]`, with the names of `topoopt export --to lp`.

    Raises:
        InputError: no such formulation or option, or an instance that it does not take.
    """
    from topoopt.kinds.own_model import build_model

    return build_model(problem_of(problem), formulation, options)


def solve_model(
    model: Any, *, solver: str = "highs", seed: int | None = None, time_limit_s: float | None = None
) -> SolvedModel:
    """Solve a model that `topoopt.model` made, changed or not; the plan it gives is checked against the instance.

    What the solver claims is held against all rows of the model. Bounds of the solution are over all plans of the
    instance: they hold for yours, too, as constraints added leave fewer plans. What the solver proves of a model
    with constraints added is `claimed_bound`, of one with another objective only `answer.bound`.

    Args:
        model: linear, with whole numbers or without.
        solver: a name that `topoopt doctor` lists, or `pyomo:NAME`.
        seed, time_limit_s: None: as the instance says.

    Raises:
        InputError: not such a model, not a linear one, or a solver that is not found.
        InfeasibleError: nothing satisfies the model.
        LimitError: the limit came before anything was found.
    """
    from topoopt.kinds import kind_of
    from topoopt.kinds.own_model import OwnModel, origin_of
    from topoopt.kinds.pipeline import solve

    origin = origin_of(model)
    own = OwnModel(model, solver)
    problem = origin.problem
    if origin.formulation not in kind_of(problem).solver().models(problem):
        settings = problem.search.but(seed=seed, time_limit_s=time_limit_s)
        return SolvedModel(None, own.solved(settings.time_limit_s, settings.seed), model)
    solution = solve(problem, SolveOptions(seed, time_limit_s, chosen=own.method()))
    assert own.answer is not None
    return SolvedModel(solution, own.answer, model)


def hooked_model(problem: Any, formulation: str | None, solver: str, hook: Path | None) -> OwnModel:
    """The model of an instance, changed by the function `change(model, problem)` of a file, which is run.

    Raises:
        InputError: a file that cannot be read, has no such function, or fails (with its line).
    """
    from topoopt.files.untrusted import file_sha256
    from topoopt.kinds.own_model import OwnModel, build_model

    made = build_model(problem, formulation, {})
    if hook is None:
        return OwnModel(made, solver)
    change = _function_of(hook)
    try:
        change(made, problem)
    except Exception as error:
        raise InputError([_failed(hook, error)]) from error
    return OwnModel(made, solver, f"{hook.name} (sha256 {file_sha256(hook, MOST_BYTES)[:16]})")


MOST_BYTES = 10_000_000


def _function_of(hook: Path) -> Callable[[Any, Any], object]:
    from topoopt.files.untrusted import read_text

    text = read_text(hook, MOST_BYTES)
    names: dict[str, Any] = {"__name__": "model_hook", "__file__": str(hook)}
    try:
        exec(compile(text, str(hook), "exec"), names)
    except Exception as error:
        raise InputError([_failed(hook, error)]) from error
    change = names.get(HOOK)
    if not callable(change):
        allowed = f"def {HOOK}(model, problem): ..."
        raise InputError([Problem("no such function", file=str(hook), path=HOOK, allowed=allowed)])
    function: Callable[[Any, Any], object] = change
    return function


def _failed(hook: Path, error: Exception) -> Problem:
    lines = [error.lineno] if isinstance(error, SyntaxError) else []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(hook):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    words = str(error).splitlines()[0] if str(error) else ""
    return Problem(f"{type(error).__name__}: {words}", file=str(hook), line=lines[-1] if lines else None)


MOST_ARCS = 6000
"""Arcs of a topology that is drawn; a picture of more is a black disc of megabytes."""

STYLE = """
.topoopt { max-width: 480px; }
.topoopt th, .topoopt td { text-align: left; padding: 1px 10px 1px 0; }
.topoopt svg { width: 100%; }
.topoopt .lk { fill: none; stroke-linecap: round; }
.topoopt .nodes circle { fill: #fff; stroke: #57606c; }
.topoopt .labels text { text-anchor: middle; dominant-baseline: central; font-size: 12px; fill: #57606c; }
"""


def document_of(solution: SolutionHead) -> dict[str, Any]:
    """Plain data of a solution, as its file holds them."""
    document: dict[str, Any] = kind_of(solution).files.solutions.document(solution)  # type: ignore[arg-type]
    return document


def figures_of(result: Result[Any, Any]) -> Any:
    """Everything that follows from the problem, the seed and the plan of a result.

    Raises:
        InputError: the result has no problem.
    """
    if result.problem is None:
        text = "the instance is neither in this solution nor beside it"
        raise InputError([Problem(text, path="instance", allowed="topoopt check INSTANCE SOLUTION")])
    problem = result.problem
    if problem.search.seed != result.seed:  # the run was called with another one than the instance says
        problem = replace(problem, search=problem.search.but(seed=result.seed))
    return kind_of(result).figures(problem, result.plan, result.certificates)


def tables_of(solution: SolutionHead) -> dict[str, pa.Table]:
    """The columns of a solution as tables of Arrow.

    Raises:
        InputError: the extra `studies` is not installed.
    """
    pa = extra("pyarrow", "tables of Arrow")
    return {
        name: pa.table({key: _arrow(values) for key, values in columns.items()})
        for name, columns in solution.columns().items()
    }


def _arrow(values: Any) -> Any:
    return np.ascontiguousarray(values) if isinstance(values, np.ndarray) else list(values)


def html_of(shown: Displayed) -> str:
    """A short block for a notebook, with all its style: figures, and the picture of the topology if there is one."""
    if isinstance(shown, SolutionHead):
        return str(_block(_headline(shown), *_picture(shown.columns().get("links"), _topology(shown))))
    inside = ((field.name, getattr(shown, field.name)) for field in fields(shown) if field.repr)  # type: ignore[arg-type]
    rows = [(name, short(value)) for name, value in inside if name != "sha256" and not _empty(value)]
    return str(_block([(type(shown).__name__, ""), *rows], *_picture(None, _topology(shown))))


def _headline(solution: SolutionHead) -> list[tuple[str, str]]:
    objective, bound = solution.objective, solution.bound
    failed = f"FAILED: {len(solution.check.violations)} violations"
    verdict = solution.check.outcome if solution.check.ok else failed
    return [
        (solution.name, f"{solution.kind}, {solution.status}"),
        ("answer", full_answer(kind_of(solution).pages().answer(solution), solution.check)),
        (objective_text(objective.name), f"{number(objective.value)} {objective.unit}"),
        ("bound", f"{number(bound.value)} {objective.unit} ({bound.proved_by}), gap {percent(solution.gap)}"),
        ("method", f"{solution.method}, seed {solution.seed}, stopped by {solution.stopped_by}"),
        ("check", verdict),
    ]


def _empty(value: object) -> bool:
    return value is None or (isinstance(value, str | tuple) and not value)


def _topology(shown: Any) -> Topology | None:
    owners = (shown, getattr(shown, "plan", None), getattr(shown, "problem", None))
    for candidate in (shown, *(getattr(owner, "topology", None) for owner in owners)):
        if isinstance(candidate, Topology):
            return candidate
    return None


def _picture(links: Any, topology: Topology | None) -> Iterable[Markup]:
    if topology is None or len(topology.arcs) > MOST_ARCS:
        return ()
    busy: Floats = np.zeros(len(topology.arcs))
    if links is not None and "utilisation" in links:
        busy = np.asarray(links["utilisation"], dtype=np.float64)
    busy = busy / max(1.0, float(busy.max(initial=0.0)))
    return (topology_svg(topology, find_links(topology), busy, lambda arc: percent(float(busy[arc]))),)


def html_table(rows: Iterable[tuple[str, ...]]) -> Markup:
    """A table for a notebook, its first row in bold."""
    first, *others = ([element("td", cell) for cell in row] for row in rows)
    body = (element("tr", *cells) for cells in others)
    return element("table", element("tr", *(element("th", cell.striptags()) for cell in first)), joined(body))


def _block(rows: Iterable[tuple[str, str]], *pictures: Markup) -> Markup:
    table = (element("tr", element("th", name), element("td", value)) for name, value in rows)
    style = element("style", Markup(STYLE + plain_style()))
    return element("div", style, element("table", joined(table)), *pictures, class_="topoopt")
