"""topoopt: co-optimise topology, routing and parallelization strategy of machine-learning training clusters.

    import topoopt
    solution = topoopt.solve(topoopt.read_instance("instances/dlrm-16.yaml"))

`read_instance`, `solve`, `check`, `replay`, `write_solution`, `read_solution` and `render_report` mirror the commands;
`topoopt.topology`, `topoopt.simulate` and `topoopt.verify` are the pieces. Everything heavy loads on first
use (PEP 562), so that `import topoopt` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from topoopt import simulate, topology, verify
    from topoopt.io.instance_file import read_instance
    from topoopt.io.solution_file import read_solution, write_solution
    from topoopt.pipeline import evaluate_plan, solve
    from topoopt.report.html import render_html as render_report
    from topoopt.task_graph_replay import replay
    from topoopt.verify import check_solution as check

__version__ = "0.1.0"

_LAZY = {
    "check": ("topoopt.verify", "check_solution"),
    "evaluate_plan": ("topoopt.pipeline", "evaluate_plan"),
    "read_instance": ("topoopt.io.instance_file", "read_instance"),
    "read_solution": ("topoopt.io.solution_file", "read_solution"),
    "render_report": ("topoopt.report.html", "render_html"),
    "replay": ("topoopt.task_graph_replay", "replay"),
    "solve": ("topoopt.pipeline", "solve"),
    "write_solution": ("topoopt.io.solution_file", "write_solution"),
}
_MODULES = ("simulate", "topology", "verify")

__all__ = [
    "__version__",
    "check",
    "evaluate_plan",
    "read_instance",
    "read_solution",
    "render_report",
    "replay",
    "simulate",
    "solve",
    "topology",
    "verify",
    "write_solution",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"topoopt.{name}")
    if name in _LAZY:
        module, attribute = _LAZY[name]
        value = getattr(importlib.import_module(module), attribute)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'topoopt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
