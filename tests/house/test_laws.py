"""Every law of the house is seen to fail where a small tree breaks it, and to pass where none does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.__main__ import main
from tests.house.ceilings import CEILINGS, SOURCES, Size, native_size, sizes
from tests.house.laws import LAWS, breaches
from tests.house.tree import PACKAGES, Tree, read_tree

ROOT = Path(__file__).parents[2]

TABLE = "from solvers import search\nKINDS = {'a': 'topoopt.kinds.a:KIND'}\n"
GOOD = {
    "topoopt/__init__.py": "from topoopt import table\n",
    "topoopt/table.py": TABLE,
    "topoopt/kinds/__init__.py": "",
    "topoopt/kinds/a.py": "from formulations.plan_arrays import build\nKIND = Kind(build)\n",
    "formulations/__init__.py": "",
    "formulations/plan_arrays.py": "def build(): ...\n",
    "solvers/__init__.py": "",
    "solvers/search.py": "",
}
"""A table, the plug-in it names, a formulation that this uses."""

FABRIC = "ListedFabric(2)\n"
LINES = "    x = 1\n" * 90


def told_of(root: Path, files: dict[str, str]) -> dict[str, list[str]]:
    """What the laws say of a tree of these files, by law; those kept are left out."""
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return breaches(read_tree(root))


@pytest.fixture(scope="module")
def house() -> Tree:
    """The product."""
    return read_tree(ROOT)


def test_a_good_tree(tmp_path: Path) -> None:
    """A tree that keeps all laws has nothing said of it."""
    assert told_of(tmp_path, GOOD) == {}


@pytest.mark.parametrize(
    ("law", "files", "said"),
    [
        ("short modules", {"topoopt/table.py": TABLE + "x = 1\n" * 799}, "801 lines, at most 800"),
        ("short functions", {"solvers/search.py": f"def f():\n{LINES}"}, "f has 91 lines, at most 80"),
        ("short functions", {"solvers/search.py": f"class A:\n  @lru_cache\n  def f():\n{LINES}"}, "f has 91 lines"),
        ("no import cycles", {"solvers/search.py": "import topoopt.table\n"}, "topoopt.table -> solvers.search"),
        ("no module out of reach", {"topoopt/kinds/b.py": "KIND = 1\n"}, "topoopt/kinds/b.py: nothing imports it"),
        ("no module out of reach", {"formulations/other.py": "x = 1\n"}, "formulations/other.py"),
        (
            "no plug-in without a line",
            {"solvers/search.py": "from topoopt.a import TORUS\n", "topoopt/a.py": f"TORUS = {FABRIC}KNOT = {FABRIC}"},
            "topoopt/a.py:2: no table names KNOT",
        ),
        (
            "one class a name",
            {"solvers/search.py": "class A: ...\nclass A: ...\n"},
            "class A is defined in solvers/search.py:1, solvers/search.py:2",
        ),
        ("one opener of files", {"solvers/search.py": "text = path.read_text()\n"}, "path.read_text opens a file"),
        ("one opener of files", {"solvers/search.py": "x = np.load(name)\n"}, "solvers/search.py:1: np.load opens"),
        ("one opener of files", {"solvers/search.py": "with open(name) as x: ...\n"}, "open opens a file"),
        ("plain names", {"solvers/search.py": "best_found = 1\n"}, "solvers/search.py:1: the name best_found says"),
        ("plain names", {"solvers/search.py": "def f(place): ...\n"}, "the name place says too little"),
        ("plain names", {"solvers/search.py": "class AskedFor: ...\n"}, "the name AskedFor says too little"),
    ],
)  # fmt: skip
def test_a_breach(tmp_path: Path, law: str, files: dict[str, str], said: str) -> None:
    """Each breach is told with its place, and breaks no other law."""
    found = told_of(tmp_path, {**GOOD, **files})
    assert list(found) == [law]
    assert len(found[law]) == 1
    assert said in found[law][0]


@pytest.mark.parametrize(
    "files",
    [
        {"topoopt/table.py": TABLE + "def f():\n    import topoopt.kinds.a\n"},
        {"topoopt/kinds/a.py": GOOD["topoopt/kinds/a.py"] + "if TYPE_CHECKING:\n    import topoopt.table\n"},
        {"solvers/search.py": "x = read_text(name, 5)\ny = torch.load(name)\n"},
        {"solvers/search.py": "class _A: ...\nclass _A: ...\n"},
        {"solvers/search.py": "foundation = math.way\nplaces = replace(x)\n"},
        {"topoopt/table.py": TABLE + "class A: ...\n", "solvers/search.py": "class A: ...\n"},
    ],
)
def test_no_breach(tmp_path: Path, files: dict[str, str]) -> None:
    """Functions may import late, types may be imported for checking, names repeat in other packages."""
    assert told_of(tmp_path, {**GOOD, **files}) == {}


def test_a_package_above_its_ceiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its sizes is told; modules at the top of `topoopt` belong to none."""
    monkeypatch.setitem(CEILINGS, "topoopt.kinds", Size(1, 2, 0))
    found = told_of(tmp_path, {**GOOD, "topoopt/kinds/a.py": GOOD["topoopt/kinds/a.py"] + "class A: ...\n"})
    told = ["topoopt.kinds: 3 lines, at most 1", "topoopt.kinds: 1 classes, at most 0"]
    assert found == {"below ceilings": told}


def test_ceilings_are_what_stands(house: Tree) -> None:
    """A package that became smaller, by a part of a hundred, has a lower ceiling from then on."""
    standing = sizes(house)
    assert set(standing) == set(CEILINGS)
    assert [name for name, ceiling in CEILINGS.items() if standing[name].lines < 0.99 * ceiling.lines] == []


def test_the_native_sources_are_below_theirs() -> None:
    """C++ counts as well."""
    standing = native_size(ROOT)
    assert all(amount <= most for amount, most in zip(standing, SOURCES, strict=True))
    assert standing.lines >= 0.99 * SOURCES.lines


def test_the_program_speaks_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the breach and ends with 1; with 0 on a good tree."""
    told_of(tmp_path, GOOD)
    assert main(tmp_path) == 0
    (tmp_path / "topoopt/lost.py").write_text("x = 1\n")
    assert main(tmp_path) == 1
    assert "topoopt/lost.py: nothing imports it and no table names it" in capsys.readouterr().out


@pytest.mark.parametrize("law", LAWS)
def test_the_house(law: str, house: Tree) -> None:
    """The product keeps every law; no exception is listed anywhere."""
    assert {name.partition(".")[0] for name in house} == set(PACKAGES)
    assert list(LAWS[law](house)) == []
