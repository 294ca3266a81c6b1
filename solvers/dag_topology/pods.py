"""The best strategy over circuits between pods: strategies by a common bound, each with its circuits.

What no strategy goes below in pods, whatever circuits join them: a time of every strategy of an instance.

The order of the passes of a strategy, with rates that no circuits exceed: what a pod sends to the stages before and
behind goes at most over all its ports, and so does what it sends round the ring of its replicas, of which it reduces
its own first. Weights come at once, gradients of ZeRO 3 take no time, nor do tokens between pods.

The best strategy over circuits between pods: strategies by a bound that all of them have, each with its circuits.

Strategies whose bound is no better than the best found need no look, so that the choice may be proven over all of the
space. Of the others one iteration is written as a graph whose circuits are chosen, the most promising first.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.dag_topology.branching import CLOSED, BoxLaws
from solvers.dag_topology.search import (
    CLOSE,
    MATRIX_METHODS,
    EarlyCircuits,
    FewestCircuits,
    compact,
    earliest_circuits,
    fewest_circuits,
)
from solvers.llm_training.strategies import columns_of_rows, rows_of_shape, shape_numbers, strategy_of, strategy_shapes
from solvers.stop import Incumbent, Stop, first_part
from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS, Floats, Ints
from topoopt.core.dag_topology import CircuitProof, DagTopologyProblem
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.llm_training import LlmTrainingProblem, PodSettings
from topoopt.core.llm_training_plan import (
    POD_CIRCUITS,
    FabricPlan,
    NetworkPlan,
    PlannedFabric,
    PodCandidate,
    PodClaims,
    PodDecisions,
    PodVerdict,
    RankedStrategy,
    StrategyShape,
    pods_certificates,
)
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.proofs import StopReason
from topoopt.core.result import SearchResult
from topoopt.simulate.dag import makespan, ordered_by_name
from topoopt.simulate.llm_training.costs import GroupRates, data_share, ledger, total_bytes
from topoopt.simulate.llm_training.ranks import PodSetting, pod_graph, program_of
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns
from topoopt.simulate.llm_training.times import GATHERED, REDUCED, StageParts, order_bounds, stage_parts

BLOCK = 1 << 14
"""Strategies whose bounds are computed together."""

ALL_SHARED = 3
"""ZeRO of weights that are gathered in every pass."""


BoundedStrategies = tuple[tuple[tuple[float, ParallelStrategy], ...], float, int]
"""Strategies that fit into memory, by what circuits cannot better.

(seconds, strategy) of those with the least bounds, ascending; bound of all others, infinite where there are none; count
of all that fit.
"""


def least_bounds(problem: LlmTrainingProblem, most: int, stop: Stop) -> BoundedStrategies | None:
    """Bounds of all strategies, and those with the least; None: a limit came.

    Args:
        most: how many of them.
    """
    kept: list[tuple[float, int, StrategyShape, Column]] = []
    count, rest_s = 0, np.inf
    for shapes, of_row, rows in _blocks(problem):
        if stop.reason() is not None:
            return None
        numbers = np.array([shape_numbers(shape) for shape in shapes])
        columns = columns_of_rows(problem, numbers[of_row], rows)
        usable = problem.usable_bytes
        held = total_bytes(ledger(problem, columns))
        fits = np.flatnonzero(np.ones(len(rows), dtype=bool) if usable is None else held <= usable)
        bounds = pod_bounds(problem, columns.rows(fits)) if len(fits) else np.zeros(0)
        own = [
            (value, count + index, shapes[of_row[fitting]], rows[fitting])
            for index, (value, fitting) in enumerate(zip(bounds.tolist(), fits.tolist(), strict=True))
        ]
        count += len(fits)
        kept = heapq.nsmallest(most + 1, [*kept, *own], key=lambda fitting: fitting[:2])
        if len(kept) > most:
            rest_s = min(rest_s, kept.pop()[0])
    least = tuple((value, strategy_of(problem, shape, row)) for value, _, shape, row in kept)
    return least, rest_s if count > most else np.inf, count


def _blocks(problem: LlmTrainingProblem) -> Iterator[tuple[list[StrategyShape], np.ndarray, Column]]:
    tables: dict[StrategyShape, Column] = {}
    shapes, parts, size = list[StrategyShape](), list[Column](), 0
    every = strategy_shapes(problem)
    for number, shape in enumerate(every):
        dense = replace(shape, expert=1, expert_tensor=1)  # how experts are divided changes nothing in the rows
        if dense not in tables:
            tables[dense] = rows_of_shape(problem, dense)
        shapes.append(shape)
        parts.append(tables[dense])
        size += len(parts[-1])
        if size >= BLOCK or (size and number == len(every) - 1):
            yield shapes, np.repeat(np.arange(len(shapes)), [len(part) for part in parts]), np.concatenate(parts)
            shapes, parts, size = [], [], 0


def pod_bounds(problem: LlmTrainingProblem, columns: StrategyColumns) -> Floats:
    pods = problem.pods
    assert pods is not None
    freed = replace(problem, overlap=replace(problem.overlap, data=True))
    return order_bounds(freed, columns, _parts(freed, columns, pods))


def _parts(problem: LlmTrainingProblem, columns: StrategyColumns, pods: PodSettings) -> StageParts:
    slow, whole = problem.cluster.slowdown, pods.ports * pods.circuit_gbps * BYTES_PER_MS_PER_GBPS * 1e3
    of_stage = columns.tensor * columns.context * columns.data
    rates = GroupRates.of(problem, columns)
    full = slow * whole / data_share(problem, columns.zero)  # circuits carry at their rate, groups at a share of theirs
    rates = replace(
        rates,
        data=full * _share(columns.replicas, columns.tensor, of_stage, pods.gpus),
        expert_data=full * _share(columns.expert_replicas, columns.expert, of_stage, pods.gpus),
    )
    parts = stage_parts(problem, columns, rates)
    seconds = parts.seconds
    seconds[:, :, GATHERED] = 0.0
    seconds[columns.zero >= ALL_SHARED, :, REDUCED] = 0.0
    tokens = 2.0 * columns.micro_batch * problem.batch.length / columns.context * problem.model.hidden
    sent = np.where(columns.sequence > 0, tokens / columns.tensor, tokens)
    return replace(
        parts,
        exchange=np.where((columns.expert > pods.gpus)[:, None], 0.0, parts.exchange),
        hop=np.where(columns.pipeline > 1, sent * pods.gpus / whole, 0.0),
    )


def _share(replicas: Column, holders: Column, of_stage: Column, gpus: int) -> Column:
    """Part of the rate of all ports of a pod at which a GPU would pass its gradients round all replicas, where those of
    its pod are reduced first and pods pass what they hold round a ring of their own.

    Args:
        replicas: GPUs that hold the same.
        holders: GPUs that hold one replica.
    """
    ring = np.where(holders > gpus, of_stage / np.maximum(holders, 1.0), of_stage / gpus)
    per_replica = (replicas - 1.0) / np.maximum(replicas, 1.0)
    together = np.maximum(1.0 - 1.0 / np.maximum(ring, 1.0), 0.0)
    return np.where(ring > 1.0, per_replica / np.where(ring > 1.0, together, 1.0) / np.minimum(holders, gpus), np.inf)


DEALT = ("volume", "proportional", "square-root", "equal")
"""Matrices whose circuits are quick to deal out, as starts."""

ROUNDING = 2e-9
"""Part by which a bound must be above the one that all strategies have, to stand there with its proof."""

MOST_STEPS = 200_000
"""Of a graph that is made: passes, and what they send."""

RatedCandidate = tuple[PodCandidate, PodVerdict, float, CircuitProof | None]
"""A candidate with its verdict, its bound in seconds, and the proof; None where the bound is that of all strategies."""


@dataclass(frozen=True, eq=False)
class PodRow:
    """A strategy in pods.

    Attributes:
        strategy: as ranks follow it.
        floor_s: no circuits make it faster, by the bound that all strategies have.
        graph: of one iteration, by names; None: it is too large, or crowded.
        crowded: a pod exchanges with more others than it has ports.
        dealt: best of the circuits that matrices deal out, and what an iteration takes over them.
        bound_s: no circuits make it faster; 0 where none were searched.
        early: circuits that were searched; None: none were.
    """

    strategy: ParallelStrategy
    floor_s: float
    graph: DagTopologyProblem | None = None
    crowded: bool = False
    dealt: Incumbent | None = None
    bound_s: float = 0.0
    early: EarlyCircuits | None = None

    @property
    def reached_s(self) -> float:
        """Over the best circuits known; infinite: there are none."""
        if self.early is not None:
            return self.early.best.value
        return math.inf if self.dealt is None else self.dealt.value

    def rated(self, value_s: float, proof: CircuitProof | None) -> RatedCandidate:
        """Return what a solution says of the strategy.

        Args:
            value_s: over the fastest circuits of the plan's strategy.
            proof: of the plan, where this is its strategy.
        """
        bare = PodCandidate(self.strategy)
        if self.crowded:
            return bare, "crowded", 0.0, None
        if self.early is None:
            if max(self.bound_s, self.floor_s) < value_s * (1 - CLOSE):
                return bare, "left", self.floor_s, None
            closed = CircuitProof((CLOSED,), 0, ()) if self.floor_s < value_s else None
            return bare, "slower", value_s, closed
        floor_only = self.bound_s <= self.floor_s * (1 + ROUNDING)  # nothing that needs a proof
        bound = min(self.floor_s if floor_only else self.bound_s, self.reached_s)
        searched, early = PodCandidate(self.strategy, tuple(self.early.best.circuits.tolist())), self.early
        if proof is None and not floor_only:
            proof = compact(CircuitProof(early.tree, 0, (), tuple(early.pool.paths), tuple(early.means)))
        return searched, "searched", bound, proof


def pod_row(problem: LlmTrainingProblem, strategy: ParallelStrategy, floor_s: float) -> PodRow:
    """A strategy with its graph and circuits dealt out by matrices."""
    settings = problem.pods
    assert settings is not None
    row = PodRow(strategy, floor_s)
    batches = problem.batch.sequences // (strategy.data * strategy.micro_batch)
    pods = strategy.gpus // settings.gpus
    if 6 * batches * strategy.chunks * pods > MOST_STEPS:  # a pass has no more, but for exchanges of tokens
        return row
    graph = iteration_graph(problem, strategy)
    degree = np.bincount(np.array(graph.pairs).ravel(), minlength=graph.pods)
    if degree.max() > settings.ports:
        return replace(row, crowded=True)
    laws = BoxLaws.of(graph)
    reached = []
    for name in DEALT:
        circuits = MATRIX_METHODS[name][1](laws)
        reached.append(Incumbent(makespan(laws.graph, circuits, laws.rate), circuits))
    return replace(row, graph=graph, dealt=min(reached, key=lambda option: option.value))


def iteration_graph(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> DagTopologyProblem:
    """Return one iteration between the pods of the instance, steps by their names."""
    settings = problem.pods
    assert settings is not None
    setting = PodSetting(settings.gpus, settings.ports, settings.circuit_gbps)
    graph = ordered_by_name(pod_graph(problem, program_of(problem, strategy), setting))
    return replace(graph, slack_percent=settings.slack_percent)


def searched(row: PodRow, cutoff_s: float, stop: Stop) -> PodRow:
    """With circuits of its own, as far as these can be faster than the best strategy known.

    Args:
        cutoff_s: what that one takes.
    """
    assert row.graph is not None
    assert row.dealt is not None
    if row.floor_s >= cutoff_s:
        return row
    laws = BoxLaws.of(row.graph)
    if math.isfinite(cutoff_s) and laws.narrowed(np.ones_like(laws.most), laws.most, cutoff_s) is None:
        return replace(row, bound_s=cutoff_s)
    early = earliest_circuits(row.graph, stop, cutoff=cutoff_s)
    if row.dealt.value < early.best.value:  # a limit came before the search was as far
        early = replace(early, best=row.dealt)
    return replace(row, bound_s=early.bound, early=early)


def by_volume(graph: DagTopologyProblem) -> tuple[float, Ints]:
    """Circuits by the matrix of volumes alone, and what an iteration takes over them."""
    laws = BoxLaws.of(graph)
    circuits = MATRIX_METHODS["volume"][1](laws)
    return makespan(laws.graph, circuits, laws.rate), circuits


def refuse_all_crowded(rows: Sequence[PodRow], settings: PodSettings, *, every: bool) -> None:
    """Some strategy has a graph whose pods have ports enough.

    Args:
        every: these are all that there are.

    Raises:
        InfeasibleError: none has.
        LimitError: none of those that were looked at has.
    """
    if any(row.graph is not None for row in rows):
        return
    count = f"{len(rows)} strategies" if len(rows) > 1 else "the one strategy looked at"
    if all(row.crowded for row in rows):
        text = f"a pod exchanges with more others than its {settings.ports} ports under each of {count}"
        if every:
            raise InfeasibleError(f"{text}: pods.ports: more, or pods of more GPUs")
        raise LimitError(f"{text}, and there are more: pods.strategies, pods.ports or time: more")
    text = f"an iteration has more than {MOST_STEPS} steps between pods, or pods too few ports, under each of {count}"
    raise LimitError(f"{text}: pods of more GPUs, or larger micro-batches")


CROWDED = 4
"""Strategies that may be crowded for each one asked for: so many more are looked at."""

GRAPH_SHARE = 0.3
"""Part of the time left for the graphs of strategies; the rest is for circuits."""


def best_in_pods(problem: LlmTrainingProblem, candidates: Iterable[RankedStrategy], stop: Stop) -> PlannedFabric:
    """Search strategies and circuits together.

    Args:
        candidates: strategies that pods hold; the first is the fastest on an ideal switch.

    Raises:
        InfeasibleError: a pod has too few ports under each of the strategies.
        LimitError: or under each of those that were looked at before a limit came.
    """
    settings = problem.pods
    assert settings is not None
    first = next(iter(candidates))
    bounded = least_bounds(problem, (1 + CROWDED) * settings.strategies, stop)
    least = bounded or ((), 0.0, 0)
    rows = _rows(problem, first, least, stop)
    refuse_all_crowded(rows, settings, every=bounded is not None and len(rows) >= least[2])
    best = _search_circuits(rows, stop)
    row = rows[best]
    assert row.graph is not None
    assert row.early is not None
    fewest = fewest_circuits(row.graph, row.early, stop)
    makespan_s = _seconds(row.graph, fewest[0])
    circuits, claims = _decided(rows, best, least, fewest)
    stopped_by = StopReason.CONVERGED
    if claims.bound_s(makespan_s) < row.reached_s * (1 - CLOSE) or fewest[2] is not StopReason.CONVERGED:
        stopped_by = stop.reason() or StopReason.BUDGET
    return SearchResult(
        plan=FabricPlan(row.strategy, NetworkPlan(POD_CIRCUITS), pods=circuits),
        certificates=pods_certificates(claims),
        stopped_by=stopped_by,
        method="branch-and-bound",
    ), makespan_s


def _rows(problem: LlmTrainingProblem, first: RankedStrategy, least: BoundedStrategies, stop: Stop) -> list[PodRow]:
    """The fastest on an ideal switch, what the others' gain is told by; then by bounds, as many as are asked for."""
    settings = problem.pods
    assert settings is not None
    floors = {strategy: value for value, strategy in least[0]}
    rows = [pod_row(problem, first.strategy, floors.get(first.strategy, 0.0))]
    held, part = int(rows[0].graph is not None), first_part(stop, GRAPH_SHARE, math.inf)
    reached = rows[0].reached_s
    for value, strategy in least[0]:
        if held >= settings.strategies or value >= reached or part.reason() is not None:
            break
        if strategy != first.strategy:
            rows.append(pod_row(problem, strategy, value))
            held += rows[-1].graph is not None
            reached = min(reached, rows[-1].reached_s)
    return rows


def _search_circuits(rows: list[PodRow], stop: Stop) -> int:
    """Give strategies circuits of their own, the first in any case, then the most promising; the place of the best."""
    able = [k for k, row in enumerate(rows) if row.graph is not None]
    order = sorted(able, key=lambda k: (k > 0, rows[k].reached_s, k))
    best = order[0]
    for done, k in enumerate(order):
        if done and stop.reason() is not None:
            break
        cutoff = rows[best].reached_s if done else math.inf
        part = first_part(stop, 1 / (len(order) - done + 1), math.inf)
        rows[k] = searched(rows[k], cutoff, part)
        if rows[k].early is not None and rows[k].reached_s < rows[best].reached_s:
            best = k
    return best


def _decided(
    rows: list[PodRow], best: int, least: BoundedStrategies, fewest: FewestCircuits
) -> tuple[PodDecisions, PodClaims]:
    """Return circuits and what is proven of them; strategies that the bound of all leaves out are no candidates."""
    value = rows[best].reached_s
    kept = [k for k in range(len(rows)) if k in (0, best) or rows[k].floor_s < value]
    kept.sort(key=lambda k: (rows[k].floor_s, k))
    listed = {rows[k].strategy for k in kept}
    others = min([least[1], *(floor for floor, strategy in least[0] if strategy not in listed)])
    circuits, proof, _ = fewest
    rated = [rows[k].rated(value, proof if k == best else None) for k in kept]
    return PodDecisions(tuple(circuits.tolist()), tuple(candidate for candidate, *_ in rated)), PodClaims(
        verdicts=tuple(verdict for _, verdict, *_ in rated),
        bounds_s=tuple(bound_s for *_, bound_s, _ in rated),
        rest_s=others if math.isfinite(others) else None,
        circuits_bound=proof.circuits_bound,
        proofs={number: own for number, (*_, own) in enumerate(rated) if own is not None},
    )


def _seconds(graph: DagTopologyProblem, circuits: Ints) -> float:
    laws = BoxLaws.of(graph)
    return float(makespan(laws.graph, circuits, laws.rate))
