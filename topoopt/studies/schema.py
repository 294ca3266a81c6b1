"""The shape of study files, where `description` says what a field means, and how their values vary instances."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from topoopt.files.fields import FileModel, FileName, Label, SchemaVersion, Seed
from topoopt.files.issues import Issue, Path, parse_path, path_text, value_text

MAX_LISTED = 10_000
Statistic = Literal["mean", "median", "min", "max", "count", "p99"]
COMMANDS = {
    "describe topology": ("topoopt.cli.describe", "describe", ()),
    "cost": ("topoopt.analyses.costs", "cost", ("counting", "equal-to", "oversubscription")),
    "report": ("topoopt.cli.report", "report", ("selection", "strategy", "budget", "pairs")),
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

Cell = str | int | float | bool | None
Item = Cell | dict[str, Cell]
"""Of a list that is put into an instance: a fabric may stand there by its name, or with settings."""

Column = Annotated[str, Field(min_length=1, max_length=200, description="column of the table of results")]
Where = dict[Column, Cell]


class Sequence(FileModel):
    """Numbers by rule: `step` adds, `factor` multiplies; `to` is included when met."""

    start: Annotated[float | int, Field(alias="from")]
    to: float | int
    step: Annotated[float | int, Field(gt=0)] | None = None
    factor: Annotated[float | int, Field(gt=1)] | None = None


Values = Annotated[list[Cell | list[Item]], Field(min_length=1, max_length=MAX_LISTED)] | Sequence
FieldPath = Annotated[
    str, Field(min_length=1, max_length=300, description="such as cluster.degree or transfers[0].bytes")
]


class LimitsFile(FileModel):
    """What one run may take."""

    time_limit_s: Annotated[float, Field(ge=0, le=1e7)] | None = Field(
        default=None, description="of the search, which then ends with the best it has; results depend on the machine"
    )
    budget: Annotated[int, Field(ge=0, le=10**12)] | None = Field(default=None, description="of the search; repeatable")
    wall_s: Annotated[float, Field(gt=0, le=1e7)] | None = Field(default=None, description="then the run is killed")
    memory_mib: Annotated[int, Field(ge=16, le=10**8)] | None = Field(default=None, description="then it is killed")


class GroupFile(FileModel):
    """Instances with what is varied; one of file, instance and command."""

    file: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="instance file or pattern (*, **), relative to the study file"
    )
    instance: dict[str, object] | None = Field(default=None, description="an instance, written out")
    command: Literal["describe topology", "cost", "report", "compare", "reconfigure"] | None = Field(
        default=None, description="instead of solve; the first two take no instance"
    )
    options: dict[FieldPath, Cell] = Field(default={}, description="options of the command, without dashes")
    vary: dict[FieldPath, Values] = Field(default={}, description="every combination of these values")
    together: list[dict[FieldPath, Cell | list[Item]]] = Field(
        default=[], max_length=MAX_LISTED, description="values that change together, one mapping a case"
    )
    methods: list[FileName] | None = Field(default=None, min_length=1, description="instead of those of the study")
    seeds: SeedsFile | None = Field(default=None, description="instead of those of the study")
    limits: LimitsFile = Field(default=LimitsFile(), description="instead of those of the study")
    label: FileName | None = Field(default=None, description="in the table, instead of the name of the file")


class SeedCount(FileModel):
    """Seeds 0, 1, ... or from `first`."""

    count: Annotated[int, Field(ge=1, le=MAX_LISTED)]
    first: Seed = 0


SeedsFile = Annotated[list[Seed], Field(min_length=1, max_length=MAX_LISTED)] | SeedCount


class ComparisonFile(FileModel):
    """How runs are set against each other."""

    by: Column = "method"
    baseline: str | None = Field(default=None, description="value of that column; default: the best of each case")
    value: Column = "objective"


class FigureFile(FileModel):
    """A picture of the report."""

    kind: Literal["lines", "scatter", "box", "bars", "distribution", "performance-profile", "across", "heat-map"]
    title: Label | None = None
    x: Column | None = None
    y: Column | None = None
    series: Column | None = None
    columns: list[Column] = Field(
        default=[],
        max_length=24,
        description="kind lines: each of these columns as a series, y being the title of the axis; kind across: "
        "with one *; kind heat-map: one, with two *",
    )
    where: Where = Field(default={})
    log_x: bool = False
    log_y: bool = False


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


class TableFile(FileModel):
    """A table of the report: a statistic of columns over groups of runs."""

    title: Label
    rows: Annotated[list[Column], BeforeValidator(_listed), Field(min_length=1, max_length=8)]
    values: Annotated[list[Column], BeforeValidator(_listed), Field(min_length=1, max_length=20)]
    columns: Column | None = Field(default=None, description="a column spread sideways, with one value only")
    statistic: Statistic = "mean"
    where: Where = Field(default={})


class PublishedFile(FileModel):
    """A figure that others published, to be set beside ours."""

    what: Label
    value: Annotated[float, Field(gt=0, le=1e18)]
    source: Label
    column: Column = Field(description="where ours stands")
    over: Column | None = Field(default=None, description="a column to divide by, in the same row")
    statistic: Statistic = "mean"
    where: Where = Field(default={}, description="rows that count")
    why: Label | None = Field(default=None, description="what sets ours apart, told where the two do not agree")


class SmallFile(FileModel):
    """The small form of a study: other instances, the same figures and tables."""

    instances: list[GroupFile] = Field(min_length=1, max_length=MAX_LISTED)
    limits: LimitsFile = LimitsFile()


class StudyFile(FileModel):
    """A study: runs of the command line, and what to make of their results."""

    schema_version: SchemaVersion
    kind: Literal["study"]
    name: FileName
    title: Label | None = None
    notes: list[Label] = Field(default=[], max_length=50)
    instances: list[GroupFile] = Field(min_length=1, max_length=MAX_LISTED)
    methods: list[FileName] = Field(default=["auto"], min_length=1, max_length=100)
    seeds: SeedsFile = Field(default=[0])
    repetitions: Annotated[int, Field(ge=1, le=1000)] = 1
    limits: LimitsFile = LimitsFile()
    compare: ComparisonFile = ComparisonFile()
    figures: list[FigureFile] = Field(default=[], max_length=100)
    tables: list[TableFile] = Field(default=[], max_length=100)
    published: list[PublishedFile] = Field(default=[], max_length=200)
    names: dict[Column, Label] = Field(default={}, description="what columns are called in pictures and tables")
    small: SmallFile | None = Field(default=None, description="what --small runs")


GroupFile.model_rebuild()


NAMES = ("label", "name", "fabric", "kind")
"""Fields by which an item with settings is known."""

Factors = tuple[tuple[str, Any], ...]


def sequence_values(rule: Sequence) -> list[float | int]:
    """Numbers of a rule, the first included, the last when it is met; whole numbers stay whole.

    Raises:
        ValueError: neither or both of step and factor, nothing in it, or too many.
    """
    if (rule.step is None) == (rule.factor is None):
        raise ValueError("either step or factor")
    if rule.factor is not None and rule.start <= 0:
        raise ValueError("a sequence by factor starts above 0")
    values: list[float | int] = []
    for k in itertools.count():
        try:
            value = rule.start + k * rule.step if rule.step is not None else rule.start * (rule.factor or 1) ** k
            beyond = not math.isfinite(value) or value > rule.to * (1 + 1e-12)
        except OverflowError:  # beyond what a float holds, so beyond `to`
            break
        if beyond:
            break
        if len(values) == MAX_LISTED:
            raise ValueError(f"more than {MAX_LISTED} values")
        values.append(value)
    if not values:
        raise ValueError("from is above to")
    return values


def seeds_of(seeds: list[int] | SeedCount) -> list[int]:
    """Seeds in order, each once."""
    if isinstance(seeds, SeedCount):
        return list(range(seeds.first, seeds.first + seeds.count))
    return list(dict.fromkeys(seeds))


def cell_of(value: Any) -> Any:
    """What stands in the table for a value put into an instance: of a list its items, of settings their name."""
    if not isinstance(value, list):
        return value
    named = [
        next((item[key] for key in NAMES if item.get(key)), item) if isinstance(item, dict) else item for item in value
    ]
    return str(named)


def combinations(group: GroupFile, around: Path, issues: list[Issue]) -> list[Factors]:
    """Every case of a group: each of `together` with every combination of `vary`."""
    axes: list[list[tuple[str, Any]]] = []
    for path, values in group.vary.items():
        if not parse_path(path):
            issues.append(Issue((*around, "vary", path), "not a path", value_text(path), "such as cluster.degree"))
        try:
            listed = sequence_values(values) if isinstance(values, Sequence) else values
        except ValueError as error:
            issues.append(Issue((*around, "vary", path), str(error), allowed="{from: 8, to: 64, factor: 2}"))
            continue
        axes.append([(path, value) for value in listed])
    cases: list[Factors] = [tuple(case.items()) for case in group.together] or [()]
    for index, case in enumerate(group.together):
        for path in set(case) & set(group.vary):
            where = (*around, "together", index, path)
            issues.append(Issue(where, "varied twice", path, "either in vary or in together"))
    number = len(cases)
    for axis in axes:
        number *= len(axis)
    if number > MAX_LISTED:
        issues.append(Issue(around, "too many cases", str(number), f"at most {MAX_LISTED} a group"))
        return []
    return [(*case, *combined) for case in cases for combined in itertools.product(*axes)]


def varied(document: Mapping[str, Any], factors: Factors) -> dict[str, Any]:
    """A copy of an instance with fields set; mappings that are missing on the way are made.

    Raises:
        KeyError: a path leads through something that is no mapping or list; the message says where.
    """
    result: dict[str, Any] = copy.deepcopy(dict(document))
    for path, value in factors:
        parts = parse_path(path)
        node: Any = result
        for depth, part in enumerate(parts):
            last = depth == len(parts) - 1
            if isinstance(node, dict) and isinstance(part, str):
                if last:
                    node[part] = copy.deepcopy(value)
                else:
                    node = node.setdefault(part, {})
            elif isinstance(node, list) and isinstance(part, int) and part < len(node):
                if last:
                    node[part] = copy.deepcopy(value)
                else:
                    node = node[part]
            else:
                raise KeyError(path_text(parts[: depth + 1]) or path)
    return result
