"""A kind and a target of `topoopt export` in a package of their own: pick some of a list of numbers.

Its metadata name `pick = topoopt_pick` in the group `topoopt.kinds` and `lines = topoopt_pick:EXPORTER` in the group
`topoopt.exporters`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Len

from topoopt.core.data import STRICT, FileName, SchemaVersion
from topoopt.core.proofs import Argument, StopReason
from topoopt.core.result import Certificate, Objective, ProblemBase, Result, SearchResult, SearchSettings
from topoopt.files import codec
from topoopt.files.documents import Document, canonical_sha256
from topoopt.files.reader_fields import Findings
from topoopt.files.results import ResultFormat
from topoopt.formats.table import Export, Exporter, ExportOptions
from topoopt.kinds.kind import Effort, Kind, KindFiles, Method, Solver, pages_of, table
from topoopt.kinds.pipeline import assembled
from topoopt.page.render import Column, Fact, Page, Section, Table
from topoopt.verify.checker import Checker


@dataclass(frozen=True, eq=False, repr=False)
class PickProblem(ProblemBase):
    """Pick `count` of `values`."""

    name: str
    values: tuple[float, ...]
    count: int
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "pick"


@dataclass(frozen=True)
class PickPlan:
    """What is picked."""

    __pydantic_config__ = STRICT

    picked: Annotated[tuple[Annotated[int, Ge(0)], ...], Len(0, 1000)]
    """indices into the values"""


@dataclass(frozen=True, kw_only=True)
class PickInstance:
    """The instance file."""

    __pydantic_config__ = STRICT

    schema_version: SchemaVersion = 1
    kind: Literal["pick"] = "pick"
    name: FileName = "pick"
    values: Annotated[tuple[float, ...], Len(1, 1000)]
    """numbers to choose from"""
    count: Annotated[int, Ge(1)]
    """how many are picked"""
    search: SearchSettings = SearchSettings()  # noqa: RUF009 - frozen


def resolve(document: Document) -> PickProblem:
    """Return the problem of an instance file."""
    instance = Findings().shaped(PickInstance, document)
    sha256 = canonical_sha256(codec.plain(instance))
    return PickProblem(instance.name, instance.values, instance.count, instance.search, sha256)


def distinct(problem: PickProblem, plan: PickPlan) -> Iterator[str]:
    """As many different numbers of the list as requested."""
    picked = {index for index in plan.picked if index < len(problem.values)}
    if len(picked) != problem.count or len(plan.picked) != problem.count:
        yield f"{len(picked)} of {len(plan.picked)} are different numbers of the list, {problem.count} are requested"


def upper_bound(problem: PickProblem, certificates: Sequence[Certificate]) -> float:
    """Return the sum of the largest numbers."""
    return sum(sorted(problem.values)[-problem.count :])


CHECKER = Checker(
    objective=lambda problem: ("largest_sum", ""),
    constraints=(("distinct", distinct),),
    value=lambda problem, plan: sum(problem.values[index] for index in plan.picked),
    arguments=lambda problem: {Argument.OF_THE_KIND: upper_bound},
)


class PickFigures:
    """What follows from a plan."""

    def __init__(self, problem: PickProblem, plan: PickPlan) -> None:
        self.numbers = [problem.values[index] for index in plan.picked]
        self.objective = Objective("largest_sum", sum(self.numbers), "")

    def columns(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the one table."""
        return {"numbers": {"number": self.numbers}}


def largest(problem: PickProblem, effort: Effort) -> SearchResult[PickPlan]:
    """Pick the largest numbers."""
    order = sorted(range(len(problem.values)), key=lambda index: -problem.values[index])
    picked = tuple(sorted(order[: problem.count]))
    return SearchResult(plan=PickPlan(picked), stopped_by=StopReason.CONVERGED, method="sorting")


def page(result: Result[PickProblem, PickPlan]) -> Page:
    """Return the page of a result."""
    numbers = result.figures.numbers
    return Page(
        subtitle=f"{len(numbers)} numbers",
        answer=f"The largest sum is {result.objective.value:g}.",
        facts=(
            Fact("", "sum", result.objective.value, "{:g}".format),
            Fact("picked", "picked", list(result.plan.picked), str),
        ),
        sections=(Section("Numbers", [Table("numbers", [Column("number", "number")], [[one] for one in numbers])]),),
    )


METHODS = table(Method("auto", "the largest numbers", largest))

RECORDS = (
    Kind(
        name="pick",
        files=KindFiles(PickInstance, resolve, "topoopt_pick"),
        check=CHECKER,
        solver=lambda: Solver(
            methods=lambda _: METHODS,
            assemble=lambda problem, search, effort: assembled(problem, search, effort, CHECKER),
            tables=lambda _: (("", METHODS),),
        ),
        figures_class=lambda: PickFigures,
        pages=pages_of(lambda: page),
        maximise=lambda _: True,
    ),
)

SOLUTION_FILE = ResultFormat("pick", PickPlan, resolve)


def lines(result: Result[PickProblem, PickPlan], options: ExportOptions) -> Export:
    """Write one number a line."""
    text = "".join(f"{number}\n" for number in result.figures.numbers)
    return Export((("picked.txt", text.encode()),), result.figures.numbers, ())


EXPORTER = Exporter(("pick",), "one number a line", (), False, lines)
