"""topoopt: co-optimise topology, routing and parallelization strategy of machine-learning training clusters.

    import topoopt
    solution = topoopt.solve(topoopt.read_instance("instances/dlrm-16.yaml"))

`read_instance`, `solve`, `check`, `replay`, `write_solution`, `read_solution` and `render_report` mirror the commands;
`run`, `simulate` and `verify` are the pieces. Everything heavy loads on first
use (PEP 562), so that `import topoopt` is quick.
"""

from __future__ import annotations

import importlib
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from topoopt import simulate, verify
    from topoopt.analyses.replay.run import replay
    from topoopt.kinds.instance_file import read_instance
    from topoopt.kinds.job.report import render_html as render_report
    from topoopt.kinds.job.solution_file import SOLUTION_FILE
    from topoopt.kinds.job.solve import evaluate_plan
    from topoopt.kinds.pipeline import solve_with as solve
    from topoopt.library import topologies
    from topoopt.verify.job.check import check_solution as check

    read_solution, write_solution = SOLUTION_FILE.read, SOLUTION_FILE.write

__version__ = "0.1.0"

_LAZY = {
    "check": ("topoopt.verify.job.check", "check_solution"),
    "evaluate_plan": ("topoopt.kinds.job.solve", "evaluate_plan"),
    "read_instance": ("topoopt.kinds.instance_file", "read_instance"),
    "read_solution": ("topoopt.kinds.job.solution_file", "SOLUTION_FILE.read"),
    "render_report": ("topoopt.kinds.job.report", "render_html"),
    "replay": ("topoopt.analyses.replay.run", "replay"),
    "solve": ("topoopt.kinds.pipeline", "solve_with"),
    "write_solution": ("topoopt.kinds.job.solution_file", "SOLUTION_FILE.write"),
}
_MODULES = {"simulate": "topoopt.simulate", "topologies": "topoopt.library.topologies", "verify": "topoopt.verify"}

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
    "topologies",
    "verify",
    "write_solution",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _LAZY:
        module, attribute = _LAZY[name]
        value = attrgetter(attribute)(importlib.import_module(module))
        globals()[name] = value
        return value
    raise AttributeError(f"module 'topoopt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
