"""Progress of a study: runs at work, done and failed, and the time left."""

from __future__ import annotations

import time
from types import TracebackType

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from topoopt.console.output import Output
from topoopt.core.comparison import Study
from topoopt.studies.execute import ENVIRONMENT, FAILURES, INTERRUPTED
from topoopt.studies.executors import Event

QUIET_S = 60.0
"""Seconds between lines where standard error is no terminal."""


class StudyProgress:
    """A bar on a terminal, a line a minute elsewhere."""

    def __init__(self, output: Output, study: Study, jobs: int) -> None:
        self.output = output
        self.jobs = jobs
        self.began = self.said = time.monotonic()
        self.left = len({run.identity for run in study.runs})
        self.running: dict[str, str] = {}
        self.done = self.failed = 0
        self.bar = Progress(
            TextColumn("study"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
            TimeElapsedColumn(),
            console=output.remarks,
            expand=True,
            transient=True,
            disable=not output.remarks.is_terminal,
        )
        self.task = self.bar.add_task("study", total=self.left, text="")

    def __enter__(self) -> StudyProgress:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def planned(self, total: int) -> None:
        """Only so many runs are missing."""
        self.bar.update(self.task, total=total)
        self.left = total

    def event(self, event: Event) -> None:
        """Take notice of a run that starts or ends."""
        if event.record is None:
            self.running[event.run.identity] = f"{event.run.instance} {event.run.method or ''}".strip()
        else:
            self.running.pop(event.run.identity, None)
            self.done += 1
            outcome = event.record["outcome"]
            if outcome in (*FAILURES, ENVIRONMENT):
                self.failed += 1
                if outcome != INTERRUPTED:
                    text = f"{outcome}: {event.run.instance} {event.run.method or ''} {event.record['reason']}"
                    self.output.remarks.print(text, markup=False, soft_wrap=True, highlight=False)
        at_work = ", ".join(list(self.running.values())[:3])
        running = f", {len(self.running)} running ({escape(at_work)})" if at_work else ""
        text = f"{self.failed} failed{self._time_left()}{running}"
        self.bar.update(self.task, completed=self.done, text=text)
        if not self.output.remarks.is_terminal and time.monotonic() - self.said >= QUIET_S:
            self.said = time.monotonic()
            self.output.remarks.print(f"{self.done} of {self.left} runs, {text}", highlight=False, soft_wrap=True)

    def _time_left(self) -> str:
        if not self.done:
            return ""
        seconds = (time.monotonic() - self.began) / self.done * max(0, self.left - self.done)
        return f", about {seconds / 60:.0f} min left" if seconds >= 90 else f", about {seconds:.0f} s left"
