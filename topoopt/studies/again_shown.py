"""What `topoopt study run --again` shows: one run beside itself."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console

from topoopt.console.output import Output
from topoopt.core.errors import CheckError
from topoopt.studies.reproduce import Reproduction, reproduce


def compared_again(output: Output, directory: Path, name: str) -> int:
    """Do a run of a study once more, in a folder that is not kept; the exit code."""
    with tempfile.TemporaryDirectory() as scratch:
        again = reproduce(directory, name, Path(scratch))
    document = {
        "run": again.identity,
        "command": list(again.command),
        "same": again.same,
        "comparable": again.comparable,
        "cut_short_by": list(again.cut_short),
        "differences": {name: list(pair) for name, pair in again.differences.items()},
        "same_files": again.same_files,
        "versions_differ": {name: list(pair) for name, pair in again.versions_differ.items()},
    }

    def show(console: Console) -> None:
        lines = [f"version of {name}: then {then}, now {now}" for name, (then, now) in again.versions_differ.items()]
        lines += [f"{name}: then {then}, now {now}" for name, (then, now) in again.differences.items()]
        lines += [f"{name}: {'the same bytes' if same else 'different'}" for name, same in again.same_files.items()]
        for line in (*lines, _verdict(again)):
            console.print(line, markup=False, soft_wrap=True, highlight=False)

    output.result(document, show)
    return 0 if again.same or not again.comparable else CheckError.exit_code


def _verdict(again: Reproduction) -> str:
    if again.same:
        return "reproduced"
    if again.comparable:
        return "NOT reproduced"
    limit = ", ".join(again.cut_short)
    return (
        f"not comparable: a limit ({limit}) ended the search, which gets as far as the machine lets it; with `budget` "
        "instead of `time_limit_s` the same seed gives the same plan"
    )
