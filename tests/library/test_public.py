"""The public names: what is there, what it loads, and that it takes every kind."""

from __future__ import annotations

import ast
import inspect
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import topoopt
from tests.support.paths import ROOT


def in_a_new_process(script: str) -> str:
    """Standard output of a Python of its own."""
    return subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_import_loads_nothing_heavy() -> None:
    """Neither numpy nor any other library, nor any module of ours but the first."""
    script = "import sys; before = set(sys.modules); import topoopt; print(sorted(set(sys.modules) - before))"
    loaded = set(ast.literal_eval(in_a_new_process(script)))
    assert {name for name in loaded if name.startswith(("topoopt", "solvers", "formulations"))} == {"topoopt"}
    assert not {name.partition(".")[0] for name in loaded} & {"numpy", "scipy", "pydantic", "networkx", "rich"}


def test_dir_is_what_is_public_before_and_after_use() -> None:
    """No `annotations`, no `importlib`, no submodule that happens to be loaded."""
    script = "import topoopt; a = dir(topoopt); topoopt.solve; topoopt.Topology; assert dir(topoopt) == a; print(a)"
    assert ast.literal_eval(in_a_new_process(script)) == sorted(topoopt.__all__)
    with pytest.raises(AttributeError, match="no attribute 'annotation'"):
        _ = topoopt.annotation


def test_type_checkers_see_what_is_loaded_on_use() -> None:
    """The names of the TYPE_CHECKING block are those of `__all__`, each from the module that has it."""
    tree = ast.parse(Path(topoopt.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    known = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {*known, "__version__"} == set(topoopt.__all__)
    for name, module in known.items():
        found = getattr(topoopt, name)
        assert found is (
            sys.modules[f"{module}.{name}"] if inspect.ismodule(found) else getattr(sys.modules[module], name)
        )


@pytest.mark.parametrize("name", sorted(set(topoopt.__all__) - {"__version__"}))
def test_every_public_name_is_explained(name: str) -> None:
    """Its help says more than its name, and what it raises where it can fail."""
    text = inspect.getdoc(getattr(topoopt, name)) or ""
    assert len(text) > 40, name


def test_help_has_an_example() -> None:
    """`help(topoopt.solve)` shows a call, its arguments and what comes back; `help(topoopt)` the functions."""
    text = pydoc.render_doc(topoopt.solve, renderer=pydoc.plaintext)
    assert "topoopt.solve(problem, seed=1" in text
    assert all(word in text for word in ("Args:", "Returns:", "Raises:"))
    module = pydoc.render_doc(topoopt, renderer=pydoc.plaintext)
    assert "TopologyInstance(" in module
    assert "importlib" not in module
