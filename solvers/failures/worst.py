"""Links, servers and planes fail: what survives, the worst failure of k parts, and samples of random failures.

The worst failure of k parts: all of them where they are few, else a cut, a greedy start and exchanges.

"Worst" is after the best repair known. It is proven when every failure of k parts was evaluated, or when one leaves
traffic without any path.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from solvers.network.assembly import Digraph, row_ptr
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Int32s, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.outcomes import Failure, FailureOutcome, LinkEnds, SampledFailures, WorstFailure
from topoopt.core.topology import Topology

SHOWN = 12


def links_of(topology: Topology) -> tuple[LinkEnds, ...]:
    """Every physical link, parallel ones repeated, sorted; of a fibre pair the smaller server first."""
    paired = topology.links is LinkDirection.BIDIRECTIONAL
    rows = zip(topology.arcs.tolist(), topology.multiplicity.tolist(), strict=True)
    return tuple(sorted((t, h) for (t, h), times in rows for _ in range(times) if not paired or t < h))


def single_links(topology: Topology) -> tuple[Failure, ...]:
    """Each link failing alone; parallel links are alike and count once."""
    return tuple(Failure(links=(link,)) for link in sorted(set(links_of(topology))))


def single_servers(topology: Topology) -> tuple[Failure, ...]:
    return tuple(Failure(servers=(server,)) for server in range(topology.hosts))


def single_planes(topology: Topology) -> tuple[Failure, ...]:
    """Each optical switch that has any arc, and each packet switch, failing alone."""
    lit = np.flatnonzero((topology.switches >= 0).any(axis=1))
    if topology.packet_switches:
        lit = np.arange(topology.packet_switches)
    return tuple(Failure(planes=(int(plane),)) for plane in lit)


def parts_of(topology: Topology, part: str) -> tuple[Failure, ...]:
    """All single failures of `links` (parallel ones repeated) or `servers`."""
    if part == "links":
        return tuple(Failure(links=(link,)) for link in links_of(topology))
    return single_servers(topology)


def joined(parts: Sequence[Failure]) -> Failure:
    return Failure(
        links=tuple(sorted(link for part in parts for link in part.links)),
        servers=tuple(sorted({server for part in parts for server in part.servers})),
        planes=tuple(sorted({plane for part in parts for plane in part.planes})),
    )


def every_set(topology: Topology, part: str, count: int) -> tuple[Failure, ...]:
    """All failures of `count` parts, equal ones (of parallel links) once."""
    sets = (joined(chosen) for chosen in combinations(parts_of(topology, part), count))
    return tuple(dict.fromkeys(sets))


def drawn(topology: Topology, part: str, count: int, samples: int, rng: np.random.Generator) -> tuple[Failure, ...]:
    """Sets of `count` different parts, independently and uniformly."""
    parts = parts_of(topology, part)
    return tuple(
        joined([parts[int(i)] for i in rng.choice(len(parts), size=count, replace=False)]) for _ in range(samples)
    )


def failure_problems(topology: Topology, failure: Failure) -> list[Problem]:
    """Links, servers and planes of a failure that do not exist."""
    problems = []
    n, planes = topology.servers, topology.packet_switches or len(topology.switches)
    there = Counter(links_of(topology))
    for link, times in Counter(failure.links).items():
        tail, head = link
        if max(link) >= n or min(link) < 0:
            problems.append(
                Problem("unknown server", path="--fail", value=f"{tail}-{head}", allowed=f"servers 0 to {n - 1}")
            )
        elif there[link] == 0:
            near = sorted({b if a == tail else a for a, b in there if tail in (a, b)} - {tail})
            shown = ", ".join(str(server) for server in near[:SHOWN]) + (" ..." if len(near) > SHOWN else "")
            allowed = f"server {tail} is linked to {shown or 'nobody'}"
            problems.append(Problem("no such link", path="--fail", value=f"{tail}-{head}", allowed=allowed))
        elif there[link] < times:
            allowed = f"at most {there[link]} times"
            problems.append(Problem("more than there are", path="--fail", value=f"{tail}-{head}", allowed=allowed))
    for server in failure.servers:
        if not 0 <= server < topology.hosts:
            allowed = f"0 to {topology.hosts - 1}"
            problems.append(Problem("unknown server", path="--fail", value=str(server), allowed=allowed))
    sort = "switch" if topology.packet_switches else "optical switch"
    for plane in failure.planes:
        if not 0 <= plane < planes:
            allowed = f"0 to {planes - 1}"
            problems.append(Problem(f"unknown {sort}", path="--fail", value=str(plane), allowed=allowed))
    return problems


def check_failure(topology: Topology, failure: Failure) -> None:
    """Refuse what does not exist.

    Raises:
        InputError: all of it.
    """
    raise_any(failure_problems(topology, failure))


def check_count(topology: Topology, part: str, count: int) -> None:
    """Refuse more failures than there are parts.

    Raises:
        InputError: so it is.
    """
    there = len(parts_of(topology, part))
    # One server at least must be left; a job of none is none.
    most = there if part == "links" else max(there - 1, 0)
    if not 1 <= count <= most:
        raise InputError([Problem(f"more failures than {part}", path=f"--{part}", value=str(count),
                                  allowed=f"1 to {most}")])  # fmt: skip


def ends_of(text: str, topology: Topology) -> LinkEnds:
    """Ends of a link written `A-B`.

    Raises:
        InputError: written otherwise.
    """
    words = text.split("-")
    if len(words) != 2 or not all(word.strip().isdecimal() for word in words):
        raise InputError(
            [Problem("not a link", path="--fail", value=repr(text), allowed="A-B, two servers; server:N; switch:N")]
        )
    tail, head = (int(word) for word in words)
    if topology.links is LinkDirection.BIDIRECTIONAL:
        tail, head = min(tail, head), max(tail, head)
    return tail, head


def links_left(topology: Topology, failure: Failure) -> Int32s:
    """int32[m]: parallel links of each arc that survive; arcs of failed servers have none."""
    left = topology.multiplicity.astype(np.int32).copy()
    ids = topology.arc_ids()
    paired = topology.links is LinkDirection.BIDIRECTIONAL
    for tail, head in failure.links:
        left[ids[tail, head]] -= 1
        if paired:
            left[ids[head, tail]] -= 1
    for plane in failure.planes:
        if topology.packet_switches:
            left[(topology.arcs == topology.hosts + plane).any(axis=1)] = 0
            continue
        tails = np.flatnonzero(topology.switches[plane] >= 0)
        np.subtract.at(left, ids[tails, topology.switches[plane, tails]], 1)
    if failure.servers:
        left[np.isin(topology.arcs, failure.servers).any(axis=1)] = 0
    return np.maximum(left, 0)


@dataclass(frozen=True, eq=False)
class Surviving:
    """A damaged topology.

    Attributes:
        topology: before the failure.
        left: int32[m], links left of each arc.
        relays: servers that send and receive but forward no longer.
    """

    topology: Topology
    left: Int32s
    relays: tuple[int, ...] = ()
    _graphs: dict[int, Digraph] = field(default_factory=dict)

    def graph(self, target: int) -> Digraph:
        """Arcs that may lead to a target; hops of -1 where nothing does."""
        key = target if target in self.relays else -1
        if key not in self._graphs:
            left = np.where(_usable(self, key), self.left, 0)
            tail = self.topology.arcs[:, 0].astype(np.int64)
            head = np.where(left > 0, self.topology.arcs[:, 1], self.topology.arcs[:, 0]).astype(np.int64)
            self._graphs[key] = Digraph(row_ptr(tail, self.topology.servers), tail, head, left.astype(np.float64))
        return self._graphs[key]

    def hops(self) -> Int32s:
        """int32[n, n]: fewest hops from i (row) to j, -1 where there is no way."""
        hops = self.graph(-1).hops_to.T.copy()
        for target in self.relays:
            hops[:, target] = self.graph(target).hops_to[target]
        return hops

    def without(self, arcs: Ints) -> Surviving:
        """The same with more arcs dead."""
        left = self.left.copy()
        left[arcs] = 0
        return Surviving(self.topology, left, self.relays)


def _usable(surviving: Surviving, target: int) -> Bools:
    alive = surviving.left > 0
    closed = [server for server in surviving.relays if server != target]
    if closed:
        alive &= ~np.isin(surviving.topology.arcs[:, 1], closed)
    return alive


def after(topology: Topology, failure: Failure) -> Surviving:
    """The topology without what failed; failed servers have no arcs left."""
    return Surviving(topology, links_left(topology, failure))


def not_forwarding(topology: Topology, failure: Failure) -> Surviving:
    """As `after`, but failed servers keep their arcs and merely forward nothing."""
    links_only = Failure(links=failure.links, planes=failure.planes)
    return Surviving(topology, links_left(topology, links_only), failure.servers)


def reach(surviving: Surviving, failed_servers: tuple[int, ...] = ()) -> tuple[int, int | None, float | None]:
    """Ordered pairs without a path, diameter, and mean hops (None if there are such pairs) of the servers that work."""
    works = np.arange(surviving.topology.servers) < surviving.topology.hosts
    works[list(failed_servers)] = False
    hops = surviving.hops()[np.ix_(works, works)]
    count = len(hops)
    lost = int((hops < 0).sum())
    if lost:
        return lost, None, None
    pairs = count * (count - 1)
    return 0, int(hops.max(initial=0)), float(hops.sum() / pairs) if pairs else 0.0


if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def fewest_links(topology: Topology) -> tuple[LinkEnds, ...]:
    """A least set of links, parallel ones repeated, without which the topology is not (strongly) connected."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_flow

    n, arcs = topology.servers, topology.arcs
    capacity = csr_matrix((topology.multiplicity.astype(np.int32), (arcs[:, 0], arcs[:, 1])), shape=(n, n))
    best: tuple[int, Bools] | None = None
    paired = topology.links is LinkDirection.BIDIRECTIONAL
    # Any cut separates server 0 from some other server, one way or the other.
    for other in range(1, topology.hosts):
        for source, sink in ((0, other),) if paired else ((0, other), (other, 0)):
            flow = maximum_flow(capacity, source, sink)
            if best is None or flow.flow_value < best[0]:
                best = (int(flow.flow_value), _senders(capacity, flow.flow, source))
    if best is None:
        return ()
    inside = best[1]
    crossing = inside[arcs[:, 0]] & ~inside[arcs[:, 1]]
    links = [
        ((min(t, h), max(t, h)) if paired else (t, h))
        for (t, h), times in zip(arcs[crossing].tolist(), topology.multiplicity[crossing].tolist(), strict=True)
        for _ in range(times)
    ]
    return tuple(sorted(links))


def _senders(capacity: csr_matrix, flow: csr_matrix, source: int) -> Bools:
    """bool[n]: the side of the source in the cut of a maximum flow."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    residual = csr_array(capacity - flow)
    residual.data = np.where(residual.data > 0, residual.data, 0)
    residual.eliminate_zeros()
    inside = np.zeros(capacity.shape[0], dtype=np.bool_)
    inside[breadth_first_order(residual, source, return_predecessors=False)] = True
    return inside


Plan = TypeVar("Plan")


Repair = tuple[FailureOutcome, Plan | None]
"""What became of a failure, and the plan that runs then; None where none delivers everything."""


class FailureEvaluator(ABC, Generic[Plan]):
    """A solution whose failures are evaluated, each once.

    Attributes:
        topology: whose parts fail.
        nominal: value without any failure.
    """

    nominal: float

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._cached: dict[Failure, Repair[Plan]] = {}

    def outcome(self, failure: Failure) -> FailureOutcome:
        """What a failure does, after the best repair."""
        return replace(self.repair(failure)[0], failure=failure)

    def repair(self, failure: Failure) -> Repair[Plan]:
        """The best repair of a failure, or of one that is just like it."""
        key = self._representative(failure)
        if key not in self._cached:
            self._cached[key] = self._repaired(key)
        return self._cached[key]

    def _representative(self, failure: Failure) -> Failure:
        return failure

    @abstractmethod
    def _repaired(self, failure: Failure) -> Repair[Plan]:
        """The best repair."""


def badness(outcome: FailureOutcome) -> tuple[float, int]:
    """Order of outcomes, the worst largest: nothing delivered, then value, then pairs that are not connected."""
    return (float("inf") if outcome.value is None else outcome.value, outcome.disconnected_pairs)


POOL = 24
"""Parts, the worst alone first, that are tried at each step of the search."""


def worst_failure(
    evaluator: FailureEvaluator[Any],
    part: str,
    count: int,
    *,
    enumerated: int = 3000,
    evaluations: int = 400,
    seed: int = 0,
    stop: Stop | None = None,
    step: Callable[[], None] = lambda: None,
) -> WorstFailure:
    """The worst failure of `count` parts (`links` or `servers`).

    Args:
        enumerated: failures up to which all are evaluated.
        evaluations: of the search beyond.
        step: called after every failure evaluated.

    Raises:
        InputError: there are fewer parts.
    """
    stop = stop or Stop()
    check_count(evaluator.topology, part, count)
    search = _WorstSearch(evaluator, part, count, stop, step)
    if part == "links":
        cut = search.by_cut()
        if cut is not None:
            return cut
    if math.comb(len(parts_of(evaluator.topology, part)), count) <= enumerated:
        return search.by_enumeration()
    return search.by_exchange(evaluations, np.random.default_rng(seed))


class _WorstSearch:
    def __init__(
        self, evaluator: FailureEvaluator[Any], part: str, count: int, stop: Stop, step: Callable[[], None]
    ) -> None:
        self.evaluator, self.part, self.count, self.stop, self.step = evaluator, part, count, stop, step
        self.best: FailureOutcome | None = None
        self.seen: set[Failure] = set()

    def look(self, failure: Failure, *, keep: bool = True) -> FailureOutcome:
        """Evaluate a failure; the worst so far is kept."""
        outcome = self.evaluator.outcome(failure)
        if failure not in self.seen:
            self.seen.add(failure)
            self.step()
        if keep and (self.best is None or badness(outcome) > badness(self.best)):
            self.best = outcome
        return outcome

    def by_cut(self) -> WorstFailure | None:
        """The failure that disconnects, if so few links do and traffic is cut off by it."""
        cut = fewest_links(self.evaluator.topology)
        if len(cut) > self.count:
            return None
        rest = list(parts_of(self.evaluator.topology, "links"))
        for link in cut:
            rest.remove(Failure(links=(link,)))
        lost = joined([Failure(links=cut), *rest[: self.count - len(cut)]])
        outcome = self.look(lost)
        return self.result(True, f"a cut of {len(cut)} links") if outcome.value is None else None

    def by_enumeration(self) -> WorstFailure:
        failures = every_set(self.evaluator.topology, self.part, self.count)
        for failure in failures:
            self.look(failure)
            if self.stop.reason() is not None:
                break
        done = len(self.seen) >= len(failures)
        return self.result(done, f"all {len(failures)} failures" if done else "an enumeration cut short")

    def by_exchange(self, evaluations: int, rng: np.random.Generator) -> WorstFailure:
        """Part by part the worst, then parts exchanged as long as it gets worse."""
        parts = list(dict.fromkeys(parts_of(self.evaluator.topology, self.part)))
        alone = {part: badness(self.look(part, keep=self.count == 1)) for part in parts if self._going()}
        pool = sorted(alone, key=lambda part: alone[part], reverse=True)[:POOL]
        pool += [parts[int(i)] for i in rng.permutation(len(parts))[: POOL // 4]]
        pool = list(dict.fromkeys(pool))
        chosen: list[Failure] = []
        while len(chosen) < self.count:
            last = len(chosen) == self.count - 1
            tried: dict[Failure, tuple[float, int]] = {}
            for part in pool:
                if part not in chosen and (self._going() or not tried):
                    tried[part] = badness(self.look(joined([*chosen, part]), keep=last))
            chosen.append(max(tried, key=lambda part: tried[part]))
        gained = True
        while gained and self._within(evaluations, len(parts)):
            gained = False
            for position in range(self.count):
                for part in pool:
                    if part in chosen or not self._within(evaluations, len(parts)):
                        continue
                    other = [*chosen[:position], part, *chosen[position + 1 :]]
                    before = self.best
                    self.look(joined(other))
                    if self.best is not before:
                        chosen, gained = other, True
        return self.result(False, "greedy search with exchanges")

    def _going(self) -> bool:
        return self.stop.reason() is None

    def _within(self, evaluations: int, singles: int) -> bool:
        return self._going() and len(self.seen) < singles + evaluations

    def result(self, proven: bool, how: str) -> WorstFailure:
        assert self.best is not None
        return WorstFailure(self.part, self.count, self.best, proven, how, len(self.seen))


CONFIDENCE = 0.95


def sample_failures(
    evaluator: FailureEvaluator[Any],
    part: str,
    count: int,
    samples: int,
    *,
    seed: int = 0,
    stop: Stop | None = None,
    step: Callable[[], None] = lambda: None,
) -> SampledFailures:
    """Draw failures of `count` parts (`links` or `servers`) and evaluate them; one at least, however early it stops.

    Raises:
        InputError: there are fewer parts.
    """
    stop = stop or Stop()
    check_count(evaluator.topology, part, count)
    outcomes: list[FailureOutcome] = []
    for failure in drawn(evaluator.topology, part, count, max(1, samples), np.random.default_rng(seed)):
        outcomes.append(evaluator.outcome(failure))
        step()
        if stop.reason() is not None:
            break
    slow = [outcome.slowdown(evaluator.nominal) for outcome in outcomes]
    times = np.array([value for value in slow if value is not None], dtype=np.float64)
    low, high = _share_interval(len(times), len(outcomes))
    mean_low, mean_high = _mean_interval(times)
    return SampledFailures(
        part=part,
        count=count,
        samples=len(outcomes),
        seed=seed,
        delivered=len(times),
        delivered_low=low,
        delivered_high=high,
        mean_slowdown=float(times.mean()) if len(times) else None,
        mean_low=mean_low,
        mean_high=mean_high,
        p95_slowdown=float(np.quantile(times, 0.95)) if len(times) else None,
        worst=max(outcomes, key=badness),
    )


def _share_interval(hits: int, total: int) -> tuple[float, float]:
    """Clopper and Pearson, 1934."""
    from scipy import stats

    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if hits == 0 else float(stats.beta.ppf(tail, hits, total - hits + 1))
    high = 1.0 if hits == total else float(stats.beta.ppf(1 - tail, hits + 1, total - hits))
    return low, high


def _mean_interval(values: np.ndarray) -> tuple[float | None, float | None]:
    """Student's t."""
    from scipy import stats

    if len(values) < 2:
        return None, None
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * float(values.std(ddof=1)) / len(values) ** 0.5
    return float(values.mean()) - reach, float(values.mean()) + reach
