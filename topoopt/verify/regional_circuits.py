"""The checker of regional circuits: ports, the time of every step, and boxes of circuits priced again.

A box of circuits says that a pair has between `low` and `high` circuits. By time T a pair needs ceil(D / (b T))
circuits to carry all it sends. What circuits do not carry goes over the electrical interfaces. A pair that may not use
these is late with fewer circuits than it needs, unless it has none. Ports, and the bytes that leave and reach each
server, have prices. If the cheapest choices of all pairs together cost more than all ports and all that the interfaces
carry in T, then no circuits in the box are done by T (weak duality).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.proofs import Argument
from topoopt.core.regional_circuits import RegionalCircuitsPlan, RegionalCircuitsProblem, SwitchedSteps
from topoopt.core.result import Certificate, Result
from topoopt.verify.checker import Checker, Violation, ViolationLog, as_int, float_array, int_array

CIRCUIT_ROUNDING = 1e-12
"""Part of a circuit that is rounding."""

PRICE_ROUNDING = 1e-11
"""Part of the sum of all prices that is rounding."""

RegionalCircuitsResult = Result[RegionalCircuitsProblem, RegionalCircuitsPlan]


# Constraints of a plan.


def pairs_that_send(problem: RegionalCircuitsProblem, plan: RegionalCircuitsPlan) -> Iterator[str]:
    """Circuits join pairs that send, once each and in order."""
    pairs = set(problem.pairs)
    for index, topology in enumerate(plan.topologies):
        joined = [(first, second) for first, second, _ in topology]
        if joined != sorted(set(joined)) or not set(joined) <= pairs:
            yield f"topology {index}: not pairs that send, each once, in ascending order"
        if any(as_int(count) is None or count < 1 for _, _, count in topology):
            yield f"topology {index}: not a whole number of at least 1 for each pair"


def within_ports(problem: RegionalCircuitsProblem, plan: RegionalCircuitsPlan) -> Iterator[str]:
    """No server has more circuits than ports."""
    for index, topology in enumerate(plan.topologies):
        used = [0] * problem.servers
        for first, second, count in topology:
            used[first] += count
            used[second] += count
        for server, ports in enumerate(problem.ports):
            if used[server] > ports:
                yield f"topology {index}: {used[server]} at server {server}, of {ports}"


def topology_of_each_step(problem: RegionalCircuitsProblem, plan: RegionalCircuitsPlan) -> Iterator[str]:
    """Every step has a topology; every topology is used, none is listed twice."""
    if len(plan.steps) != len(problem.demands):
        yield f"{len(plan.steps)} steps, the instance has {len(problem.demands)}"
    if list(dict.fromkeys(plan.steps)) != list(range(len(plan.topologies))):
        yield "topologies are not numbered by the steps that use them first"
    if len(set(plan.topologies)) < len(plan.topologies):
        yield "a topology is listed twice"


# Objective.


def communication_time(problem: RegionalCircuitsProblem, plan: RegionalCircuitsPlan) -> float:
    """Return the seconds of all stalls and transfers."""
    reconfigured = [first != second for first, second in pairwise(plan.steps)]
    stalls = [max(0.0, problem.delay_s - problem.windows_s[k]) for k, new in enumerate(reconfigured, 1) if new]
    circuits = [{(first, second): count for first, second, count in topology} for topology in plan.topologies]
    transfers = [
        step_seconds(problem, demand, circuits[index])
        for demand, index in zip(problem.demands, plan.steps, strict=True)
    ]
    return sum(transfers) + sum(stalls)


def step_seconds(problem: RegionalCircuitsProblem, demand: Floats, circuits: Mapping[tuple[int, int], int]) -> float:
    """Return the seconds of a demand over circuits by pair and electrical interfaces, server by server."""
    longest = 0.0
    for server in range(problem.servers):
        peers = [peer for peer in range(problem.servers) if peer != server]
        counts = [circuits.get((min(server, peer), max(server, peer)), 0) for peer in peers]
        for amounts in (demand[server, peers].tolist(), demand[peers, server].tolist()):
            longest = max(longest, _server_seconds(problem, list(zip(amounts, counts, strict=True))))
    return longest


def _server_seconds(problem: RegionalCircuitsProblem, sent: Sequence[tuple[float, int]]) -> float:
    rate, electrical = problem.circuit_rate, problem.electrical_rate
    if not problem.split:
        wired = sum(amount for amount, count in sent if not count) / electrical
        return max([wired, *(amount / (rate * count) for amount, count in sent if count)])
    # Pairs that are done over circuits alone, the quickest first, leave the electrical interfaces to the others.
    ordered = sorted(sent, key=lambda row: row[0] / (rate * row[1]) if row[1] else float("inf"))
    amount, count = sum(row[0] for row in ordered), sum(row[1] for row in ordered)
    for demand, circuits in ordered:
        time = amount / (electrical + rate * count)
        if not circuits or demand > rate * circuits * time:
            return time
        amount, count = amount - demand, count - circuits
    return 0.0


# Bound.


@dataclass(frozen=True, eq=False)
class RunProof:
    """The content of a certificate, each array of the right type and length.

    Attributes:
        first, last: steps of the run.
        bound_s: what its transfers take at least.
        tree: int64[nodes, 2], pair and count of each split; a pair of -1 closes a box.
        multipliers: float64[closed boxes, 3 n].
    """

    first: int
    last: int
    bound_s: float
    tree: Ints
    multipliers: Floats

    @classmethod
    def of(cls, problem: RegionalCircuitsProblem, certificate: Certificate) -> RunProof:
        """Return the content of a certificate.

        Raises:
            ValueError: it is for something else, of steps that do not exist, or its arrays do not fit each other.
        """
        if certificate.argument is not Argument.CIRCUIT_PRICES:
            raise ValueError(f"a certificate for {certificate.argument}")
        steps, bound = int_array(certificate["steps"], 1), float_array(certificate["bound_s"], 1)
        if steps is None or len(steps) != 2 or not 0 <= steps[0] <= steps[1] < len(problem.demands):
            raise ValueError(f"steps must be two of 0 to {len(problem.demands) - 1}")
        if bound is None or len(bound) != 1 or not (math.isfinite(bound[0]) and bound[0] > 0):
            raise ValueError("bound_s must be one finite number above 0")
        pair, count = int_array(certificate["pair"], 1), int_array(certificate["count"], 1)
        prices = float_array(certificate["multipliers"], 1)
        if pair is None or count is None or prices is None or len(pair) != len(count):
            raise ValueError("pair, count and multipliers are not vectors that fit")
        closed = int((pair < 0).sum())
        if len(pair) != 2 * closed - 1 or len(prices) != 3 * problem.servers * closed:
            raise ValueError(f"{len(prices)} multipliers and {len(pair)} nodes for {closed} closed boxes")
        if not (np.isfinite(prices) & (prices >= 0)).all():
            raise ValueError("multipliers must be finite and not negative")
        first, last = steps.tolist()
        return cls(first, last, float(bound[0]), np.column_stack((pair, count)), prices.reshape(closed, -1))


def proofs_of(problem: RegionalCircuitsProblem, certificates: Sequence[Certificate]) -> list[RunProof]:
    """Return the proofs of all certificates, one a run of steps.

    Raises:
        ValueError: a certificate is malformed, or two are of the same run.
    """
    proofs = [RunProof.of(problem, certificate) for certificate in certificates]
    if len({(proof.first, proof.last) for proof in proofs}) < len(proofs):
        raise ValueError("two certificates are of the same steps")
    return proofs


def check_boxes(problem: RegionalCircuitsProblem, proof: RunProof) -> None:
    """Visit the boxes of a proof.

    Raises:
        ValueError: the tree is none, or a box is not closed by its multipliers.
    """
    pairs = np.array(problem.pairs, dtype=np.int64).reshape(-1, 2)
    high = np.array(problem.ports, dtype=np.int64)[pairs].min(axis=1)
    demand = problem.demands[proof.first : proof.last + 1].sum(axis=0)
    stack = [(np.zeros_like(high), high)]
    multipliers = iter(proof.multipliers)
    for pair, count in proof.tree.tolist():
        if not stack:
            raise ValueError("more splits than boxes")
        low, high = stack.pop()
        if pair < 0:
            if not excluded(problem, pairs, demand, proof.bound_s, low, high, next(multipliers)):
                raise ValueError(f"a box from {low.tolist()} to {high.tolist()} is open")
            continue
        if pair >= len(high) or not low[pair] <= count < high[pair]:
            raise ValueError(f"pair {pair} cannot be split at {count}")
        below, above = high.copy(), low.copy()
        below[pair], above[pair] = count, count + 1
        stack += [(above, high), (low, below)]
    if stack:
        raise ValueError(f"{len(stack)} boxes are not looked at")


def excluded(
    problem: RegionalCircuitsProblem, pairs: Ints, demand: Floats, time: float, low: Ints, high: Ints, prices: Floats
) -> bool:
    """Return whether prices show that no circuits of a box carry a demand by a time.

    Args:
        pairs: int64[P, 2], those of the problem.
        demand: float64[n, n], bytes.
        time: seconds.
        low, high: int64[P], circuits of each pair.
        prices: float64[3 n], finite and not negative: of all ports of each server, and of all that leaves and reaches
            it.
    """
    with np.errstate(all="ignore"):
        total = prices.sum()
        port, leaving, reaching = (prices / (total or 1.0)).reshape(3, -1)
        port = port / np.maximum(np.array(problem.ports), 1)
        wired = problem.electrical_rate * time
        i, j = pairs.T
        circuit = port[i] + port[j]
        forth, back = (leaving[i] + reaching[j]) / wired, (leaving[j] + reaching[i]) / wired
        unit = problem.circuit_rate * time
        sent, returned = demand[i, j], demand[j, i]
        needed = np.maximum(low, np.ceil(np.maximum(sent, returned) / unit * (1.0 - CIRCUIT_ROUNDING)))
        if problem.split:
            # The cost is convex in the circuits, and linear but where these carry all of one direction.
            most = np.minimum(high, needed)
            turns = [np.floor(amount / unit) + more for amount in (sent, returned) for more in (0, 1)]
            choices = [np.clip(turn, low, most) for turn in (low, most, *turns)]
            costs = [
                count * circuit
                + np.maximum(0.0, sent - unit * count) * forth
                + np.maximum(0.0, returned - unit * count) * back
                for count in choices
            ]
        else:
            wholly, none = needed <= high, low == 0
            if not (wholly | none).all():
                return True
            over_circuits, electrical = needed * circuit, sent * forth + returned * back
            costs = [np.where(wholly, over_circuits, electrical), np.where(none, electrical, over_circuits)]
        cheapest = np.min(costs, axis=0)
    finite = math.isfinite(total) and total > 0 and bool(np.isfinite(costs).all())
    return finite and math.fsum(cheapest.tolist()) > 1.0 + PRICE_ROUNDING


def least_time(problem: RegionalCircuitsProblem, certificates: Sequence[Certificate]) -> float:
    """Return what transfers and stalls of all steps take at least.

    Circuits stay over runs of steps. A run takes no less than its parts by themselves together; each run but the first
    costs its stall. The bound is the cheapest partition of the steps into runs.

    Raises:
        ValueError: a certificate proves nothing.
    """
    proofs = proofs_of(problem, certificates)
    for proof in proofs:
        check_boxes(problem, proof)
    proven = {(proof.first, proof.last + 1): proof.bound_s for proof in proofs}
    steps = len(problem.demands)
    run = np.zeros((steps + 1, steps + 1))  # [k, l]: of steps k to l - 1
    for start in range(steps - 1, -1, -1):
        for end in range(start + 1, steps + 1):
            halves = run[start, start + 1 : end] + run[start + 1 : end, end]
            run[start, end] = max(proven.get((start, end), 0.0), float(halves.max(initial=0.0)))
    remainder = np.zeros(steps + 1)
    for start in range(steps - 1, -1, -1):
        stalls = [0.0 if end == steps else problem.stalls_s[end] for end in range(start + 1, steps + 1)]
        remainder[start] = float((run[start, start + 1 :] + stalls + remainder[start + 1 :]).min())
    return float(remainder[0])


def box_prices(problem: RegionalCircuitsProblem, result: RegionalCircuitsResult) -> int:
    """Return how many prices of pairs the bound takes; 0 for malformed certificates, which are refused at once."""
    try:
        proofs = proofs_of(problem, result.certificates)
    except ValueError:
        return 0
    return sum(len(proof.multipliers) for proof in proofs) * len(problem.pairs)


CHECKER = Checker(
    objective=lambda _: ("communication_time", "s"),
    constraints=(
        ("circuits", pairs_that_send),
        ("ports", within_ports),
        ("steps", topology_of_each_step),
    ),
    value=communication_time,
    arguments=lambda _: {Argument.CIRCUIT_PRICES: least_time},
    work=box_prices,
)


# Ports of the switch, which an exporter assigns.


def check_switched_steps(result: RegionalCircuitsResult, switched: SwitchedSteps) -> tuple[Violation, ...]:
    """Return the violations of ports: other circuits than the plan has, a port twice, more changes than necessary."""
    log, plan = ViolationLog(), result.plan
    assert result.problem is not None
    owner = [server for server, count in enumerate(result.problem.ports) for _ in range(count)]
    if len(switched.steps) != len(plan.steps):
        log.add("step-circuits", f"{len(switched.steps)} steps, the solution has {len(plan.steps)}")
        return log.findings().violations
    lit: set[int] = set()
    previous: Counter[tuple[int, int]] = Counter()
    for k, (step, topology) in enumerate(zip(switched.steps, plan.steps, strict=True)):
        ports = [port for circuit in step.lit for port in switched.circuits[circuit]]
        if len(set(ports)) < len(ports) or not set(ports) <= set(range(len(owner))):
            log.add("step-circuits", f"step {k}: a port twice, or one that the switch has not")
            break
        joined = Counter((owner[switched.circuits[c][0]], owner[switched.circuits[c][1]]) for c in step.lit)
        planned = Counter({(first, second): count for first, second, count in plan.topologies[topology]})
        if joined != planned:
            log.add("step-circuits", f"step {k}: other circuits than those of the solution")
        if set(step.connect) != set(step.lit) - lit or set(step.disconnect) != lit - set(step.lit):
            log.add("step-circuits", f"step {k}: changes that do not lead to its circuits")
        if len(step.connect) != (planned - previous).total():
            log.add("step-circuits", f"step {k}: more circuits are set than need be")
        lit, previous = set(step.lit), planned
    return log.findings().violations
