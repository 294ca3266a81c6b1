"""What one AllReduce of a family reduces, and what its rounds cost: of tensor groups, of gradients layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.search_settings import AllReduceChoice
from topoopt.simulate.llm_training.network.links import BYTES_PER_GBIT, LinkGraph
from topoopt.simulate.llm_training.traffic import ELEMENT, matrix_weights
from topoopt.workloads.llm_training.facts import expert_layers


@dataclass(frozen=True)
class Bucket:
    """One AllReduce of a group of ranks.

    Attributes:
        whole_bytes: the vector.
        apart: a reduce-scatter and an all-gather that something stands between, so that the slower one counts twice.
        message_s, hop_s: of one round, and of each hop in it.
        counted: rounds that the closed form counts itself.
        inside: bytes a second of a GPU inside its server, where ranks reduce before servers do.
        network: part of their rate that links reach.
    """

    whole_bytes: float
    apart: bool
    message_s: float
    hop_s: float
    counted: int
    inside: float
    network: float

    def passed(self, ranks: int) -> float:
        """Bytes that a rank sends on a ring, by which rates are counted."""
        return 2.0 * self.whole_bytes * (ranks - 1) / ranks

    def waits_s(self, rounds: int, hops: int) -> float:
        """Latencies beyond those that the closed form counts."""
        return max(rounds - self.counted, 0) * (self.message_s + hops * self.hop_s)

    def local_s(self, ranks: int, servers: int) -> float:
        """Reducing and gathering among the ranks of one server, before and behind what servers do."""
        own = ranks / servers
        return 2.0 * self.whole_bytes * max(1.0 - 1.0 / own, 0.0) / self.inside


def rounds_counted(problem: LlmTrainingProblem, graph: LinkGraph) -> bool:
    """Whether AllReduces of these links have a choice: on direct links, where more than rings is asked for."""
    return problem.search.allreduce is not AllReduceChoice.RINGS and graph.nodes == graph.servers


def family_buckets(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> dict[F, Bucket]:
    """Of activations of one micro-batch, and of the gradients of one layer, the mean of all; 16-bit with ZeRO."""
    model, reached, cluster, s = problem.model, problem.device.reached, problem.cluster, strategy
    dense, experts = matrix_weights(model, np.array([float(s.tensor)]))
    each = float(problem.formats.gradient_bytes) if s.zero == 0 else min(problem.formats.gradient_bytes, ELEMENT)
    inside = cluster.intra_server_gbps * BYTES_PER_GBIT * reached.scale_up
    tokens = s.micro_batch * problem.batch.length / s.context

    def bucket(whole_bytes: float, counted: int, *, apart: bool) -> Bucket:
        latencies = cluster.message_latency_us * 1e-6, cluster.hop_latency_us * 1e-6
        return Bucket(whole_bytes, apart, *latencies, counted, inside, reached.network)

    routed = experts / max(expert_layers(model), 1) / (s.expert * s.expert_tensor)
    return {
        F.TENSOR: bucket(tokens * model.hidden * ELEMENT, 2 * ceil(log2(s.tensor)), apart=s.sequence),
        F.DATA: bucket(float(dense[0]) / model.layers * each, 0, apart=s.zero > 0),
        F.EXPERT_DATA: bucket(routed * each, 0, apart=s.zero > 0),
    }
