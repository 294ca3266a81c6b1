"""Places are drawn, changed and probed as they should be; the faults of the native module are still where they were."""

from __future__ import annotations

import builtins
from types import FunctionType

import pytest

from tests.mutants.__main__ import wilson_lower
from tests.mutants.native import FAULTS, SOURCES, Fault
from tests.mutants.sites import Site, by_function, mutant, sites_of, with_probes
from tests.support.paths import ROOT

SOURCE = '''
LIMIT = 3

class Box:
    def holds(self, size: int = 4) -> bool:
        """At most so many."""
        if size < 1 and self:
            raise ValueError(f"{size + 1} is not allowed")
        return size <= LIMIT

def trim(names, *, upper=2):
    names.sort()
    return [name for name in names[:-1] if not name.count("a")]
'''


def test_places_are_in_what_functions_do() -> None:
    """Not in constants of a module, defaults, annotations, docstrings or messages."""
    changes = {(site.function, site.before, site.after) for site in sites_of("m.py", SOURCE, 0)}
    assert changes == {
        ("Box.holds", "if size < 1 and self:", "if not (size < 1 and self):"),
        ("Box.holds", "size < 1 and self", "size < 1 or self"),
        ("Box.holds", "size < 1", "size <= 1"),
        ("Box.holds", "1", "2"),
        ("Box.holds", "size <= LIMIT", "size < LIMIT"),
        ("trim", "names.sort()", "pass"),
        ("trim", "-1", "1"),
        ("trim", "1", "2"),
        ("trim", "not name.count('a')", "name.count('a')"),
    }


def test_ranks_depend_on_the_seed_and_the_text_alone() -> None:
    """Lines further down leave them as they are."""
    ranks = [site.rank for site in sites_of("m.py", SOURCE, 1)]
    assert ranks == [site.rank for site in sites_of("m.py", "import sys\n" + SOURCE, 1)]
    assert set(ranks).isdisjoint(site.rank for site in sites_of("m.py", SOURCE, 2))


@pytest.fixture
def sites() -> list[Site]:
    """All places of a small function of the product."""
    file = "topoopt/core/arrays.py"
    every = list(sites_of(file, (ROOT / file).read_text(encoding="utf-8"), 0))
    return [site for site in every if site.function == "divisors"]


def test_a_mutant_is_another_function_and_a_probe_the_same(sites: list[Site], monkeypatch: pytest.MonkeyPatch) -> None:
    """Divisors of twelve: the probes tell that all places are come to and change nothing, some mutants do."""
    from topoopt.core import arrays

    def of_twelve(code) -> object:  # type: ignore[no-untyped-def]
        return FunctionType(code, vars(arrays))(12)

    hits: set[int] = set()
    monkeypatch.setattr(builtins, "__hit__", hits.add, raising=False)
    assert list(of_twelve(with_probes(sites, range(len(sites))))) == [1, 2, 3, 4, 6, 12]
    assert hits == set(range(len(sites)))
    changed = next(site for site in sites if "%" in site.before and site.before.startswith("number"))
    assert list(of_twelve(mutant(changed))) != [1, 2, 3, 4, 6, 12]


def test_places_of_one_function_are_probed_together(sites: list[Site]) -> None:
    """By numbers in the draw."""
    other = Site("topoopt/core/cuts.py", "divisors", 0, 1, "", "", "")
    assert by_function([sites[0], other, sites[1]]) == [[0, 2], [1]]


def test_the_share_of_wilson() -> None:
    """0.7225 for ten of ten (Brown, Cai and DasGupta 2001), 0.2366 for five of ten."""
    assert wilson_lower(10, 10) == pytest.approx(0.7225, abs=1e-4)
    assert wilson_lower(5, 10) == pytest.approx(0.2366, abs=1e-4)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.header)
def test_faults_are_in_the_native_sources(fault: Fault) -> None:
    """Once each; the fault is another expression, and holds by its number."""
    source = (SOURCES / "src" / f"{fault.header}.hpp").read_text(encoding="utf-8")
    assert fault.after != fault.before
    assert f"(topoopt_fault == 5 ? ({fault.after}) : ({fault.before}))" in fault.put_into(source, 5)
