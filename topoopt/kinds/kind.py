"""What a kind of problem is to the command line, the library and studies: one frozen record.

The module of a kind has the constant `RECORDS`; what reads its instance files is loaded with it, its checker,
solvers, pages and explanations on first use, so that `topoopt check` of one kind loads neither solvers nor other kinds.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from topoopt.core.errors import Problem
from topoopt.core.process import end_if_left
from topoopt.core.proofs import StopReason
from topoopt.core.result import SearchSettings, SolutionHead
from topoopt.files.documents import Document

if TYPE_CHECKING:
    from rich.console import Console

    from solvers.processes import Gather
    from solvers.stop import Stop
    from solvers.timing import Timing
    from topoopt.core.price_book import PriceBook
    from topoopt.core.result import Certificate
    from topoopt.files.results import ResultFormat
    from topoopt.kinds.pipeline import Explanation, Question
    from topoopt.verify.checker import CheckDepth, CheckFindings


Result = TypeVar("Result")

Progress = Callable[[str, int, int | None], None]
"""Called with (what is being done, steps done, of how many; None: nobody knows)."""


class Instance(Protocol):
    """What problems of all kinds have."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def search(self) -> SearchSettings: ...
    @property
    def sha256(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def document(self) -> Mapping[str, Any] | None: ...
    @property
    def folder(self) -> str: ...
    @property
    def beside(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class SolveOptions:
    """How a call changes what an instance says of its search.

    Attributes:
        seed, time_limit_s, budget, method: None: as the instance says.
        objective_only: leave out what is reported beside the objective: the same job on other fabrics, the same
            jobs on the fabrics after the first.
        book: prices, for kinds that take them; None: those shipped.
        progress: told what is being done.
        memory_bytes: resident memory that the run and its solvers may hold together; None for no limit.
        timing: deadline and interrupts, by whoever looks after signals; None: those of the call itself.
        chosen: a method that stands in no table, run in place of that of the settings.
        jobs: processes that share the independent parts of a search, which change nothing of what it finds.
        crew: who does these parts instead; None: such processes.
    """

    seed: int | None = None
    time_limit_s: float | None = None
    budget: int | None = None
    method: str | None = None
    objective_only: bool = False
    book: PriceBook | None = None
    progress: Progress | None = None
    memory_bytes: int | None = None
    timing: Timing | None = None
    chosen: Method | None = None
    jobs: int = 1
    crew: Gather | None = None


DEFAULT_OPTIONS = SolveOptions()
"""All settings as the instance states them."""


@dataclass(frozen=True)
class Effort:
    """How hard a method may work.

    Attributes:
        search: settings of the instance, changed by the options of the call.
        stop: the deadline of the search, and the interrupt by Ctrl-C; every method looks at both.
        options: of the call.
        timing: of the whole run; None for a step of something larger, which is never left.
    """

    search: SearchSettings
    stop: Stop
    options: SolveOptions = DEFAULT_OPTIONS
    timing: Timing | None = None

    def tell(self, what: str, done: int = 0, total: int | None = None) -> None:
        end_if_left()
        if self.options.progress is not None:
            self.options.progress(what, done, total)

    def keep(self, result: Callable[[], Any], rough: bool = False) -> None:
        """Offer the best so far: called for what a method would return now, should the method have to be left.

        `rough`: it was made at much less effort than the search makes one.
        """
        if self.timing is not None:
            self.timing.keep(result, self.stop, rough)

    def optional(self, name: str, work: Callable[[], Result]) -> Result | None:
        """What a solution can do without; None, and a note, when time runs out."""
        self.tell(name)
        return work() if self.timing is None else self.timing.optional(name, work)


def covers_all(problem: Any) -> Problem | None:
    """For a method without conditions that can be told beforehand."""
    return None


@dataclass(frozen=True)
class Method:
    """A line of a table of methods.

    Attributes:
        name: as in `search.method`.
        summary: one line for people.
        run: (problem, effort) -> what is found, before it is assembled. Raises InputError for a problem that turns out
            to be outside what the method covers, InfeasibleError, and LimitError when the limit comes before anything
            is found.
        covers: problem -> why the method does not cover it, or None.
    """

    name: str
    summary: str
    run: Callable[[Any, Effort], Any]
    covers: Callable[[Any], Problem | None] = covers_all


def table(*methods: Method) -> dict[str, Method]:
    """A literal table of methods, by name."""
    return {method.name: method for method in methods}


PlanModel = tuple[Callable[[Any], Any], Callable[[Any, Any, Effort, "ModelProof"], Any]]
"""A formulation whose solutions are plans.

First, problem -> Pyomo model with the names of the algebra, without rules that only break symmetry: whoever adds
constraints must not lose plans to them. It raises InputError for a problem that it cannot express. Second, (problem,
solved model, effort, what its solver proved) -> what `Solver.assemble` takes.
"""

MethodTables = tuple[tuple[str, Mapping[str, Method]], ...]
"""(which problems of a kind, the methods for these), for people; an empty text for all."""


@dataclass(frozen=True)
class Solver:
    """How problems of a kind are solved.

    Attributes:
        methods: problem -> methods by name, `auto` among them.
        tables: name of a kind -> all the tables that `methods` chooses from.
        assemble: (problem with the settings in force, what a method found, effort) -> solution, all its figures
            computed from the plan, not checked yet.
        check: (problem, what a method found, solution) -> findings, where what was found holds hints that the
            checker would otherwise search for again; None: as the kind checks any solution.
        search_share: part of a time limit that a search may take, where what comes after it takes long.
        models: problem -> formulations whose solutions are plans of it, by name: how a Pyomo model is built, and how
            its solution is read. The first is the one meant without a name.
        excerpt: solution -> (a part of it, how many times as long the whole is); shows how long writing takes.
    """

    methods: Callable[[Any], Mapping[str, Method]]
    assemble: Callable[[Any, Any, Effort], SolutionHead]
    tables: Callable[[str], MethodTables]
    check: Callable[[Any, Any, Any], CheckFindings] | None = None
    search_share: float = 1.0
    models: Callable[[Any], Mapping[str, PlanModel]] = lambda _: {}
    excerpt: Callable[[Any], tuple[Any, int]] | None = None


@dataclass(frozen=True)
class Pages:
    """What people and programs are shown of a solution.

    Attributes:
        report: solution -> self-contained HTML.
        figures: (problem or None, solution) -> keys that only this kind has, for one JSON object.
        show: (console, solution, seconds of the run or None): figures in the terminal; the answer before them, notes
            and files written are shown by the caller.
        answer: solution -> one sentence that answers the question of the instance, or says that the checker rejects the
            plan; it begins the terminal, the report and the notebook.
        tables: solution -> figures that are tables, by key: a list of mappings each.
        table: solution -> (file name, CSV text) of one more file beside the solution, or None.
    """

    report: Callable[[Any], str]
    figures: Callable[[Any, Any], Mapping[str, Any]]
    show: Callable[[Console, Any, Any], None]
    answer: Callable[[Any], str]
    table: Callable[[Any], tuple[str, str] | None] = lambda _: None
    tables: Callable[[Any], Mapping[str, Any]] = lambda _: {}

    def everything(self, problem: Any, solution: Any) -> dict[str, Any]:
        return {**self.figures(problem, solution), **self.tables(solution)}


def at_first_use(module: str, constant: str) -> Callable[[], Any]:
    """What loads the module when it is called, and returns its constant."""
    return lambda: getattr(importlib.import_module(module), constant)


def pages_of(
    page: Callable[[], Callable[[Any], Any]], table: Callable[[], Callable[[Any], Any]] | None = None
) -> Callable[[], Pages]:
    """What loads the three renderings of the page of a kind, and its table beside the solution, if it has one."""

    def load() -> Pages:
        from topoopt.page.render import to_html, to_json, to_terminal

        made = lru_cache(maxsize=1)(page())  # the same page for file, terminal and JSON
        return Pages(
            report=lambda result: to_html(made(result), result),
            figures=lambda _, result: to_json(made(result)),
            show=lambda console, result, wall_s: to_terminal(made(result), console, result, wall_s),
            answer=lambda result: made(result).answer,
            tables=lambda result: to_json(made(result), tables=True),
            table=lambda result: None if table is None else table()(result),
        )

    return load


def no_problems(problem: Any) -> list[Problem]:
    """For a kind whose reader finds everything."""
    return []


@dataclass(frozen=True)
class KindFiles:
    """How a kind stands in files.

    Attributes:
        schema: model of instance files.
        read: document of an instance file -> problem. Raises InputError.
        solution_module: has the constant that reads and writes solution files, and is loaded at its first use.
        solution_constant: its name.
    """

    schema: Any
    read: Callable[[Document], Any]
    solution_module: str
    solution_constant: str = "SOLUTION_FILE"

    @property
    def solutions(self) -> ResultFormat:
        """What reads and writes solution files."""
        solutions: ResultFormat = getattr(importlib.import_module(self.solution_module), self.solution_constant)
        return solutions


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of problem.

    Attributes:
        name: as in `kind` of its files.
        files: how its instances and solutions stand in files.
        check: (problem, solution, how far) -> findings, without a solver.
        solver: loads how it is solved.
        pages: loads how a solution is shown.
        problems: what is wrong with an instance that its reader cannot know, as it stands in tables of the simulator.
        format_2: loads (problem, document of a solution file of format 2) -> its plan and certificates; raises
            KeyError, TypeError, ValueError or IndexError for what is no such document. A text: why none is converted.
        explain: loads (solution, question) -> what limits it; None: this kind is not explained.
        evaluate: loads (problem, effort, solution or None, parts given by hand as keywords) -> the problem that is
            answered, and what is found for it, before it is assembled; None: this kind is not evaluated.
        maximise: whether a larger objective of a problem is better, and its bound an upper one.
        value_per_million_usd: solution -> iterations a second that a million dollars of its network buy; None without
            a price.
        takes_budget, takes_prices, takes_jobs, takes_crew: whether these options mean something.
    """

    name: str
    files: KindFiles
    check: Callable[[Any, Any, CheckDepth], CheckFindings]
    solver: Callable[[], Solver]
    pages: Callable[[], Pages]
    problems: Callable[[Any], list[Problem]] = no_problems
    figures_class: Callable[[], Callable[[Any, Any], Any]] | None = None
    format_2: Callable[[], Callable[[Any, Mapping[str, Any]], tuple[Any, tuple[Certificate, ...]]]] | str | None = None
    explain: Callable[[], Callable[[Any, Question], Explanation]] | None = None
    evaluate: Callable[[], Callable[..., tuple[Any, Any]]] | None = None
    maximise: Callable[[Any], bool] = lambda _: False
    value_per_million_usd: Callable[[Any], float | None] = lambda _: None
    takes_budget: bool = False
    takes_prices: bool = False
    takes_jobs: bool = False
    takes_crew: bool = False

    def figures(self, problem: Any, plan: Any, certificates: tuple[Certificate, ...] = ()) -> Any:
        """Everything that follows from a problem and a plan, computed when it is read.

        Figures with a field `certificates` read dual prices from them.
        """
        assert self.figures_class is not None
        figures = self.figures_class()(problem, plan)
        return replace(figures, certificates=certificates) if hasattr(figures, "certificates") else figures

    def methods(self, problem: Any) -> Mapping[str, Method]:
        """The methods for a problem, by name."""
        return self.solver().methods(problem)


@dataclass(frozen=True)
class ModelProof:
    """What is known of a solved model.

    Attributes:
        solver: name of the solver.
        bound: on the objective of the model, in its own sense; None: nothing known, or the objective is not that of the
            formulation, or its constraints are looser, so that it says nothing of the plan.
        restricted: whether there are constraints besides those of the formulation.
        stopped_by: why the solver ended.
        notes: for people.
    """

    solver: str
    bound: float | None
    restricted: bool
    stopped_by: StopReason
    notes: tuple[str, ...]
