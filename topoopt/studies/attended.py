"""A study run before somebody's eyes: progress while it lasts, the table of results after it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from topoopt.console.output import Output
from topoopt.core.comparison import Study
from topoopt.core.errors import extra
from topoopt.studies.collect import TABLE_FILE, TABLES, Row, collect_rows, write_parquet
from topoopt.studies.executors import default_jobs
from topoopt.studies.progress import StudyProgress
from topoopt.studies.runner import Tally, run_study
from topoopt.studies.stopping import StudyStop


@dataclass(frozen=True)
class AttendedStudy:
    """How a study stands: counts, rows of its table, runs side by side, results that the checker rejects."""

    tally: Tally
    rows: list[Row]
    jobs: int

    @property
    def rejected(self) -> int:
        """Results that the checker rejects."""
        return sum(row["outcome"] == "check-failed" for row in self.rows)


def attend(
    output: Output,
    study: Study,
    folder: Path,
    stop: StudyStop,
    jobs: int | None = None,
    executor: str = "local",
    retry_failed: bool = False,
    options: tuple[tuple[str, str], ...] = (),
) -> AttendedStudy:
    """Do the runs that are missing, telling how far it is, and write the table.

    Args:
        output: where progress is told.
        study: expanded.
        folder: of the study.
        stop: what ends it, see `run_study`.
        jobs: runs side by side; None: from cores and free memory.
        executor, retry_failed, options: see `run_study`.

    Raises:
        InputError, WriteError, MachineError: see `run_study`; MissingExtraError: what writes tables is not installed.
    """
    extra("pyarrow", TABLES)  # not after hours of runs
    number = jobs or default_jobs(max((run.limits.memory_mib for run in study.runs), default=1))
    with StudyProgress(output, study, number) as progress:
        tally = run_study(
            study,
            folder,
            jobs=number,
            executor=executor,
            retry_failed=retry_failed,
            stop=stop,
            on_event=progress.event,
            on_plan=progress.planned,
            options=options,
        )
    rows = collect_rows(folder)
    write_parquet(rows, folder / TABLE_FILE)
    return AttendedStudy(tally, rows, number)
