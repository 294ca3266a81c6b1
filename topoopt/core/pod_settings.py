"""Pods of GPUs of one stage of a pipeline, which share ports: as an instance has them."""

from __future__ import annotations

from dataclasses import dataclass

STRATEGIES = 256
"""Strategies that get circuits where an instance names no number."""


@dataclass(frozen=True)
class PodSettings:
    """Pods as an instance has them.

    Attributes:
        gpus: of a pod, all of one stage of the pipeline.
        ports: circuits that may end at a pod.
        circuit_gbps: of a circuit, in each direction.
        strategies: that get circuits, at most.
        slack_percent: how much longer than the least time an iteration may take, where that saves circuits.
    """

    gpus: int
    ports: int
    circuit_gbps: float
    strategies: int = STRATEGIES
    slack_percent: float = 0.0

    def holds(self, tensor: int, context: int, of_stage: int) -> bool:
        """Whether whole tensor and context groups fill pods, and pods the GPUs of a stage."""
        return self.gpus % (tensor * context) == 0 and of_stage % self.gpus == 0
