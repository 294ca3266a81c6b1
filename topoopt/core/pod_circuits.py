"""A plan of pods of GPUs joined by circuits that stay for a whole iteration, and what proves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Le, Len
from numpy.typing import NDArray

from topoopt.core.dag_topology import CircuitProof, PathMean, Split, StepPath
from topoopt.core.data import STRICT
from topoopt.core.llm_training import PodSettings
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate
from topoopt.core.shown import Shown

MAX_PODS = 1024
MAX_PORTS = 4096
MAX_PAIRS = MAX_PODS * (MAX_PODS - 1) // 2
MAX_STRATEGIES = 1000
MAX_CANDIDATES = 5 * MAX_STRATEGIES + 1

Counts = Annotated[tuple[Annotated[int, Ge(1), Le(MAX_PORTS)], ...], Len(0, MAX_PAIRS)]
"""Circuits of each pair of pods that something is sent between, in ascending order of the pairs."""


class PodVerdict(StrEnum):
    """What is known of a strategy in pods."""

    SEARCHED = "searched"  # its circuits were, to the end or as far as limits allowed
    SLOWER = "slower"  # no circuits make it faster than the plan
    CROWDED = "crowded"  # a pod exchanges with more others than it has ports
    LEFT = "left"  # nothing but the bound that all strategies have


@dataclass(frozen=True, repr=False)
class PodCircuits(Shown):
    """Circuits between pods.

    Attributes
    ----------
    settings : of the instance.
    pods : n; pod = stage x pods of a stage + index.
    links : pod, pod with a larger number, circuits; ascending.
    """

    settings: PodSettings
    pods: int
    links: tuple[tuple[int, int, int], ...]

    @property
    def ports_used(self) -> tuple[int, ...]:
        """Of each pod."""
        used = [0] * self.pods
        for tail, head, count in self.links:
            used[tail] += count
            used[head] += count
        return tuple(used)

    @property
    def ports_saved(self) -> tuple[int, ...]:
        """Of each pod, those that no circuit ends at."""
        return tuple(self.settings.ports - used for used in self.ports_used)


@dataclass(frozen=True)
class PodCandidate:
    """A strategy that was considered in pods."""

    __pydantic_config__ = STRICT

    strategy: ParallelStrategy
    """with the layers of its chunks"""
    circuits: Counts = ()
    """with which an iteration is fastest; empty: none were searched"""


@dataclass(frozen=True, eq=False, repr=False)
class PodDecisions(Shown):
    """Circuits between pods, for the strategy of a plan and for the others that were considered."""

    __pydantic_config__ = STRICT

    circuits: Counts
    """of the plan, within the slack of the instance"""
    candidates: Annotated[tuple[PodCandidate, ...], Len(1, MAX_CANDIDATES)]
    """by the bound that all strategies have, the least first; the strategy of the plan is among them"""


@dataclass(frozen=True, eq=False, repr=False)
class PodClaims(Shown):
    """What certificates claim of strategies in pods.

    Attributes
    ----------
    verdicts, bounds_s : of each candidate; of a slower one the time over the fastest circuits of the plan, of one left
        the bound that all strategies have, of a crowded one 0.
    rest_s : no strategy that is no candidate is faster; None: there is none.
    circuits_bound : no fewer circuits do an iteration of the plan within the slack.
    proofs : by candidate; that of the strategy of the plan has a tree of circuits, too.
    """

    verdicts: tuple[PodVerdict, ...]
    bounds_s: tuple[float, ...]
    rest_s: float | None
    circuits_bound: int
    proofs: dict[int, CircuitProof]

    def candidates_bound_s(self, makespan_s: float) -> float:
        """No candidate is faster, over any circuits."""
        rows = zip(self.verdicts, self.bounds_s, strict=True)
        return min([makespan_s, *(bound for verdict, bound in rows if verdict is not PodVerdict.CROWDED)])

    def bound_s(self, makespan_s: float) -> float:
        """No strategy of the space is faster, over any circuits."""
        least = self.candidates_bound_s(makespan_s)
        return least if self.rest_s is None else min(least, self.rest_s)


POD_VERDICTS = tuple(PodVerdict)


def pods_certificates(claims: PodClaims) -> tuple[Certificate, ...]:
    """Return what is claimed of all candidates, then a proof of each that has one."""
    arrays: dict[str, NDArray[Any]] = {
        "pod_verdicts": np.array([POD_VERDICTS.index(verdict) for verdict in claims.verdicts], dtype=np.int64),
        "pod_bounds_s": np.array(claims.bounds_s, dtype=np.float64),
        "rest_s": np.array([] if claims.rest_s is None else [claims.rest_s], dtype=np.float64),
        "circuits_bound": np.array([claims.circuits_bound], dtype=np.int64),
    }
    proofs = [_proof_certificate(candidate, proof) for candidate, proof in claims.proofs.items()]
    return (Certificate(Argument.POD_CIRCUITS, arrays), *proofs)


def pod_claims(certificates: Sequence[Certificate]) -> PodClaims:
    """Return what is claimed of strategies in pods.

    Raises
    ------
    ValueError
        There is no such certificate, or its arrays do not fit together.
    """
    first = next((c for c in certificates if "pod_verdicts" in c.arrays), None)
    if first is None:
        raise ValueError("no certificate of circuits between pods")
    numbers, rest = first["pod_verdicts"].tolist(), first["rest_s"].tolist()
    if not all(number in range(len(POD_VERDICTS)) for number in numbers) or len(first["circuits_bound"]) != 1:
        raise ValueError("verdicts of pods that do not exist, or more than one bound on circuits")
    count = int(first["circuits_bound"][0])
    proofs = {int(c["candidate"][0]): _proof(c, count) for c in certificates if "candidate" in c.arrays}
    if len(numbers) != len(first["pod_bounds_s"]) or len(rest) > 1 or not all(k in range(len(numbers)) for k in proofs):
        raise ValueError("as many verdicts as bounds, one bound of the rest at most, proofs of candidates alone")
    return PodClaims(
        tuple(POD_VERDICTS[int(number)] for number in numbers),
        tuple(float(bound) for bound in first["pod_bounds_s"]),
        float(rest[0]) if rest else None,
        count,
        proofs,
    )


def _proof_certificate(candidate: int, proof: CircuitProof) -> Certificate:
    groups = [group for path in proof.paths for group in path]
    weights = [row for mean in proof.means for row in mean.weights]
    arrays: dict[str, NDArray[Any]] = {
        "candidate": np.array([candidate], dtype=np.int64),
        "makespan_tree": np.array(proof.makespan_tree, dtype=np.int64).ravel(),
        "circuits_tree": np.array(proof.circuits_tree, dtype=np.int64).ravel(),
        "steps": np.array([step for group in groups for step in group], dtype=np.int64),
        "group_sizes": np.array([len(group) for group in groups], dtype=np.int64),
        "path_sizes": np.array([len(path) for path in proof.paths], dtype=np.int64),
        "weight_paths": np.array([path for path, _ in weights], dtype=np.int64),
        "weights": np.array([weight for _, weight in weights], dtype=np.float64),
        "mean_sizes": np.array([len(mean.weights) for mean in proof.means], dtype=np.int64),
        "prices": np.array([price for mean in proof.means for price in mean.prices], dtype=np.float64),
    }
    return Certificate(Argument.POD_CIRCUITS, arrays)


def _proof(certificate: Certificate, circuits_bound: int) -> CircuitProof:
    def tree(name: str) -> tuple[Split, ...]:
        return tuple((int(pair), int(count)) for pair, count in certificate[name].reshape(-1, 2))

    def cut(items: list[Any], name: str) -> list[list[Any]]:
        sizes = certificate[name].tolist()
        if any(size < 0 or size != int(size) for size in sizes) or sum(sizes) != len(items):
            raise ValueError(f"{name} do not sum to the number of what they divide")
        bounds = [0, *np.cumsum(sizes, dtype=np.int64).tolist()]
        return [items[low:high] for low, high in pairwise(bounds)]

    groups = [tuple(map(int, group)) for group in cut(certificate["steps"].tolist(), "group_sizes")]
    paths: tuple[StepPath, ...] = tuple(tuple(path) for path in cut(groups, "path_sizes"))
    rows = list(zip(map(int, certificate["weight_paths"]), map(float, certificate["weights"]), strict=True))
    weights, prices = cut(rows, "mean_sizes"), [float(price) for price in certificate["prices"]]
    pods, rest = divmod(len(prices), len(weights)) if weights else (0, len(prices))
    if rest:
        raise ValueError("prices of as many pods for each mean")
    means = tuple(PathMean(tuple(row), tuple(prices[k * pods : (k + 1) * pods])) for k, row in enumerate(weights))
    return CircuitProof(tree("makespan_tree"), circuits_bound, tree("circuits_tree"), paths, means)
