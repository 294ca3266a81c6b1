"""Solution files with one place altered that would go wrong later: the reader refuses them, and says where."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import chakra_files as chakra
from tests.support.cli_cases import run
from tests.support.make_solution import make_solution
from tests.support.mutations import with_value
from tests.support.paths import ROOT
from topoopt.core.errors import InputError
from topoopt.formats.chakra import CommType, NodeType
from topoopt.kinds.files import read_solution
from topoopt.kinds.job import SOLUTION_FILE


def job(folder: Path) -> Path:
    """Four servers on a ring."""
    SOLUTION_FILE.write(make_solution(4, (1,)), folder / "job.json")
    return folder / "job.json"


def network(folder: Path) -> Path:
    """Five servers, two links each, optimal."""
    assert run("solve", ROOT / "instances/networks/uniform-5-2.yaml", "-o", folder / "out").code == 0
    return folder / "out/solution.json"


def hierarchy(folder: Path) -> Path:
    """Four ranks on a ring, one all-reduce."""
    reduce = chakra.node(0, NodeType.COMM_COLL, comm_type=int(CommType.ALL_REDUCE), comm_size=4096)
    chakra.write(folder / "traces", {rank: [reduce] for rank in range(4)})
    words = ("--set", "as=hierarchical-bandwidth,dims=ring:4,total_gbytes_per_s=100")
    assert run("import", "chakra", folder / "traces", *words, "-o", folder / "i.json").code == 0
    assert run("solve", folder / "i.json", "-o", folder / "out").code == 0
    return folder / "out/solution.json"


def collective(folder: Path) -> Path:
    """A sum over a ring of five."""
    assert run("solve", ROOT / "instances/collectives/ring-5.yaml", "-o", folder / "out").code == 0
    return folder / "out/solution.json"


ALTERED: dict[Callable[[Path], Path], list[tuple[tuple[str | int, ...], Any, str]]] = {
    job: [
        (("plan", "rings", 0, 0, 1, 0), [], "plan.rings[0][0][1][0]"),
        (("plan", "rings", 0, 0, 1, 0), [4], "plan"),
        (("plan", "rings", 0), [], "plan.rings[0]"),
        (("plan", "routes", 0, 1), [1], "plan.routes[0][1]"),
    ],
    network: [
        (("plan", "circuits", 0, 0), 4096, "plan.circuits[0][0]"),
        (("plan", "circuits", 0, 0), -2, "plan.circuits[0][0]"),
    ],
    collective: [
        (("plan", "routes", 0), [1], "plan.routes[0]"),
        (("plan", "send_step", 0), -1, "plan.send_step[0]"),
    ],
    hierarchy: [
        (("plan", "bandwidth_gbytes_per_s", 0), "1e5", "plan.bandwidth_gbytes_per_s[0]"),
        (("plan", "design"), -1, "plan.design"),
    ],
}


@pytest.mark.parametrize("make", ALTERED, ids=lambda make: make.__name__)
def test_altered_solutions_are_refused(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    """Each alteration alone, with its path; the file as it was is read."""
    path = make(tmp_path)
    good = json.loads(path.read_text())
    read_solution(path)
    for place, value, where in ALTERED[make]:
        path.write_text(json.dumps(with_value(good, place, value)))
        with pytest.raises(InputError) as caught:
            read_solution(path)
        assert where in [problem.path for problem in caught.value.problems]
