"""What a method would return, were it left now, passes the check whenever that is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli_kept import CASES
from tests.support.cli_cases import write
from tests.support.sized_instances import shipped
from topoopt.kinds.instance_file import read_instance
from topoopt.kinds.kind import Effort
from topoopt.kinds.pipeline import judged, solve

TWO_NETWORKS = {"language model on two networks": shipped("llm-training/rails-32.yaml")}


@pytest.mark.parametrize("name", [*CASES, *TWO_NETWORKS])
def test_what_is_kept_passes_the_check(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first, second, fourth and so on of what is offered, long before the limit."""
    document: dict[str, Any] = {"schema_version": 1, "name": "case", **{**CASES, **TWO_NETWORKS}[name]}
    problem = read_instance(write(tmp_path, document))
    original, offered, judgements = Effort.keep, 0, []

    def keep(effort: Effort, found: Any, rough: bool = False) -> None:
        nonlocal offered
        original(effort, found, rough)
        offered += 1
        if offered & (offered - 1) == 0:
            judgements.append(judged(problem, found(), replace(effort, timing=None)).check)

    monkeypatch.setattr(Effort, "keep", keep)
    solve(problem)
    assert judgements
    assert all(one.ok for one in judgements), [one.violations for one in judgements if not one.ok]
