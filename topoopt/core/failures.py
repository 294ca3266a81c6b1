"""Failures of links, servers and planes: what they do to a job, and how much of a plan outlasts days.

What fails: links (a bidirectional link is a fibre pair and loses both directions, a unidirectional one its only arc),
servers, and planes (TopoOpt, NSDI'23: one optical switch joins interface j of all servers, so that each server loses
one interface, the arcs of one row of `Topology.switches`).
"""

from __future__ import annotations

from dataclasses import dataclass

LinkEnds = tuple[int, int]
"""Tail and head of a link; of a fibre pair the smaller server first."""


@dataclass(frozen=True, order=True)
class Failure:
    """What is broken at once.

    Attributes:
        links: ends of each failed link, once per parallel link lost.
        servers: failed servers.
        planes: failed optical switches, rows of `Topology.switches`; packet switches, in their order, where there are
            any.
    """

    links: tuple[LinkEnds, ...] = ()
    servers: tuple[int, ...] = ()
    planes: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """For people: `link 3-16`, `server 5`, `switch 2`."""
        parts = []
        for word, items in (
            ("link", [f"{tail}-{head}" for tail, head in self.links]),
            ("server", [str(server) for server in self.servers]),
            ("switch", [str(plane) for plane in self.planes]),
        ):
            if items:
                parts.append(f"{word}{'s' if len(items) > 1 and word != 'switch' else ''} {', '.join(items)}")
        return "; ".join(parts) or "nothing"


RepairTrial = tuple[str, float | None]
"""A repair strategy that was tried, and its value; None: it does not apply or cannot deliver all."""


@dataclass(frozen=True)
class FailureOutcome:
    """What one failure does.

    Attributes:
        failure: what broke.
        disconnected_pairs: ordered pairs of working servers that no path joins.
        diameter: in hops over the working servers; None if some pair is not connected.
        mean_hops: likewise.
        broken_rings: AllReduce rings that used a dead arc.
        rings: AllReduce rings in all.
        rerouted_pairs: ordered pairs that had a route over a dead arc.
        value: iteration time or theta with the best repair; None if no repair delivers everything.
        repair: its strategy, `none needed` where nothing the job uses is broken.
        trials: every strategy tried.
        bound: proven lower bound on the value over all repairs; None where none is known.
        spare_circuits: circuits to be set to put a spare in the place of the failed servers (0 for other failures).
    """

    failure: Failure
    disconnected_pairs: int
    diameter: int | None
    mean_hops: float | None
    broken_rings: int
    rings: int
    rerouted_pairs: int
    value: float | None
    repair: str
    trials: tuple[RepairTrial, ...] = ()
    bound: float | None = None
    spare_circuits: int = 0

    def slowdown(self, nominal: float) -> float | None:
        """Value over the value without failure; None if nothing can be delivered."""
        if self.value is None:
            return None
        return self.value / nominal if nominal > 0 else 1.0


@dataclass(frozen=True)
class SampledFailures:
    """Random failures of k parts at once, and what can be said of the mean of all of them.

    Attributes:
        part: `links` or `servers`.
        count: k.
        samples: number drawn, independently and uniformly.
        seed: of the draw.
        delivered: samples after which everything could be delivered.
        delivered_low, delivered_high: 95 % confidence interval of that probability (Clopper-Pearson).
        mean_slowdown: over the samples delivered; None without any.
        mean_low, mean_high: 95 % confidence interval of that mean (Student t); None below two samples.
        p95_slowdown: 95th percentile of the samples delivered.
        worst: outcome of the worst sample.
    """

    part: str
    count: int
    samples: int
    seed: int
    delivered: int
    delivered_low: float
    delivered_high: float
    mean_slowdown: float | None
    mean_low: float | None
    mean_high: float | None
    p95_slowdown: float | None
    worst: FailureOutcome


@dataclass(frozen=True)
class WorstFailure:
    """The worst failure of k parts found.

    Attributes:
        part: `links` or `servers`.
        count: k.
        outcome: of that failure.
        proven: no failure of k parts is worse.
        how: what found or proved it.
        evaluated: failures evaluated.
    """

    part: str
    count: int
    outcome: FailureOutcome
    proven: bool
    how: str
    evaluated: int


@dataclass(frozen=True)
class Rewiring:
    """What re-wiring makes of a failure.

    Attributes:
        failure: the links that stay dark.
        removed: surviving links given up, at most the number allowed.
        added: links set up instead.
        allowed: circuits that may be given up.
        before, after: value with the best repair at once, and after re-wiring; before is None if nothing helped.
        method: what found it.
        bound: proven lower bound on `after` over all such re-wirings; None where none is known.
        violations: what the checker says of the re-wired plan; empty for a good one.
    """

    failure: Failure
    removed: tuple[LinkEnds, ...]
    added: tuple[LinkEnds, ...]
    allowed: int
    before: float | None
    after: float
    method: str
    bound: float | None = None
    violations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Resilience:
    """Result of `topoopt resilience`.

    Attributes:
        name, kind: of the solution.
        objective, unit: `iteration_time` ms or `theta`.
        nominal: its value without any failure.
        links, servers, planes: outcomes of all single failures asked for, in order.
        sampled: random failures of several parts.
        worst: worst failures found, single ones included.
        rewirings: what re-wiring gains.
        violations: what the checker says of the repairs; empty when all are good.
        checked: repairs the checker looked at.
        notes: what was assumed, for people.
        seed: of every random choice.
        complete: False when a limit ended the work early.
    """

    name: str
    kind: str
    objective: str
    unit: str
    nominal: float
    links: tuple[FailureOutcome, ...] = ()
    servers: tuple[FailureOutcome, ...] = ()
    planes: tuple[FailureOutcome, ...] = ()
    sampled: tuple[SampledFailures, ...] = ()
    worst: tuple[WorstFailure, ...] = ()
    rewirings: tuple[Rewiring, ...] = ()
    violations: tuple[str, ...] = ()
    checked: int = 0
    notes: tuple[str, ...] = ()
    seed: int = 0
    complete: bool = True

    @property
    def switch(self) -> str:
        """What fails beside links and servers, in a word."""
        return "switch" if self.kind == "llm-training" else "optical switch"


@dataclass(frozen=True)
class OutageRow:
    """Days with so many spare servers.

    Attributes:
        spares: servers beside those of the plan.
        circuits: whether any servers make a copy of the model.
        mean, p99, worst: part of the throughput of the plan: mean of the days, what 99 % of them reach, least.
        whole_days: part of the days on which nothing is missing.
        exchanged: servers that copies get in place of others, a day in the mean.
        p99_step_s, worst_step_s: seconds for as many sequences as an iteration of the plan takes; None: none is done.
    """

    spares: int
    circuits: bool
    mean: float
    p99: float
    worst: float
    whole_days: float
    exchanged: float
    p99_step_s: float | None
    worst_step_s: float | None


@dataclass(frozen=True, eq=False)
class OutageStudy:
    """A plan over days.

    Attributes:
        name: of the instance.
        copies, servers_each: whole copies of the model, where experts are on as many ranks as share them, and the
            servers that hold one.
        seed: of the draw.
        down: servers of the plan that are down, by day.
        rows: without spare servers and circuits, then with circuits for each number of spare servers.
        left: part of the throughput of the plan for each row, by day.
    """

    name: str
    copies: int
    servers_each: int
    seed: int
    down: tuple[int, ...]
    rows: tuple[OutageRow, ...]
    left: tuple[tuple[float, ...], ...]

    @property
    def days(self) -> int:
        return len(self.down)
