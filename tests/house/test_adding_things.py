"""What adding a plug-in costs: toys are put into a copy of the product, in files and lines counted, and run there.

A folder of `toys` has the files of one toy at their places; lines go into literal tables, each after a line that is
there already. Nothing else of the product is touched. Kernels run uncompiled: the copies would compile them anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.house.laws import breaches
from tests.house.tree import PACKAGES, Tree, read_tree
from tests.support.paths import INSTANCES, ROOT

TOYS = Path(__file__).parent / "toys"
FORMATS = "topoopt/formats/table.py"
PROOFS = "topoopt/core/proofs.py"
FABRICS = "topoopt/simulate/fabrics/__init__.py"


@dataclass(frozen=True)
class Line:
    """A line to be put after the first one that ends so in a file."""

    file: str
    after: str
    text: str


class House:
    """A copy of the product with a toy in it."""

    def __init__(self, root: Path, toy: str, *lines: Line) -> None:
        for package in PACKAGES:
            shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
        self.root = root
        self.files = sorted(
            str(path.relative_to(TOYS / toy)) for path in (TOYS / toy).rglob("*.py") if "__pycache__" not in path.parts
        )
        assert not any((root / file).exists() for file in self.files)
        shutil.copytree(TOYS / toy, root, dirs_exist_ok=True)
        for line in lines:
            file = root / line.file
            old = file.read_text().splitlines()
            place = next(i for i, text in enumerate(old) if text.endswith(line.after))
            file.write_text("\n".join([*old[: place + 1], line.text, *old[place + 1 :]]) + "\n")

    def run(self, *words: object, code: int = 0) -> dict[str, Any]:
        """The JSON object of a command in the copy."""
        told = subprocess.run(
            [sys.executable, "-m", "topoopt.cli.main", *map(str, words), "--json"],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root), "NUMBA_DISABLE_JIT": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode == code, told.stderr
        document: dict[str, Any] = json.loads(told.stdout)
        return document

    def keeps_the_laws(self, product: Tree) -> bool:
        """Whether the laws say nothing of the new files."""
        told = breaches(read_tree(self.root, like=product))
        return not any(file in line for lines in told.values() for line in lines for file in self.files)


@pytest.fixture(scope="module")
def product() -> Tree:
    """The product without toys."""
    return read_tree(ROOT)


def test_an_exporter(tmp_path: Path, product: Tree) -> None:
    """One folder, one line; without the line the laws name the folder."""
    line = Line(
        "topoopt/formats/table.py", 'EXPORTER",', '        "edges": "topoopt.formats.edge_list.write:EXPORTER",'
    )
    house = House(tmp_path / "house", "exporter", line)
    assert len({Path(file).parent for file in house.files}) == 1
    assert house.run("export", "--list")["targets"]["edges"]["limits"] == ["no rates"]
    solution = house.run("solve", INSTANCES / "networks/uniform-5-2.yaml", "-o", tmp_path / "out")["solution"]
    house.run("export", solution, "--to", "edges", "-o", tmp_path / "edges.txt")
    assert len((tmp_path / "edges.txt").read_text().splitlines()) == 10
    assert house.keeps_the_laws(product)
    assert not House(tmp_path / "unlisted", "exporter").keeps_the_laws(product)


def test_an_importer(tmp_path: Path, product: Tree) -> None:
    """One folder, one line: a command with the options of its function, an instance that can be solved."""
    line = Line(
        "topoopt/formats/table.py", 'IMPORTER",', '        "edges": "topoopt.formats.edge_list.importer:IMPORTER",'
    )
    house = House(tmp_path / "house", "importer", line)
    assert len({Path(file).parent for file in house.files}) == 1
    (tmp_path / "edges.txt").write_text("0 1\n1 2\n2 0\n")
    made = house.run("import", "edges", tmp_path / "edges.txt", "--amount", 2, "-o", tmp_path / "i.yaml")
    assert (made["kind"], made["name"], made["links"]) == ("routing", "edges", 3)
    # A ring of three, one way: each link carries the 2 of a pair beside it and of two pairs two hops apart.
    assert house.run("solve", tmp_path / "i.yaml", "-o", tmp_path / "out")["theta"] == pytest.approx(6.0)
    assert house.keeps_the_laws(product)


def test_a_time_model(tmp_path: Path, product: Tree) -> None:
    """One file, one line: a replay by it takes the compute of the busiest server alone."""
    line = Line(
        "topoopt/simulate/time_models/__init__.py",
        'fluid:FLUID",',
        '        "compute": "topoopt.simulate.time_models.compute_only:COMPUTE_ONLY",',
    )
    house = House(tmp_path / "house", "time_model", line)
    assert len(house.files) == 1
    instance = INSTANCES / "measured/vgg-16-fixed-100gbps.yaml"
    words = ("replay", instance, "--fabric", "ideal-switch", "--time-model", "compute")
    fast, slow = (house.run(*words, "--link-gbps", rate)["iteration_time_ms"] for rate in (100, 1))
    assert fast == slow > 0
    assert house.keeps_the_laws(product)


def test_a_fabric(tmp_path: Path, product: Tree) -> None:
    """One file and its cost rule, one line each: a job runs on it, and it has a price."""
    house = House(
        tmp_path / "house",
        "fabric",
        Line(FABRICS, 'EXPANDER",', '        "ring": "topoopt.simulate.fabrics.ring:RING",'),
        Line("topoopt/costs/__init__.py", 'hypercube, LINK),', '    "ring": FabricCost("ring", regular_graph, LINK),'),
    )  # fmt: skip
    assert len(house.files) == 1
    (row,) = house.run("fabrics", INSTANCES / "tiny-4.yaml", "--fabrics", "ring", "--budget", 3)["rows"]
    assert (row["name"], row["outcome"], row["description"]) == ("ring", "found", "ring of 4 servers")
    assert row["iteration_time_ms"] > 0
    priced = house.run("cost", "--servers", 4, "--degree", 2, "--rate", 25, "--fabrics", "ring,direct-connect")
    assert priced["fabrics"]["ring"]["usd"] > 0
    assert house.keeps_the_laws(product)


def test_a_method(tmp_path: Path, product: Tree) -> None:
    """One file, one line of the table with the import it needs: solved by it, checked, compared with the others."""
    table = "topoopt/kinds/allocation/methods.py"
    house = House(
        tmp_path / "house",
        "method",
        Line(table, "import Effort, Method, table", "from topoopt.kinds.allocation.even import EVEN"),
        Line(table, "ALLOCATION_METHODS = table(", "    EVEN,"),
    )  # fmt: skip
    assert len(house.files) == 1
    instance = INSTANCES / "networks/parking-lot-5.yaml"
    solved = house.run("solve", instance, "--method", "even", "-o", tmp_path / "out")
    assert solved["check"]["ok"]
    runs = house.run("compare", instance, "--methods", "even,water-filling")["runs"]
    even, filled = (run["value"] for run in runs)
    assert 0 < even < filled
    assert house.keeps_the_laws(product)


def test_a_kind(tmp_path: Path, product: Tree) -> None:
    """A core file, a verify folder, a kinds folder, one line: validated, solved, checked, reported, compared.

    What proves its bounds is a name and a phrase more in the closed list of arguments.
    """
    line = Line("topoopt/kinds/__init__.py", 'placement.record",', '    "pick": "topoopt.kinds.pick.record",')
    name = Line(PROOFS, 'SHARD_BRANCHING = "shard-branching"', '    SORTING = "sorting"')
    phrase = Line(PROOFS, 'branch and bound over the shards",', '    Argument.SORTING: "sorting",')
    house = House(tmp_path / "house", "kind", line, name, phrase)
    folders = {str(Path(file).parent) for file in house.files}
    assert folders == {"topoopt/core", "topoopt/verify/pick", "topoopt/kinds/pick"}
    assert [file for file in house.files if file.startswith("topoopt/core")] == ["topoopt/core/pick.py"]
    instance = tmp_path / "pick.yaml"
    instance.write_text("schema_version: 1\nkind: pick\nname: p\nvalues: [3.0, 5.0, 1.0, 4.0]\ncount: 2\n")
    assert house.run("validate", instance)["ok"]
    solved = house.run("solve", instance, "-o", tmp_path / "out")
    assert (solved["objective"]["value"], solved["picked"], solved["check"]["ok"]) == (9.0, [1, 3], True)
    assert house.run("check", instance, solved["solution"])["ok"]
    house.run("report", solved["solution"], "-o", tmp_path / "page.html")
    (run,) = house.run("compare", instance, "--methods", "auto")["runs"]
    assert (run["kind"], run["value"], run["outcome"]) == ("pick", 9.0, "optimal")
    forged = Path(solved["solution"])
    forged.write_text(forged.read_text().replace('"value":9.0', '"value":10.0', 1))
    assert not house.run("check", instance, forged, code=6)["ok"]
    assert house.keeps_the_laws(product)
