"""A job on one fabric, as a line of `topoopt fabrics`."""

from __future__ import annotations

from dataclasses import dataclass

ROUNDS = "rounds"
FLOW_LEVEL = "flow-level"
"""Time models of rows."""


@dataclass(frozen=True)
class FabricRow:
    """What was found on a fabric; figures are None where nothing was.

    Attributes:
        name: of the fabric, or `plan` for the given direct-connect plan.
        outcome: `found`, `left out`, or why the search ended early: `time`, `interrupted`.
        description: the fabric in words; for one left out, why.
        iteration_time_ms: of the best strategy found, by `time_model`.
        compute_ms, model_parallel_ms, allreduce_ms, idle_ms: along its critical path; they sum to the iteration time.
        links_per_byte: links that a demanded byte crosses on average, those to and from switches included.
        fullest_over_mean: bytes of the fullest link by the mean over the links that carry any.
        proposals: strategies proposed by the search.
        wall_s: seconds.
        time_model: `rounds`, or `flow-level` where circuits follow demand (max-min fair shares); only times by the
            same model compare.
        flow_level_ms: of the same strategy by the flow-level model; None if not asked for.
    """

    name: str
    outcome: str
    description: str
    iteration_time_ms: float | None = None
    compute_ms: float | None = None
    model_parallel_ms: float | None = None
    allreduce_ms: float | None = None
    idle_ms: float | None = None
    links_per_byte: float | None = None
    fullest_over_mean: float | None = None
    proposals: int = 0
    wall_s: float = 0.0
    time_model: str = ROUNDS
    flow_level_ms: float | None = None


PLAN = "plan"
"""Name of the row of a direct-connect plan."""
