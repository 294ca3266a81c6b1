"""The data of studies: what a study file holds, the plan that it expands to, and a run, which is a row of one table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Len
from pydantic import BeforeValidator, Field

from topoopt.core.data import STRICT, Pattern
from topoopt.files.codec import FileName, Label, SchemaVersion, Seed

MAX_LISTED = 10_000

COMMANDS = {
    "describe topology": ("topoopt.cli.describe", "describe", ()),
    "cost": ("topoopt.analyses.costs", "cost", ("counting", "equal-to", "oversubscription")),
    "report": ("topoopt.cli.check", "report", ("selection", "strategy", "budget", "pairs")),
    "compare": ("topoopt.cli.compare", "compare", ()),
    "reconfigure": (
        "topoopt.analyses.reconfiguration",
        "reconfigure",
        ("period", "iterations", "break-even", "straggler", "failed"),
    ),
}
"""Commands besides `solve` that a study can run (one JSON object): module, function, and options that are settings."""

ON_INSTANCES = ("report", "compare", "reconfigure")
"""Those that take an instance; the others have options only."""

Command = Literal["describe topology", "cost", "report", "compare", "reconfigure"]
Statistic = Literal["mean", "median", "min", "max", "count", "p99"]
FigureKind = Literal["lines", "scatter", "box", "bars", "performance-profile", "across", "heat-map"]

Cell = str | int | float | bool | None
"""A value that can stand in a cell of the table of results."""

Item = Cell | dict[str, Cell]
"""Of a list that is put into an instance: a fabric may stand there by its name, or with settings."""

Column = Annotated[str, Field(min_length=1, max_length=200, description="column of the table of results")]
Columns = Annotated[
    tuple[Column, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else _items(value))
]
Where = dict[Column, Cell]
FieldPath = Annotated[
    str, Field(min_length=1, max_length=300, description="such as cluster.degree or transfers[0].bytes")
]


def _items(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Progression:
    """Numbers by rule: `step` adds, `factor` multiplies; `to` is included when met."""

    __pydantic_config__ = STRICT

    start: Annotated[float | int, Field(alias="from")]
    to: float | int
    step: Annotated[float | int, Gt(0)] | None = None
    factor: Annotated[float | int, Gt(1)] | None = None


@dataclass(frozen=True)
class SeedCount:
    """Seeds 0, 1, ... or from `first`."""

    __pydantic_config__ = STRICT

    count: Annotated[int, Ge(1), Le(MAX_LISTED)]
    first: Seed = 0


Values = Annotated[list[Cell | list[Item]], Len(1, MAX_LISTED)] | Progression
Seeds = Annotated[list[Seed], Len(1, MAX_LISTED)] | SeedCount


@dataclass(frozen=True)
class Limits:
    """What one run may take."""

    __pydantic_config__ = STRICT

    time_limit_s: Annotated[float, Ge(0), Le(1e7)] | None = None
    """of the search, which then ends with the best it has; results depend on the machine"""
    budget: Annotated[int, Ge(0), Le(10**12)] | None = None
    """of the search; repeatable"""
    wall_s: Annotated[float, Gt(0), Le(1e7)] | None = None
    """then the run is killed"""
    memory_mib: Annotated[int, Ge(16), Le(10**8)] | None = None
    """then it is killed"""


@dataclass(frozen=True)
class Group:
    """Instances with what is varied; one of file, instance and command."""

    __pydantic_config__ = STRICT

    file: Annotated[str, Len(1, 1000)] | None = None
    """instance file or pattern (*, **), relative to the study file"""
    instance: dict[str, object] | None = None
    """an instance, written out"""
    command: Command | None = None
    """instead of solve; the first two take no instance"""
    options: dict[FieldPath, Cell] = field(default_factory=dict)
    """options of the command, without dashes"""
    vary: dict[FieldPath, Values] = field(default_factory=dict)
    """every combination of these values"""
    together: Annotated[list[dict[FieldPath, Cell | list[Item]]], Len(0, MAX_LISTED)] = field(default_factory=list)
    """values that change together, one mapping a case"""
    methods: Annotated[list[FileName], Len(1)] | None = None
    """instead of those of the study"""
    seeds: Seeds | None = None
    """instead of those of the study"""
    limits: Limits = Limits()
    """instead of those of the study"""
    label: FileName | None = None
    """in the table, instead of the name of the file"""


@dataclass(frozen=True)
class ComparedBy:
    """How runs are set against each other."""

    __pydantic_config__ = STRICT

    by: Column = "method"
    baseline: str | None = None
    """value of that column; default: the best of each case"""
    value: Column = "objective"
    """smaller is better"""


@dataclass(frozen=True)
class Figure:
    """A picture of the report."""

    __pydantic_config__ = STRICT

    kind: FigureKind
    title: Label | None = None
    x: Column | None = None
    y: Column | None = None
    series: Column | None = None
    columns: Annotated[tuple[Column, ...], Len(0, 24)] = ()
    """kind lines: each of these columns as a series, y being the title of the axis; kind across: with one *;
    kind heat-map: one, with two *"""
    where: Where = field(default_factory=dict)
    """only rows with these values"""
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Table:
    """A table of the report: a statistic of columns over groups of runs."""

    __pydantic_config__ = STRICT

    title: Label
    rows: Annotated[Columns, Len(1, 8)]
    values: Annotated[Columns, Len(1, 20)]
    columns: Column | None = None
    """a column spread sideways, with one value only"""
    statistic: Statistic = "mean"
    where: Where = field(default_factory=dict)


@dataclass(frozen=True)
class Published:
    """A figure that others published, to be set beside ours."""

    __pydantic_config__ = STRICT

    what: Label
    value: Annotated[float, Gt(0), Le(1e18)]
    source: Label
    column: Column
    """where ours stands"""
    over: Column | None = None
    """a column to divide by, in the same row"""
    statistic: Statistic = "mean"
    where: Where = field(default_factory=dict)
    """rows that count"""
    why: Label | None = None
    """what sets ours apart, told where the two do not agree"""


@dataclass(frozen=True)
class SmallForm:
    """The small form of a study: other instances, the same figures and tables."""

    __pydantic_config__ = STRICT

    instances: Annotated[list[Group], Len(1, MAX_LISTED)]
    limits: Limits = Limits()


@dataclass(frozen=True, kw_only=True)
class StudyFile:
    """A study: runs of the command line, and what to make of their results."""

    __pydantic_config__ = STRICT

    schema_version: SchemaVersion
    kind: Literal["study"]
    name: FileName
    title: Label | None = None
    notes: Annotated[list[Label], Len(0, 50)] = field(default_factory=list)
    instances: Annotated[list[Group], Len(1, MAX_LISTED)]
    methods: Annotated[list[FileName], Len(1, 100)] = field(default_factory=lambda: ["auto"])
    seeds: Seeds = field(default_factory=lambda: [0])
    repetitions: Annotated[int, Ge(1), Le(1000)] = 1
    limits: Limits = Limits()
    compare: ComparedBy = ComparedBy()
    figures: Annotated[list[Figure], Len(0, 100)] = field(default_factory=list)
    tables: Annotated[list[Table], Len(0, 100)] = field(default_factory=list)
    published: Annotated[list[Published], Len(0, 200)] = field(default_factory=list)
    names: dict[Column, Label] = field(default_factory=dict)
    """what columns are called in pictures and tables"""
    small: SmallForm | None = None
    """what --small runs"""


RETAINED: dict[str, Any] = {"extra": "ignore", "allow_inf_nan": False, "hide_input_in_errors": True}
"""Of what another version may have written: keys that are not read are passed over."""

Outcome = Literal[
    "missing", "done", "refused", "infeasible", "nothing-found", "check-failed", "crashed", "timed-out",
    "out-of-memory", "interrupted", "environment",
]  # fmt: skip
Amount = Annotated[float, Ge(0)]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of one command, and how it stands: a row of the table."""

    __pydantic_config__ = RETAINED

    identity: Annotated[str, Pattern(r"^[0-9a-f]{64}$")]
    """SHA-256 over everything that determines the result: content of the instance and of the files it refers to,
    command, options, limits, versions of code and solvers"""
    instance: str
    """name for people: of the instance file, or of the command"""
    source: str
    """file the instance came from; empty when it stands in the study file"""
    command: tuple[str, ...]
    arguments: tuple[str, ...]
    """options after the command, seed and method included, directories not"""
    method: str | None = None
    seed: Annotated[int, Ge(0)] | None = None
    repetition: Annotated[int, Ge(0)] = 0
    factors: dict[str, Cell]
    """what was varied, path -> value, in the order of the study file"""
    limits: Limits
    document: str | None = None
    """canonical JSON of the instance with its variations; it stands in the folder of the run, not in its row"""
    outcome: Outcome = "missing"
    reason: str = ""
    exit_code: int | None = None
    wall_s: Amount | None = None
    cpu_s: Amount | None = None
    peak_memory_mib: Amount | None = None
    finished_at: str | None = None
    output: dict[str, Any] | None = None
    """the JSON object that the command printed"""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study file, expanded; `study.json` of its folder holds all but the instances."""

    __pydantic_config__ = RETAINED

    schema_version: Annotated[int, Ge(2), Le(2)] = 2
    kind: Literal["study-plan"] = "study-plan"
    name: str
    file: str
    """the study file"""
    sha256: str
    """of its content"""
    versions: dict[str, str | None]
    """of code and solvers, part of every identity"""
    study: StudyFile
    runs: tuple[Run, ...]
    """in order, which is that of the rows of the table"""
