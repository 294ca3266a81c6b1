"""The sentence that begins `study run` and `study report`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.cli_cases import run
from tests.support.study_cases import routing, study


def test_runs_that_gave_a_value_are_counted(tmp_path: Path) -> None:
    """Linear programs are solved to proven optimality by both methods; a bad instance gives nothing."""
    malformed = routing("malformed", topology={"family": "ring", "servers": "four"})
    groups = ({"instance": routing(), "methods": ["simplex", "ipx"]}, {"instance": malformed})
    file = tmp_path / "study.json"
    file.write_text(json.dumps(study(*groups)))
    said = "2 of 3 runs gave a value, 1 failed or is missing; 2 results are proven optimal."
    for words in (("run", file, "--output", tmp_path / "runs", "--jobs", 1), ("report", tmp_path / "runs")):
        found = run("study", *words, "--json")
        assert (found.code, found.json["answer"]) == (0, said)
        assert " ".join(run("study", *words, *(["--force"] if words[0] == "report" else [])).stdout.split()).startswith(
            said
        )
