"""Figures that follow from the plan of a job; each is computed when it is first read, and none is stored."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from topoopt.core.arrays import Floats, Ints, bytes_per_ms
from topoopt.core.cluster import Cluster, LinkSharing
from topoopt.core.errors import InputError, Problem
from topoopt.core.job import Baseline, Breakdown, CoOptimisation, Evaluation, FabricChoice, JobPlan, OperatorChoice
from topoopt.core.price_book import FabricPrices, PriceBook
from topoopt.core.proofs import Status
from topoopt.core.result import Columns, Objective, Result, links_of, listed
from topoopt.core.workload import GRADIENT_BYTES, Demand, Strategy, TaskGraph, Workload, strided_groups
from topoopt.costs import SimulatedFabric, default_price_book, fabric_prices
from topoopt.page.text import milliseconds, percent
from topoopt.simulate.fabrics import FABRICS, FabricOptions, options_of, plan_network
from topoopt.simulate.network import build_task_graph, demand_of
from topoopt.simulate.time_models.evaluate import evaluate, simulate
from topoopt.verify.checker import ViolationLog
from topoopt.verify.job.plan import check_strategy

TIME_MODEL = "rounds"
FAT_TREE, IDEAL, GRAPH = "fat-tree", "ideal-switch", "random-regular"
QUANTILES = (("p50", 0.5), ("p99", 0.99))

JobResult = Result[CoOptimisation, JobPlan]


@dataclass(frozen=True, eq=False)
class JobFigures:
    """The figures of a plan; bytes and utilisation are by arc of its topology."""

    problem: CoOptimisation
    plan: JobPlan

    @property
    def cluster(self) -> Cluster:
        """The cluster, its links shared as the plan has it."""
        return self._shared.cluster

    @cached_property
    def _shared(self) -> CoOptimisation:
        return self.problem.shared_as(self.plan.link_sharing)

    @property
    def workload(self) -> Workload:
        """The model with its global batch."""
        return self.problem.workload

    @cached_property
    def graph(self) -> TaskGraph:
        """Tasks of an iteration.

        Raises:
            InputError: The plan is for another cluster or workload.
        """
        if self.plan.topology.servers != self.cluster.servers:
            raise InputError([Problem("the plan is for another number of servers", path="plan.topology")])
        _require_legal(self.problem, self.plan.strategy, "plan.strategy")
        return build_task_graph(self.cluster, self.workload, self.plan.strategy)

    @cached_property
    def evaluation(self) -> Evaluation:
        """The simulated iteration.

        Raises:
            InputError: A route, a ring or a link is missing.
        """
        try:
            return evaluate(self.graph, plan_network(self.cluster, self.plan), TIME_MODEL)
        except ValueError as error:
            raise InputError([Problem(f"the plan cannot be simulated: {error}", path="plan")]) from error

    @property
    def objective(self) -> Objective:
        """The iteration time, ms, as simulated."""
        return Objective("iteration_time", self.evaluation.iteration_time_ms, "ms")

    @cached_property
    def demand(self) -> Demand:
        """What the strategy asks of the network."""
        return demand_of(self.graph)

    @cached_property
    def operators(self) -> tuple[OperatorChoice, ...]:
        """What the strategy does with every operator."""
        strategy, workload, n = self.plan.strategy, self.workload, self.cluster.servers
        _require_legal(self.problem, strategy, "plan.strategy")
        choices = []
        for index, (operator, placement) in enumerate(zip(workload.operators, strategy.placements, strict=True)):
            split = operator.splits[placement.split]
            choices.append(
                OperatorChoice(
                    name=operator.name,
                    kind=operator.kind,
                    split=split.label,
                    servers=strategy.servers(workload, index, n),
                    forward_ms=split.forward_ms,
                    backward_ms=split.backward_ms,
                    weight_bytes=GRADIENT_BYTES * sum(operator.weight_elements),
                    memory_bytes=split.server_memory_bytes,
                )
            )
        return tuple(choices)

    @property
    def breakdown(self) -> Breakdown:
        """Of the iteration time, along the critical path."""
        return Breakdown.along(self.evaluation.critical_path, self.evaluation.iteration_time_ms)

    @cached_property
    def gpu_memory_bytes(self) -> float:
        """Memory that a GPU of the fullest server needs, the parts of a server spread over its GPUs evenly."""
        needed = [0] * self.cluster.servers
        for operator in self.operators:
            for server in operator.servers:
                needed[server] += operator.memory_bytes
        return max(needed) / self.cluster.gpus_per_server

    @cached_property
    def busiest_server_compute_ms(self) -> float:
        """Compute time of the server that computes longest."""
        spent = [0.0] * self.cluster.servers
        for operator in self.operators:
            for server in operator.servers:
                spent[server] += operator.forward_ms + operator.backward_ms
        return max(spent)

    @cached_property
    def link_utilisation(self) -> Floats:
        """float64[m], part of the iteration in which each arc is busy."""
        total_ms, carried = self.evaluation.iteration_time_ms, self.evaluation.link_bytes
        rate = self.plan.topology.multiplicity * bytes_per_ms(self.cluster.link_gbps)
        return np.asarray(carried / rate / total_ms if total_ms > 0 else np.zeros(len(carried)))

    @cached_property
    def bandwidth_tax(self) -> float:
        """Bytes carried over links by bytes demanded (TopoOpt, NSDI'23, section 5.4); 1 if nothing is demanded."""
        demanded = float(self.demand.model_parallel_bytes.sum())
        demanded += sum(2.0 * (len(group.members) - 1) * group.payload_bytes for group in self.demand.allreduce)
        return float(self.evaluation.link_bytes.sum()) / demanded if demanded > 0 else 1.0

    @property
    def diameter_bound(self) -> float:
        """d n^(1/d) of TotientPerms (NSDI'23, theorem 1), in hops."""
        degree = self.cluster.degree
        return degree * float(self.cluster.servers ** (1 / degree)) if degree else 0.0

    # The same job on other fabrics: compared, not checked.

    @cached_property
    def compared_fabrics(self) -> tuple[tuple[FabricChoice, FabricOptions, Strategy], ...]:
        """Fabrics of the instance that the plan is compared with, in the order of the instance."""
        comparison = self.plan.comparison
        if comparison is None:
            return ()
        settings, strategies = self.problem.baselines, {row.fabric: row.strategy for row in comparison.strategies}
        return tuple(
            (choice, options_of(choice, settings, comparison.seed, self.problem.book), strategies[choice.name])
            for choice in settings.choices
            if choice.name in strategies
        )

    @cached_property
    def baselines(self) -> tuple[Baseline, ...]:
        """The job on other fabrics, in the order of the instance.

        Those whose rate follows from a price book that is not at hand are left out.
        """
        cluster, groups = self.cluster, strided_groups(self.cluster.servers)
        lines = []
        for choice, options, strategy in self.compared_fabrics:
            if self.book is None and choice.fabric == FAT_TREE and options.fat_tree_gbps is None:
                continue
            _require_legal(self.problem, strategy, "plan.comparison")
            fabric = FABRICS[choice.fabric]
            network = fabric.build(cluster, groups, options)
            taken_ms = simulate(build_task_graph(cluster, self.workload, strategy), network).iteration_time_ms
            lines.append(Baseline(choice.name, taken_ms, fabric.describe(cluster, options), strategy))
        return tuple(lines)

    @property
    def book(self) -> PriceBook | None:
        """The price book of the run; None where it is not at hand."""
        book = self.problem.book or default_price_book()
        comparison = self.plan.comparison
        return book if comparison is None or comparison.book_sha256 == book.sha256 else None

    @cached_property
    def prices(self) -> FabricPrices | None:
        """Prices of the plan's network and of the other fabrics; None where the book is not at hand."""
        if self.book is None:
            return None
        compared = [
            SimulatedFabric(
                choice.name,
                choice.fabric,
                options.fat_tree_gbps if choice.fabric == FAT_TREE else options.nic_gbps,
                options.oversubscription,
                options.layer,
            )
            for choice, options, _ in self.compared_fabrics
        ]
        return fabric_prices(self.cluster, compared, self.book)

    # Traffic.

    @cached_property
    def path_hop_shares(self) -> dict[int, float]:
        """Part of the routed model-parallel bytes that take so many hops; empty without such traffic."""
        hops, carried = self.routed
        total = float(carried.sum())
        if total <= 0:
            return {}
        volume = np.bincount(hops, weights=carried)
        return {count: float(amount) / total for count, amount in enumerate(volume) if amount > 0}

    @cached_property
    def routed(self) -> tuple[Ints, Floats]:
        """int64[p] hops and float64[p] bytes of every path of model-parallel traffic."""
        routes = self.plan.routes
        bytes_of_pair = self.demand.model_parallel_bytes[routes.source, routes.target]
        carried = np.repeat(bytes_of_pair, np.diff(routes.pair_ptr)) * routes.share
        return np.diff(routes.path_ptr) - 1, carried

    def traffic_summary(self) -> dict[str, Any]:
        """Return `demand_bytes`, `mean_path_hops`, `path_hops` and `link_bytes`; quantiles by nearest rank."""
        shares = self.path_hop_shares
        loads = np.sort(self.evaluation.link_bytes)
        links: dict[str, float] = {}
        if len(loads):
            links = {"mean": float(loads.mean()), "max": float(loads[-1])}
            links |= {name: float(loads[max(0, math.ceil(part * len(loads)) - 1)]) for name, part in QUANTILES}
        return {
            "demand_bytes": {
                "allreduce": self.demand.allreduce_wire_bytes,
                "model_parallel": float(self.demand.model_parallel_bytes.sum()),
            },
            "mean_path_hops": sum(count * share for count, share in shares.items()) if shares else None,
            "path_hops": {str(count): share for count, share in shares.items()},
            "link_bytes": links,
        }

    def columns(self) -> dict[str, Columns]:
        """Tables of links, routes, rings, operators and the timeline, of schedules and baselines where there are any.

        `figures` has the breakdown and what else is one number.
        """
        plan, arcs = self.plan, links_of(self.plan.topology)
        owner = np.repeat(np.arange(len(plan.routes.source)), np.diff(plan.routes.pair_ptr))
        rings = [(group, ring) for group in plan.rings for ring in group.rings]
        schedules: dict[str, Columns] = {}
        if plan.schedules:  # below_bytes -1: any more
            names = ("from_bytes", "method", "pieces", "steps")
            schedules["schedules"] = {
                "members": [list(schedule.members) for schedule in plan.schedules],
                **{name: [getattr(schedule, name) for schedule in plan.schedules] for name in names},
                "below_bytes": [-1 if s.below_bytes is None else s.below_bytes for s in plan.schedules],
            }
        numbers = {
            **asdict(self.breakdown),
            "busiest_server_compute_ms": self.busiest_server_compute_ms,
            "bandwidth_tax": self.bandwidth_tax,
        }
        baselines = {"baselines": listed(self.baselines)} if self.baselines else {}
        return {
            "figures": {name: [value] for name, value in numbers.items()},
            "links": {**arcs, "bytes": self.evaluation.link_bytes, "utilisation": self.link_utilisation},
            "routes": {
                "source": plan.routes.source[owner],
                "target": plan.routes.target[owner],
                "share": plan.routes.share,
                "path": [list(plan.routes.path(index)) for index in range(len(owner))],
            },
            "rings": {
                "members": [list(group.members) for group, _ in rings],
                "order": [list(ring.order) for _, ring in rings],
                "share": [ring.share for _, ring in rings],
            },
            **schedules,
            "operators": listed(self.operators),
            **baselines,
            "timeline": listed(self.evaluation.timeline),
        }


def _require_legal(problem: CoOptimisation, strategy: Strategy, path: str) -> None:
    findings = ViolationLog()
    if check_strategy(findings, problem.cluster, problem.workload, strategy) is None:
        raise InputError([Problem("no strategy for this workload", path=path, allowed="topoopt check says more")])


_latest: list[JobFigures] = []


def job_figures(problem: CoOptimisation, plan: JobPlan) -> JobFigures:
    """Return the figures of a plan; those that were asked for last are kept, as simulating takes long.

    A run asks for them when it assembles its result, on the page and for the answer.
    """
    for figures in _latest:
        own = figures.problem
        names = ("workload", "cluster", "baselines", "book")
        if figures.plan is plan and all(getattr(own, name) is getattr(problem, name) for name in names):
            return figures
    _latest[:] = [JobFigures(problem, plan)]
    return _latest[0]


def continued(problem: CoOptimisation, before: JobPlan, plan: JobPlan, baselines: tuple[Baseline, ...]) -> None:
    """Keep what was simulated of a plan for the same plan with other fabrics, whose times a search has simulated."""
    done = vars(job_figures(problem, before))
    figures = JobFigures(problem, plan)
    vars(figures).update({name: value for name, value in done.items() if name not in ("plan", "compared_fabrics")})
    vars(figures)["baselines"] = baselines
    _latest[:] = [figures]


# What of a gap is of the bound, and what of the plan.


Reached = tuple[float, str]
"""A time that no bound on any plan is above, ms, and where it is reached."""

UNREACHED: Reached = (math.inf, "an ideal switch")
"""No such time is known."""


@dataclass(frozen=True)
class GapParts:
    """A gap in two parts of the iteration time.

    A bound that holds on any network holds on an ideal switch as well, so none is above what some strategy takes there,
    nor above what one takes on a random graph of the same links. What lies between that time and the plan is for better
    plans, or for bounds that know the links.

    Attributes:
        limit_ms: that no bound which holds on an ideal switch, or on any links, is above.
        where: this is reached.
        bound_at_most: part between the bound and this.
        plan_at_least: part between this and the plan.
    """

    limit_ms: float
    where: str
    bound_at_most: float
    plan_at_least: float

    @property
    def likelier(self) -> str:
        """What may close the larger part."""
        return "a better bound" if self.bound_at_most > self.plan_at_least else "a better plan"

    @property
    def words(self) -> str:
        """How much better bounds, and better plans, can close of the gap."""
        bounds, reached_ms = percent(self.bound_at_most), milliseconds(self.limit_ms)
        return (
            f"{bounds} at most are for better bounds, as {reached_ms} are reached on {self.where}, and "
            f"{percent(self.plan_at_least)} for better plans, or bounds that know the links"
        )


def reached(figures: JobFigures) -> Reached:
    """Return the time on an ideal switch of the plan's interfaces, or on a random graph of its links, if faster."""
    # A fabric of that name may be one of another rate, which its description tells.
    cluster = figures.cluster
    switch = f" {cluster.degree * cluster.link_gbps:g} Gbit/s per server"
    graph = f" graph of {cluster.link_gbps:g} Gbit/s links,"
    times = [UNREACHED]
    for line in figures.baselines:
        if line.fabric == IDEAL and line.description.endswith(switch):
            times.append((line.iteration_time_ms, UNREACHED[1]))
        elif line.fabric == GRAPH and graph in line.description:
            times.append((line.iteration_time_ms, "a random graph of the same links"))
    return min(times)


def order_free(figures: JobFigures) -> Reached:
    """Return the fastest of the strategies of a plan, whatever they are for, on an ideal switch of its interfaces.

    Each is simulated as links serve it, and with transfers before AllReduce.
    """
    fabric, options, problem = FABRICS[IDEAL], FabricOptions(), figures.problem
    strategies = dict.fromkeys([figures.plan.strategy, *(line.strategy for line in figures.baselines)])
    best = math.inf
    for sharing in dict.fromkeys((figures.cluster.link_sharing, LinkSharing.TRANSFERS_FIRST)):
        cluster = replace(figures.cluster, link_sharing=sharing)
        network = fabric.build(cluster, strided_groups(cluster.servers), options)
        for strategy in strategies:
            graph = build_task_graph(cluster, problem.workload, strategy)
            best = min(best, simulate(graph, network).iteration_time_ms)
    return min((best, UNREACHED[1]), reached(figures))


def gap_parts(result: JobResult, time: Reached) -> GapParts | None:
    """Return the parts of the gap; None without a gap, or where no time on such a fabric is there."""
    value, bound, (limit_ms, where) = result.objective.value, result.bound.value, time
    if result.status is Status.OPTIMAL or not value > bound or not math.isfinite(limit_ms):
        return None
    limit = max(bound, min(value, limit_ms))
    return GapParts(limit, where, (limit - bound) / value, (value - limit) / value)
