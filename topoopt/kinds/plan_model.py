"""Formulations whose solutions are plans of a kind: what `topoopt.model` builds and `topoopt.solve_model` solves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from topoopt.core.proofs import StopReason
from topoopt.kinds.kind import Effort


@dataclass(frozen=True)
class PlanModel:
    """A formulation whose solutions are plans of a kind.

    Attributes:
        build: problem -> Pyomo model with the names of the algebra, without rules that only break symmetry: whoever
            adds constraints must not lose plans to them. Raises InputError for a problem that it cannot state.
        found: (problem, solved model, effort, what its solver proved) -> what `Solver.assemble` takes.
    """

    build: Callable[[Any], Any]
    found: Callable[[Any, Any, Effort, ModelProof], Any]


@dataclass(frozen=True)
class ModelProof:
    """What is known of a solved model.

    Attributes:
        solver: name of the solver.
        bound: on the objective of the model, in its own sense; None: nothing known, or the objective is not that of the
            formulation, or its constraints are looser, so that it says nothing of the plan.
        restricted: whether there are constraints besides those of the formulation.
        stopped_by: why the solver ended.
        notes: for people.
    """

    solver: str
    bound: float | None
    restricted: bool
    stopped_by: StopReason
    notes: tuple[str, ...]
