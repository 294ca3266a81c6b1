"""Pods of GPUs joined by circuits: the graph of an iteration, constraints of the circuits, and proofs of their bounds.

A rank's part of the model is in pods r m to r m + m - 1. Of a bound that all strategies have: a pod sends no faster
than over all its ports at once, neither to the pods before and behind nor round the ring of its stage, in which pods
pass what they hold of the gradients once. Weights, rounds of ZeRO 3 and tokens between pods only delay.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.dag_topology import CircuitProof, DagTask, DagTopologyPlan, DagTopologyProblem, DagTransfer, Split
from topoopt.core.llm_training import LlmTrainingProblem, PodSettings
from topoopt.core.llm_training_plan import FabricPlan, PodClaims, PodDecisions
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.proofs import Tolerance
from topoopt.core.result import Decides
from topoopt.verify.checker import BeyondWorkError, CheckFindings, ViolationLog, WorkBudget, differs
from topoopt.verify.dag_topology import (
    SLACK_ROUNDING,
    Boxes,
    Means,
    circuit_ends,
    circuits_fit,
    close_boxes,
    follow,
    padding,
    ports_suffice,
)
from topoopt.verify.llm_training import costs
from topoopt.verify.llm_training.iteration import (
    Iteration,
    Pass,
    bounding_work,
    following_work,
    iteration_of,
    order_bounds,
    tables_of,
    within_work,
)
from topoopt.verify.llm_training.layers import Records, experts_of, records_of, row_in, shapes_of

SLACK = 1e-9
"""Part of a volume, a time or a bound that is rounding."""

RELATIVE = Tolerance.EVENTS.relative

WORDS = {"F": "forward", "J": "forward", "B": "backward", "I": "inputs", "W": "weights"}
PARTS = {"F": "F", "J": "F", "B": "IW", "I": "I", "W": "W"}

MAX_STEPS, MAX_ORDERED = 1_000_000, 90_000
"""Steps of a graph: some GB; steps of which each has a bit for each before it: a GB."""

STEP, FOLLOWED, BITS = 5.0, 0.2, 6_400.0
"""Events of a step of a graph that is written down, and followed for each pair of pods; bits read in an event."""


Step = tuple[int, int, float, frozenset[str]]
"""A transfer of bytes from pod to pod, or a task of seconds, whose ends are -1; names of what is before."""


def check_pod_graph(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, gpus: int, graph: DagTopologyProblem
) -> CheckFindings:
    """Return what in the graph of an iteration between pods of so many GPUs is not as the instance has it."""
    findings = ViolationLog()
    findings.guard("pods", "the graph", lambda: _check_graph(findings, problem, strategy, gpus, graph))
    return findings.findings()


def _check_graph(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    gpus: int,
    graph: DagTopologyProblem,
) -> None:
    held, experts = strategy.tensor * strategy.context, strategy.expert * strategy.expert_tensor
    if gpus % held or strategy.gpus // strategy.pipeline % gpus or (gpus % experts and experts % gpus):
        findings.add("pods", f"pods of {gpus} GPUs split groups, or do not divide a stage")
        return
    findings.hold("pods", ("pods", graph.pods, strategy.gpus // gpus), ("ports", len(set(graph.ports)), 1))
    expected, names = _Graph(problem, strategy, gpus).steps(), graph.names
    rows = [(move.source, move.target, move.volume, move.after) for move in graph.transfers]
    rows += [(-1, -1, task.duration, task.after) for task in graph.tasks]
    steps: dict[str, Step] = {
        name: (source, target, size, frozenset(names[k] for k in after))
        for name, (source, target, size, after) in zip(names, rows, strict=True)
    }
    for name in sorted(expected.keys() | steps.keys()):
        step, other = steps.get(name), expected.get(name)
        if step is None or other is None:
            findings.add("pods", f"the graph lacks {name!r}" if step is None else f"{name!r} is none of the iteration")
        elif (*step[:2], step[3]) != (*other[:2], other[3]) or differs(step[2], other[2], SLACK):
            findings.add("pods", f"{name!r} is {step}, not {other}")


def derived_graph(problem: LlmTrainingProblem, strategy: ParallelStrategy, pods: PodSettings) -> DagTopologyProblem:
    """Return the graph of an iteration; steps are numbered by their names, transfers first."""
    steps = _Graph(problem, strategy, pods.gpus).steps()
    names = sorted(steps, key=lambda name: (steps[name][0] < 0, name))
    number = {name: index for index, name in enumerate(names)}
    after = {name: tuple(sorted(number[before] for before in step[3])) for name, step in steps.items()}
    count = strategy.gpus // pods.gpus
    return DagTopologyProblem(
        name=problem.name,
        pods=count,
        ports=(pods.ports,) * count,
        rate=pods.circuit_gbps * 1e9 / 8,
        transfers=tuple(DagTransfer(name, *steps[name][:3], after[name]) for name in names if steps[name][0] >= 0),
        tasks=tuple(DagTask(name, steps[name][2], after[name]) for name in names if steps[name][0] < 0),
        slack_percent=pods.slack_percent,
    )


@dataclass
class _Graph:
    """Steps of all pods."""

    problem: LlmTrainingProblem
    strategy: ParallelStrategy
    gpus: int
    table: dict[str, Step] = field(default_factory=dict)

    def steps(self) -> dict[str, Step]:
        s = self.strategy
        self.parts = s.gpus // s.pipeline // self.gpus
        self.spread = max(1, s.expert * s.expert_tensor // self.gpus)
        self._costs()
        orders = self.iteration.orders()
        self.home = {stage: rank for rank, order in enumerate(orders) for _, _, stage in order}
        ends = [name for rank, order in enumerate(orders) for name in self._rank(rank, order)]
        step = [sum(self.step_s[s] for s, home in self.home.items() if home == rank) for rank in range(s.pipeline)]
        self._add("optimizer", max(step) + costs.fixed_seconds(self.problem), ends)
        return self.table

    def _add(self, name: str, size: float, after: Iterable[str], source: int = -1, target: int = -1) -> str:
        self.table[name] = source, target, size, frozenset(after)
        return name

    def _costs(self) -> None:
        """Take seconds of passes without what crosses to other pods, and bytes, of every stage."""
        problem, s = self.problem, self.strategy
        self.iteration = iteration_of(problem, s)
        r, rows = self.iteration.r, self.iteration.usual
        ideal = costs.ideal_rates(problem, r)
        away = rows.parts["expert"] / 2 * (self.spread > 1)
        local = (rows.forward - away, rows.inputs - away, rows.weights)
        self.seconds = {kind: row[:, 0].tolist() for kind, row in zip("FIW", local, strict=True)}
        self.hop_bytes, self.step_s = float(costs.hop_of(problem, r, ideal)[0][0]), rows.step[:, 0].tolist()
        self.reduced, self.gathered = dict[str, list[float]](), dict[str, list[float]]()
        held = s.tensor, s.expert * s.expert_tensor
        for kind, moved, ranks, shares in zip(("dense", "experts"), rows.moved, r.sharers, held, strict=True):
            # Of the bytes of a GPU the part 1 - 1/n goes round a ring of n; with ZeRO 3 weights are gathered twice.
            part = 1 - 1 / max(1.0, float(ranks[0]))
            for sizes, bytes_, times in ((self.reduced, moved[0], 1), (self.gathered, moved[1], 1 + (s.zero == 3))):
                scale = min(shares, self.gpus) / times / part if part else 0.0
                sizes[kind] = [value * scale for value in bytes_[:, 0].tolist()]
        self.tokens = [0.0] * len(s.stage_layers)
        for layer_kind, layers in zip(problem.model.kinds, rows.kinds, strict=True):
            experts = experts_of(layer_kind)
            if experts is None or s.expert == 1:
                continue
            width = (experts.latent or problem.model.hidden) / problem.model.hidden
            token = self.hop_bytes * width / 2 / (1 if s.sequence else s.tensor) * experts.per_token
            token *= 3.0 if problem.formats.fp8_dispatch else 4.0
            self.tokens = [sum_ + token * count for sum_, count in zip(self.tokens, layers[:, 0].tolist(), strict=True)]

    def _rank(self, rank: int, order: Sequence[Pass]) -> list[str]:
        pods = range(rank * self.parts, (rank + 1) * self.parts)
        behind: dict[int, set[str]] = {pod: set() for pod in pods}
        closing = {stage: at for at, (kind, _, stage) in enumerate(order) if kind in ("B", "W")}
        in_all, met, reduced = self.strategy.zero == 3, set[int](), set[str]()
        for at, (kind, i, stage) in enumerate(order):
            word = f"{WORDS[kind]} {i}.{stage}"
            if kind != "W" and (in_all or stage not in met):
                after = set[str]().union(*behind.values()) if in_all else set[str]()
                for pod, names in self._rings(f"weights {word}", pods, self.gathered, stage, after).items():
                    behind[pod] = behind[pod] | names
            met.add(stage)
            took = sum(self.seconds[part][stage] for part in PARTS[kind])
            for pod in pods:
                came = self._came(rank, kind, i, stage, pod - pods[0])
                behind[pod] = {self._add(f"{word} pod {pod}", took, behind[pod] | came)}
            if kind != "W":
                self._exchange(word, stage, pods, behind)
                self._send(rank, kind, i, stage, behind)
            if kind in ("B", "W") and (in_all or closing[stage] == at):
                name = f"gradients {stage}.{i}" if in_all else f"gradients {stage}"
                after = set[str]().union(*behind.values())
                reduced.update(*self._rings(name, pods, self.reduced, stage, after).values())
        return sorted(reduced.union(*behind.values()))

    def _came(self, rank: int, kind: str, i: int, stage: int, part: int) -> set[str]:
        source = stage - 1 if kind in "FJ" else stage + 1
        if kind == "W" or source not in self.home or self.home[source] == rank:
            return set()
        return {f"{'activations' if kind in 'FJ' else 'errors'} {i}.{source} part {part}"}

    def _send(self, rank: int, kind: str, i: int, stage: int, behind: dict[int, set[str]]) -> None:
        holder = self.home.get(stage + 1 if kind in "FJ" else stage - 1, rank)
        if holder == rank:
            return
        for part, pod in enumerate(list(behind)):
            name = f"{'activations' if kind in 'FJ' else 'errors'} {i}.{stage} part {part}"
            self._add(name, self.hop_bytes * self.gpus, behind[pod], pod, holder * self.parts + part)
            if not self.problem.overlap.pipeline:
                behind[pod] = {name}

    def _exchange(self, word: str, stage: int, pods: range, behind: dict[int, set[str]]) -> None:
        volume = self.tokens[stage] * self.gpus / self.spread
        if self.spread == 1 or not volume:
            return
        came: dict[int, set[str]] = {pod: set() for pod in pods}
        for a, b in itertools.permutations(pods, 2):
            if (a - pods[0]) // self.spread == (b - pods[0]) // self.spread:
                came[b].add(self._add(f"tokens {word} {a}-{b}", volume, behind[a], a, b))
        for pod in pods:
            behind[pod] = behind[pod] | came[pod]

    def _rings(
        self, name: str, pods: range, sizes: dict[str, list[float]], stage: int, after: set[str]
    ) -> dict[int, set[str]]:
        waits: dict[int, set[str]] = {pod: set() for pod in pods}
        for kind, size in sizes.items():
            apart = self.spread if kind == "experts" else 1
            for first in range(apart if size[stage] else 0):
                ring = pods[first::apart]
                n = len(ring)
                if n < 2:
                    continue
                begun = self._add(f"{name} {kind} {first} ready", 0.0, after)
                volume = size[stage] * (n - 1) / n / (1 if n == 2 else 2)
                names = {
                    self._add(f"{name} {kind} {first} {pod}-{other}", volume, [begun], pod, other)
                    for k, pod in enumerate(ring)
                    for other in {ring[(k + 1) % n], ring[k - 1]}
                }
                for pod in ring:
                    waits[pod] |= names
        return waits


def _graph_work(problem: LlmTrainingProblem, s: ParallelStrategy, gpus: int) -> float:
    parts, spread = s.gpus // s.pipeline // gpus, max(1, s.expert * s.expert_tensor // gpus)
    passes = 2.0 * (problem.batch.sequences // (s.data * s.micro_batch)) * s.pipeline * s.chunks * parts
    steps = passes * (2 + (spread if spread > 1 else 0) + (4 if s.zero == 3 else 0))
    return STEP * steps if steps <= MAX_STEPS else math.inf


def pod_seconds(problem: LlmTrainingProblem, r: Records) -> Floats:
    """Return cheap bounds of iterations over whatever circuits, float64[R]."""
    hidden = _hidden(problem)
    return order_bounds(hidden, r, lambda part, layers: _pod_rows(hidden, part, layers))


def pod_floor(problem: LlmTrainingProblem, r: Records) -> float:
    """Return what an iteration of one strategy is not below over whatever circuits: its passes are followed."""
    iteration = Iteration(_hidden(problem), r)
    iteration.rows = _pod_rows(iteration.problem, r, costs.layers_of(problem, r, iteration.p, iteration.v))
    return iteration.seconds()


def _hidden(problem: LlmTrainingProblem) -> LlmTrainingProblem:
    return replace(problem, overlap=replace(problem.overlap, data=True))


def _pod_rows(hidden: LlmTrainingProblem, r: Records, layers: Floats) -> costs.StageRows:
    """Return stages whose hops and rings of gradients go over all ports of a pod at once."""
    pods, of_stage = hidden.pods, r.t * r.c * r.d
    assert pods is not None
    all_ports = pods.ports * pods.circuit_gbps * 1e9 / 8
    reached = hidden.device.reached
    taken = np.where(r.zero == 3, reached.gather, reached.data)  # hidden, of rates of groups; circuits carry at theirs

    def rate(ranks: Floats, holders: Floats) -> Floats:
        others = of_stage / np.maximum(holders, pods.gpus)  # pods that pass these round
        lonely = others < 1.5
        share = (1.0 - 1.0 / np.maximum(ranks, 1.0)) / np.where(lonely, 1.0, 1.0 - 1.0 / np.maximum(others, 1.5))
        once = np.minimum(holders, pods.gpus)  # GPUs of a pod that hold different parts
        return np.where(lonely, np.inf, hidden.cluster.slowdown * all_ports * share / once / taken)

    (dense, experts), ideal = r.sharers, costs.ideal_rates(hidden, r)
    rates = replace(ideal, data=rate(dense, r.t), expert_data=rate(experts, r.x * r.y))
    rows = costs.stage_rows(hidden, r, layers, rates)
    away = np.where(r.x > pods.gpus, rows.parts["expert"] / 2, 0.0)
    hop = costs.hop_of(hidden, r, ideal)[0] * pods.gpus
    return replace(
        rows,
        forward=rows.forward - away,
        inputs=rows.inputs - away,
        gathered=np.zeros_like(rows.gathered),
        reduced=np.where(r.zero == 3, 0.0, rows.reduced),
        hop=np.where(r.p > 1, hop / all_ports, 0.0),
    )


def _held(findings: ViolationLog, graph: DagTopologyProblem, counts: Sequence[int], where: str) -> bool:
    plan = DagTopologyPlan(np.array(counts))
    for code, constraint in (("circuits", circuits_fit), ("ports", ports_suffice)):
        texts = list(constraint(graph, plan))
        for text in texts:
            findings.add(code, f"{where}: {text}")
        if texts:
            return False
    return True


def check_pods(
    findings: ViolationLog, problem: LlmTrainingProblem, plan: FabricPlan, fastest: ParallelStrategy,
    claims: PodClaims, budget: WorkBudget,
) -> float | None:  # fmt: skip
    """Check circuits between pods: constraints, the value over them, and the proofs of every candidate.

    Args:
        fastest: strategy on an ideal switch.
        claims: of the certificates.

    Returns:
        Seconds of an iteration over the circuits of the plan; None: the plan breaks constraints, or takes too much
        work.
    """
    settings, decisions = problem.pods, plan.pods
    if settings is None or decisions is None:
        findings.add("pods", "the instance does not say what pods are")
        return None
    strategies = [candidate.strategy for candidate in decisions.candidates]
    for strategy in (plan.strategy, fastest):
        if strategy not in strategies:
            findings.add("pods", "the strategy of the plan, or the fastest on an ideal switch, is no candidate")
            return None
    if len(claims.verdicts) != len(strategies):
        findings.add("certificate", f"{len(claims.verdicts)} verdicts of {len(strategies)} candidates")
        return None
    best, first = strategies.index(plan.strategy), strategies.index(fastest)
    checks = PodChecks(findings, problem, settings, decisions, claims, best, first, budget)
    checks.check_padding()
    if not findings.clean:
        return None
    within_work(findings, "circuits of the plan", checks.plan_circuits, Decides.VALUE)
    if checks.took is None:
        if findings.clean:
            findings.leave_out("strategies in pods", "an iteration of the plan was not followed", Decides.BOUND)
        return None
    within_work(findings, "strategies in pods", checks.check_candidates, Decides.BOUND)
    within_work(findings, "others in pods", checks.check_others, Decides.BOUND)
    within_work(findings, "the least number of circuits", checks.fewest)
    return checks.took


@dataclass
class PodChecks:
    """Circuits of a plan and proofs of all candidates, within the work of a check.

    Attributes:
        best, first: index of the strategy of the plan among the candidates, and of the fastest on an ideal switch.
        took: seconds over the circuits of the plan; None: not sound, or not followed.
        least: seconds over the fastest circuits of its strategy.
    """

    findings: ViolationLog
    problem: LlmTrainingProblem
    settings: PodSettings
    decisions: PodDecisions
    claims: PodClaims
    best: int
    first: int
    budget: WorkBudget
    took: float | None = None
    least: float = math.inf
    graphs: dict[int, DagTopologyProblem] = field(default_factory=dict)

    def proof(self, number: int) -> CircuitProof:
        """Return the proof of a candidate, which may be empty."""
        return self.claims.proofs.get(number, CircuitProof((), 0, ()))

    def check_padding(self) -> None:
        """Check that there is nothing that no strategy needs: sizes only, before any work."""
        needless = []
        for number, proof in self.claims.proofs.items():
            trees = {"makespan_tree": proof.makespan_tree, "circuits_tree": proof.circuits_tree}
            needless += [f"candidates[{number}]: {text}" for text in padding(trees, proof.paths, proof.means)]
            if proof.circuits_tree and number != self.best:
                needless.append(f"candidates[{number}]: a tree of circuits, where only the plan has one")
        searched = sum(verdict in ("searched", "slower") for verdict in self.claims.verdicts)
        if searched > self.settings.strategies + 1:
            limit = self.settings.strategies
            needless.append(f"{searched} strategies have circuits, at most {limit} and the first one may")
        self.findings.add_each("certificate", range(len(needless)), needless.__getitem__)

    def check_others(self) -> None:
        """Check that no strategy that fits and is no candidate may be faster than the certificate says."""
        problem, rest_s = self.problem, self.claims.rest_s
        rows_of_candidates = {row_in(problem, candidate.strategy) for candidate in self.decisions.candidates}
        limit = np.inf if rest_s is None else rest_s * (1 - SLACK)
        usable = np.inf if problem.usable_bytes is None else problem.usable_bytes
        for rows, _ in tables_of(problem, shapes_of(problem)):
            self.budget.take(2 * bounding_work(records_of(rows)))
            table = rows[costs.held_by(problem, records_of(rows)) <= usable]
            bounds = pod_seconds(problem, records_of(table))
            for k in np.flatnonzero(bounds < limit):
                if tuple(table[k].tolist()) not in rows_of_candidates and (floor := self.floor(table[k])) < limit:
                    text = f"a strategy of {floor!r} s is no candidate, others are claimed to take {rest_s!r} s"
                    self.findings.add("certificate", text)
                    return

    def floor(self, row: Floats | tuple[float, ...]) -> float:
        """Return what a strategy is not below over whatever circuits."""
        r = records_of([tuple(row)])
        self.budget.take(following_work(self.problem, r))
        return pod_floor(self.problem, r)

    def graph(self, number: int) -> DagTopologyProblem:
        """Return the graph of a candidate; only that of the plan is retained.

        Raises:
            BeyondWorkError: it is too large.
        """
        if number not in self.graphs:
            strategy, settings = self.decisions.candidates[number].strategy, self.settings
            self.budget.take(_graph_work(self.problem, strategy, settings.gpus))
            self.graphs = {k: graph for k, graph in self.graphs.items() if k == self.best}
            self.graphs[number] = derived_graph(self.problem, strategy, settings)
        return self.graphs[number]

    def follow(self, graph: DagTopologyProblem, counts: Sequence[int]) -> float:
        """Return the seconds of an iteration over circuits.

        Raises:
            BeyondWorkError: it has too many steps.
        """
        self.budget.take(len(graph.after) * (1 + FOLLOWED * len(graph.pairs)))
        return max(follow(graph, counts)[1])

    def fewest(self) -> None:
        """Check that no fewer circuits do an iteration within the slack."""
        bound, total = self.claims.circuits_bound, sum(self.decisions.circuits)
        if not 0 <= bound <= total:
            self.findings.add("bound", f"{total} circuits are fewer than are claimed to be needed")
        elif self.findings.clean:
            limit, tree = self.slack(self.least) * (1 + SLACK_ROUNDING), self.proof(self.best).circuits_tree
            self.close(f"fewer than {bound} circuits are not excluded", self.best, limit, tree, bound)

    def close(self, text: str, number: int, target: float, tree: Sequence[Split], fewest: int | None = None) -> None:
        """Close the boxes of a tree of a candidate: none is done before the target, or none with fewer circuits."""
        graph, budget = self.graph(number), self.budget
        means = self._means(graph, self.proof(number))
        try:
            close_boxes(Boxes(graph, target), tree, means, lambda counts: self.follow(graph, counts), budget, fewest)
        except ValueError as error:
            self.findings.add("bound", f"{text}: {error}")

    def _means(self, graph: DagTopologyProblem, proof: CircuitProof) -> Means:
        """Spend what it takes to look up paths, each step against all before it, and to add up means."""
        steps, paths, means = len(graph.after), proof.paths, proof.means
        if means and steps > MAX_ORDERED:
            raise BeyondWorkError(f"the order of {steps} steps is more than this check looks at")
        groups, weights = sum(len(group) for path in paths for group in path), sum(len(mean.weights) for mean in means)
        ordered = (steps if means else 0) * steps / BITS
        self.budget.take(ordered + groups * (1 + steps / BITS) + weights * len(graph.pairs))
        return Means(graph, paths, means)

    def slack(self, fastest_s: float) -> float:
        """Return the seconds within which no fewer circuits do an iteration."""
        return fastest_s * (1 + self.settings.slack_percent / 100)

    def plan_circuits(self) -> None:
        """Check the circuits of the plan, and follow an iteration over them."""
        if self.claims.verdicts[self.best] != "searched":
            self.findings.add("pods", "the strategy of the plan has no circuits that were searched")
            return
        graph, fastest = self.graph(self.best), self.decisions.candidates[self.best].circuits
        circuits = {"circuits": self.decisions.circuits, f"candidates[{self.best}]": fastest}
        sound = [_held(self.findings, graph, row, name) for name, row in circuits.items()]
        if not all(sound):
            return
        took, self.least = self.follow(graph, self.decisions.circuits), self.follow(graph, fastest)
        if took > self.slack(self.least) * (1 + RELATIVE):
            self.findings.add("slack", f"an iteration takes {took!r} s, {self.least!r} over the fastest circuits")
        self.took = took

    def check_candidates(self) -> None:
        records = records_of([row_in(self.problem, candidate.strategy) for candidate in self.decisions.candidates])
        self.budget.take(bounding_work(records))
        for number, floor in enumerate(pod_seconds(self.problem, records).tolist()):
            self._check_candidate(number, floor)

    def _check_candidate(self, number: int, floor: float) -> None:
        candidate, add = self.decisions.candidates[number], self.findings.add
        where, proof = f"candidates[{number}]", self.proof(number)
        verdict, bound_s = self.claims.verdicts[number], self.claims.bounds_s[number]
        above = bound_s > self.floor(row_in(self.problem, candidate.strategy)) * (1 + SLACK)
        graph = None if verdict == "left" else self.graph(number)
        crowded = graph is not None and max(circuit_ends(graph, [1] * len(graph.pairs))) > self.settings.ports
        searched = verdict == "searched"
        bounds = {"crowded": 0.0, "slower": self.least}
        closed = searched or verdict == "slower"
        has_proof = bool(proof.makespan_tree or proof.paths or proof.means)
        needless = has_proof and not (bound_s > floor * (1 + SLACK) and closed)
        for wrong, text in (
            (
                number not in (self.best, self.first) and floor > self.least * (1 + SLACK),
                "the bound of all says enough",
            ),
            (needless and number != self.best, "a proof of nothing"),
            ((verdict == "crowded") != crowded, f"{verdict}, with ports for all others: {not crowded}"),
            (
                differs(bound_s, bounds.get(verdict, bound_s), SLACK) or (verdict == "left" and above),
                f"{verdict} with a bound of {bound_s!r} s",
            ),
            (searched != bool(candidate.circuits), f"circuits, and {verdict}"),
        ):
            if wrong:
                add("certificate", f"{where}: {text}")
        if crowded or graph is None:
            return
        if searched and _held(self.findings, graph, candidate.circuits, where):
            took = self.follow(graph, candidate.circuits)
            if took < self.least * (1 - RELATIVE):
                add("pods", f"{where}: an iteration takes {took!r} s, with the strategy of the plan {self.least!r}")
        if above:
            self.close(f"{where}: {bound_s!r} s is not proven", number, bound_s, proof.makespan_tree)
