"""A batch study: runs of the command line over instances, methods, seeds and whatever else is varied."""

from __future__ import annotations

from dataclasses import dataclass

Scalar = str | int | float | bool | None
"""A value that can stand in a cell of the table of results."""


@dataclass(frozen=True)
class RunLimits:
    """What one run may take.

    Attributes:
        time_limit_s: passed to the search, which ends by itself with the best it has; None: none.
        budget: passed to the search; None: its default.
        wall_s: seconds after which the run is killed.
        memory_mib: resident memory above which the run is killed.
    """

    time_limit_s: float | None
    budget: int | None
    wall_s: float
    memory_mib: int


@dataclass(frozen=True)
class StudyRun:
    """One run of one command.

    Attributes:
        position: place in the study, from 0; rows of the table are in this order.
        identity: SHA-256 over everything that determines the result (content of the instance and of the files it
            refers to, command, method, parameters, seed, limits, versions of code and solvers).
        instance: name for people: of the instance file, or of the command.
        command: words of the command, such as `("solve",)`.
        arguments: options after the command, seed and method included, directories not.
        document: canonical JSON of the instance with its variations; None for a command that takes no instance.
        source: file the instance came from; empty when it stands in the study file.
        method, seed: as passed; None: not passed.
        repetition: from 0.
        factors: what was varied, (path, value), in the order of the study file.
        limits: of this run.
    """

    position: int
    identity: str
    instance: str
    command: tuple[str, ...]
    arguments: tuple[str, ...]
    document: str | None
    source: str
    method: str | None
    seed: int | None
    repetition: int
    factors: tuple[tuple[str, Scalar], ...]
    limits: RunLimits


@dataclass(frozen=True)
class ComparedBy:
    """How runs are set against each other.

    Attributes:
        by: column whose values are compared (such as `method`).
        baseline: the value the others are compared with; None: with the best.
        value: column compared, smaller is better.
    """

    by: str = "method"
    baseline: str | None = None
    value: str = "objective"


@dataclass(frozen=True)
class Figure:
    """A picture of the report.

    Attributes:
        kind: `lines`, `scatter`, `box`, `performance-profile`, `bars`, `distribution`, `across` or `heat-map`.
        title: above it; empty: made from the columns.
        x, y, series: columns of the table of results; what each kind needs is in its docstring.
        columns: several columns drawn as one series each (kind `lines`), instead of series, y then being the title of
            the axis; in kind `across` each names many, with a star for the number that is x; in kind `heat-map` one,
            with two, for row and column.
        where: only rows with these values in these columns.
        log_x, log_y: logarithmic axes.
    """

    kind: str
    title: str = ""
    x: str | None = None
    y: str | None = None
    series: str | None = None
    columns: tuple[str, ...] = ()
    where: tuple[tuple[str, Scalar], ...] = ()
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Table:
    """A table of the report: rows grouped by columns, a statistic of others.

    Attributes:
        title: above it.
        rows: columns to group by, one line each combination.
        columns: column spread sideways; None: one column for each of `values`.
        values: numeric columns.
        statistic: `mean`, `median`, `min`, `max`, `count` or `p99`.
        where: only rows with these values in these columns.
    """

    title: str
    rows: tuple[str, ...]
    values: tuple[str, ...]
    columns: str | None = None
    statistic: str = "mean"
    where: tuple[tuple[str, Scalar], ...] = ()


@dataclass(frozen=True)
class Published:
    """A figure that others published.

    Attributes:
        what, source: for people.
        value: as published, positive, in the unit of the column.
        column: of the table of results, where ours stands.
        over: column by which it is divided, in the same row; None: it is not.
        statistic: of ours over all rows that count.
        where: only rows with these values in these columns.
        why: what sets ours apart, told where the two do not agree.
    """

    what: str
    value: float
    source: str
    column: str
    over: str | None = None
    statistic: str = "mean"
    where: tuple[tuple[str, Scalar], ...] = ()
    why: str | None = None


@dataclass(frozen=True)
class Study:
    """A study file, expanded.

    Attributes:
        name, title, notes: for people.
        runs: in order.
        comparison, figures, tables, published: of the report.
        names: (column, what it is called in pictures and tables).
        file: the study file.
        sha256: of its content.
        versions: of code and solvers, part of every identity.
    """

    name: str
    title: str
    notes: tuple[str, ...]
    runs: tuple[StudyRun, ...]
    comparison: ComparedBy
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    published: tuple[Published, ...]
    names: tuple[tuple[str, str], ...]
    file: str
    sha256: str
    versions: tuple[tuple[str, str], ...]
