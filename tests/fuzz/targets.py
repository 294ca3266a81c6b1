"""What is damaged, and what is then done with it: a literal table."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from tests.fuzz import foreign, schedules, small_files
from tests.support.paths import INSTANCES
from tests.support.read_back.exports import check_written
from tests.support.smallest import SMALLEST, problem_of, solution_of
from tests.support.study_cases import routing, study
from topoopt.formats.table import EXPORTERS, ExportOptions
from topoopt.kinds import kind_named
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.studies.results import ResultRow, write_parquet
from topoopt.studies.runner import collect_rows
from topoopt.verify.checker import CheckDepth

SMALL = 40_000
"""Bytes of the largest instance file that is damaged."""


FOLDERS = (
    "hierarchical", "placement", "measured", "collectives", "dag-topology", "llm-training", "published",
    "regional-circuits",
    "parallel-circuits",
)  # fmt: skip
"""Of instances of kinds that have one of their own."""


@dataclass(frozen=True)
class Target:
    """Files that are damaged one at a time, and what is done with each.

    Attributes:
        originals: name and content of the files, in an order that does not change.
        run: called with the path of the damaged one.
        share: how many of 5 000 files are of this target.
        beside: files that stand in the same folder as they are.
    """

    originals: Callable[[], Mapping[str, bytes]]
    run: Callable[[Path], object]
    share: int
    beside: Callable[[], Mapping[str, bytes]] = dict


def _files(pattern: str) -> dict[str, bytes]:
    """Shipped files, by their names."""
    found = sorted(INSTANCES.glob(pattern))
    return {path.name: path.read_bytes() for path in found if path.stat().st_size <= SMALL}


SLOW_STUDIES = ("gaps-16.yaml", "measured-16.yaml")
"""Studies that take half a second to read, for their tables of measured times; others have all of their sections, if
not all keys that these vary."""


def _studies() -> dict[str, bytes]:
    return {name: content for name, content in _files("studies/*.yaml").items() if name not in SLOW_STUDIES}


def _read(path: Path) -> None:
    problem = read_instance(path)
    kind_named(problem.kind).problems(problem)


@cache
def _solutions() -> dict[str, bytes]:
    texts = {}
    for case in SMALLEST:
        solution = solution_of(case)
        text = kind_named(solution.kind).files.solutions.text(solution)
        texts[f"{case.replace(' ', '-')}.json"] = text.encode()
    return texts


def _use_solution(path: Path) -> None:
    """Read and check a solution; report and export it where it passes, as the commands do."""
    case = (
        path.stem.replace("-of-", " of ")
        .replace("several-demands", "several demands")
        .replace("jobs-at-once", "jobs at once")
    )
    problem = problem_of(case)
    kind = kind_named(problem.kind)
    solution = kind.files.solutions.read(path)
    if not kind.check(problem, solution, CheckDepth(events=20_000)).ok:
        return  # no command shows figures of what the checker rejects
    solution = replace(solution, problem=problem)
    kind.pages().report(solution)
    for target, exporter in EXPORTERS.items():
        if kind.name in exporter.kinds:
            foreign.attempt(lambda target=target: _export(target, solution))


def _export(target: str, solution: object) -> None:
    check_written(target, EXPORTERS[target].build(solution, ExportOptions()), solution)


SOLVED = ("networks/k4-4.yaml", "networks/uniform-5-2.yaml", "networks/parking-lot-5.yaml", "placement/branches-3.yaml",
          "tiny-4.yaml", "hierarchical/resnet50-3d.yaml", "dag-topology/two-stages.yaml", "collectives/ring-5.yaml",
          "llm-training/small-16.yaml", "llm-training/rails-32.yaml", "llm-training/pods-16.yaml",
          "regional-circuits/hot-experts-8.yaml",
          "shared/trace-16.yaml")  # fmt: skip
"""Instances that are solved after they were damaged."""


def _solve(path: Path) -> None:
    problem = read_instance(path)
    budget = 10 if kind_named(problem.kind).takes_budget else None
    solution = solve(problem, SolveOptions(budget=budget, time_limit_s=1.0, seed=1, objective_only=True))
    assert solution.check.ok, solution.check.violations


def _study(path: Path) -> None:
    from topoopt.studies.expand import read_study

    read_study(path)


def _collect(path: Path) -> None:
    """Collect a store of one run of which a file is damaged; write the table if it is another."""
    root = path.parent / "store"
    rows = _collected(root, path)
    if rows == _true_rows():
        return
    write_parquet(rows, root / "results.parquet")


def _collected(root: Path, damaged: Path | None) -> list[ResultRow]:
    """Rows of the store written to a folder, with one file of its name replaced."""
    for name, (place, content) in _kept().items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_bytes(damaged.read_bytes() if damaged and name == damaged.name else content)
    return collect_rows(root)


@cache
def _true_rows() -> list[ResultRow]:
    with tempfile.TemporaryDirectory() as folder:
        return _collected(Path(folder), None)


def _store() -> dict[str, bytes]:
    """Plan, record and output of a run that ended well."""
    return {name: content for name, (_, content) in _kept().items()}


@cache
def _kept() -> dict[str, tuple[Path, bytes]]:
    """What a study of one run leaves: by name, where it stands in the store and what it says."""
    from topoopt.studies.expand import read_study
    from topoopt.studies.runner import run_study

    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "study.json", Path(folder) / "out"
        file.write_text(json.dumps(study({"instance": routing(), "vary": {"topology.servers": [4]}})))
        run_study(read_study(file), out, jobs=1)
        found = [out / "study.json", out / "results.jsonl", *sorted(out.rglob("output.json"))]
        return {path.name: (path.relative_to(out), path.read_bytes()) for path in found}


def _all_instances() -> dict[str, bytes]:
    found = sorted(INSTANCES.rglob("*.yaml")) + sorted(INSTANCES.rglob("*.csv"))
    return {f"../{path.relative_to(INSTANCES)}": path.read_bytes() for path in found}


def _beside_clusters() -> dict[str, bytes]:
    jobs = {f"../{path.name}": path.read_bytes() for path in sorted(INSTANCES.glob("*.yaml"))}
    return {"trace-16.csv": (INSTANCES / "shared/trace-16.csv").read_bytes(), **jobs}


TARGETS: Mapping[str, Target] = {
    "instances": Target(partial(_files, "*.yaml"), _read, 270),
    "network instances": Target(partial(_files, "networks/*.yaml"), _read, 400),
    "other instances": Target(
        lambda: {name: content for folder in FOLDERS for name, content in _files(f"{folder}/*.yaml").items()},
        _read,
        400,
        lambda: {"operator-times.csv": (INSTANCES / "measured/operator-times.csv").read_bytes()},
    ),
    "shared clusters": Target(partial(_files, "shared/*.yaml"), _read, 200, _beside_clusters),
    "solutions": Target(_solutions, _use_solution, 700),
    "solved instances": Target(
        lambda: {Path(name).name: (INSTANCES / name).read_bytes() for name in SOLVED},
        _solve,
        30,
        _beside_clusters,
    ),
    "studies": Target(_studies, _study, 300, _all_instances),
    "stores of studies": Target(_store, _collect, 500),
    "matrices": Target(foreign.matrices, foreign.read_matrix, 400),
    "traces of demand": Target(foreign.traces, foreign.read_demand_trace, 300),
    "graphs": Target(foreign.graphs, foreign.read_any_graph, 300),
    "small files": Target(small_files.originals, small_files.read_any, 200),
    "price books": Target(foreign.price_books, foreign.read_any_price_book, 100),
    "foreign formats": Target(foreign.imports, foreign.import_any, 500),
    "foreign schedules": Target(schedules.originals, schedules.audit_any, 400),
}

SHARES = 5000
"""Sum of the shares."""
