"""Studies: overhead of a run, and what ten thousand finished runs cost."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.benchmarks.figures import Figure
from topoopt.files import codec
from topoopt.studies.execute import ROWS_FILE, read_rows
from topoopt.studies.expand import read_study
from topoopt.studies.results import write_parquet
from topoopt.studies.runner import collect_rows, run_study
from topoopt.studies.schema import Run

FINISHED = 10_000


def _study(folder: Path, seeds: int) -> Path:
    instance = {
        "schema_version": 1,
        "kind": "routing",
        "name": "ring",
        "topology": {"family": "ring", "servers": 4},
        "demand": {"family": "uniform"},
    }
    study = {
        "schema_version": 1,
        "kind": "study",
        "name": "bench",
        "instances": [{"instance": instance}],
        "methods": ["simplex"],
        "seeds": {"count": seeds},
    }
    path = folder / f"study-{seeds}.json"
    path.write_text(json.dumps(study))
    return path


def study_figures() -> list[Figure]:
    """Seconds of overhead a run, to collect and to resume."""
    folder = Path(tempfile.mkdtemp())
    try:
        few = read_study(_study(folder, 20))
        run_study(few, folder / "few", jobs=1)
        rows = collect_rows(folder / "few")
        # The first run of a worker waits for the program to load, so it is left out.
        overhead = [float(row["wall_s"] or 0) - float(row["solve_wall_s"] or 0) for row in rows[1:]]
        record = read_rows(folder / "few")[few.runs[0].identity]
        many = read_study(_study(folder, FINISHED))
        (folder / "many").mkdir()
        with (folder / "many" / ROWS_FILE).open("w") as stream:
            for one in many.runs:
                row = codec.adapter(Run).dump_python(replace(record, identity=one.identity))
                stream.write(json.dumps(row) + "\n")
        (folder / "many" / "study.json").write_text(json.dumps({"name": "bench"}))
        began = time.perf_counter()
        again = read_study(_study(folder, FINISHED))
        tally = run_study(again, folder / "many", jobs=1)
        resumed = time.perf_counter() - began
        began = time.perf_counter()
        write_parquet(collect_rows(folder / "many"), folder / "t.parquet")
        collected = time.perf_counter() - began
        if tally["ran"] or tally["done"] != FINISHED:
            raise AssertionError(f"finished runs were not recognised: {tally}")
    finally:
        shutil.rmtree(folder)
    return [
        Figure("overhead of a run beside its solve, mean of 19", sum(overhead) / len(overhead), "s", 0.5),
        Figure("10 000 finished runs resumed", resumed, "s", 5.0),
        Figure("10 000 finished runs collected", collected, "s", 10.0),
    ]
