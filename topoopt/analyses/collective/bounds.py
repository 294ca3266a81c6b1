"""Bounds say what any schedule of a collective can reach on a network, which is an instance, a file, or text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from solvers.collective.best_rates import limiting, pair_bound
from solvers.collective.breadth_first import step_loads
from solvers.stop import Stop
from topoopt.core.arrays import Ints
from topoopt.core.collective import CollectiveOp, CollectiveProblem, bus_factor
from topoopt.core.errors import InputError, Problem
from topoopt.core.proofs import StopReason
from topoopt.core.rated_network import PRESETS, RatedNetwork
from topoopt.files.codec import FileModel
from topoopt.files.documents import parse_yaml
from topoopt.files.graph_files import IMPORTED
from topoopt.files.reader_fields import Findings, within
from topoopt.files.sections import FileNetwork, RatedSection, network_of
from topoopt.kinds.collective.figures import rate_sentence
from topoopt.page.text import counted, precise
from topoopt.verify.collective import all_to_all_units, bandwidth_us, slowest_message_us

Note = Callable[[str], None]

NETWORK_FILES = (".graphml", ".csv", ".txt")


class InlineNetwork(FileModel):
    """A section `topology` alone."""

    topology: RatedSection = Field()


def network_argument(text: str, note: Note, rate_attribute: str | None = None) -> RatedNetwork:
    """The network that an argument names.

    Args:
        text: an instance file of kind collective, a GraphML file, a table of links, or a section as in instance files:
            `{preset: dgx-a100, boxes: 2}`, `family: torus, dims: [4, 4]`; or the name of a preset.
        note: takes what is worth telling of how a file was read.
        rate_attribute: of links in a network file.

    Raises:
        InputError: neither, or everything wrong with it.
    """
    path = Path(text)
    if text in PRESETS and not _is_file(text):
        text = f"preset: {text}"
    inline = ":" in text and not _is_file(text)
    if not inline and path.suffix.lower() in (*NETWORK_FILES, *IMPORTED):
        section = FileNetwork(file=path.name, rate_attribute=rate_attribute)
        return within("topology", lambda: network_of(section, path.parent, note=note))
    if rate_attribute is not None:
        allowed = f"beside a network file ({', '.join(NETWORK_FILES)})"
        raise InputError([Problem("plays no part", path="--set rate_attribute", value=rate_attribute, allowed=allowed)])
    if inline:
        return _inline(text, note)
    from topoopt.kinds.files import read_instance

    problem = read_instance(path)
    network = getattr(problem, "network", None)
    if not isinstance(network, RatedNetwork):
        raise InputError([Problem("not an instance of kind collective", file=text)])
    for line in getattr(problem, "notes", ()):
        note(line)
    fields = {"groups": "groups", "multicast": "switches.multicast", "message_us": "latency_us.message"}
    given = [path for name, path in fields.items() if getattr(problem, name, None)]
    given += ["relaying: false"] if not getattr(problem, "relaying", True) else []
    if given:
        note(f"of the instance the network and its members count alone; these play no part: {', '.join(given)}")
    return network


def _is_file(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # longer than any name, or with characters of none
        return False


def _inline(text: str, note: Note) -> RatedNetwork:
    section = text if text.lstrip().startswith("{") else "{" + text + "}"
    document = replace(parse_yaml(f"topology: {section}", 100_000), file="TOPOLOGY")
    findings = Findings()
    file = findings.shaped(InlineNetwork, document)
    network = findings.attempt(
        lambda: within("topology", lambda: network_of(file.topology, Path(), note=note)), ("topology",)
    )
    findings.refuse(document)
    assert network is not None
    return network


MOST_PAIR_COLUMNS = 600_000
"""Ranks times links up to which All-to-All is bounded without being asked for."""


@dataclass(frozen=True)
class NetworkBounds:
    """Best rates of collectives, each re-derived from its proof in rationals.

    Attributes:
        ratio: ranks over rate of the limiting cut, 1 / (GB/s); an AllGather of M bytes takes (M/N) ratio.
        allgather_rate: N / ratio, GB/s of the whole vector.
        allreduce_rate: upper bound X on the rate of AllReduce, which trees reach; None where it was not asked for, or
            an interrupt came before.
        all_to_all_lambda: upper bound on the rate of every ordered pair, GB/s; None where it was not asked for.
        all_to_all_reached: rate of every ordered pair that flows reach, GB/s: the same where linear programming tells.
        cut: names of the nodes of the limiting set, and the cut in words.
        stopped_by: what ended the search for better bounds of AllReduce and All-to-All.
        links: kinds of links that limit each collective, in words.
    """

    ratio: Fraction
    allgather_rate: Fraction
    allreduce_rate: Fraction | None
    all_to_all_lambda: float | None
    all_to_all_reached: float | None
    cut: tuple[str, ...]
    words: str
    stopped_by: StopReason
    links: Mapping[CollectiveOp, str]

    @property
    def allreduce_gain(self) -> float | None:
        """The rate of AllReduce over that of a ReduceScatter and an AllGather with roots used equally."""
        return None if self.allreduce_rate is None else float(2 * self.allreduce_rate / self.allgather_rate)

    @property
    def all_to_all_gap(self) -> float:
        """Part of the bound on All-to-All that is not known to be reached."""
        if self.all_to_all_lambda is None or self.all_to_all_reached is None:
            return 0.0
        return 1 - self.all_to_all_reached / self.all_to_all_lambda

    def document(self) -> dict[str, Any]:
        return {
            "ratio": str(self.ratio),
            "allgather_rate": float(self.allgather_rate),
            "allreduce_rate": None if self.allreduce_rate is None else float(self.allreduce_rate),
            "allreduce_rate_exact": None if self.allreduce_rate is None else str(self.allreduce_rate),
            "allreduce_gain": self.allreduce_gain,
            "all_to_all_lambda": self.all_to_all_lambda,
            "all_to_all_reached": self.all_to_all_reached,
            "cut": list(self.cut),
            "cut_in_words": self.words,
            "stopped_by": self.stopped_by.value,
        }


def network_bounds(
    network: RatedNetwork, stop: Stop, *, all_to_all: bool | None = None, allreduce: bool = True
) -> NetworkBounds:
    """Best rates on a network.

    Args:
        all_to_all: whether to bound that too; None: where the network is not too large.
        allreduce: whether to solve the program of AllReduce.
    """
    unit, ranks = network.unit_gbytes_per_s, len(network.ranks)

    def problem(collective: CollectiveOp) -> CollectiveProblem:
        return CollectiveProblem("bound", network, collective, 10**9)

    gathered = problem(CollectiveOp.ALLGATHER)
    certificates = limiting(gathered, stop)
    nodes = certificates[-1]["nodes"].tolist()
    rate = Fraction(10**6) / bandwidth_us(gathered, certificates)
    words = rate_sentence(network, nodes)
    links = {CollectiveOp.ALLGATHER: words, CollectiveOp.REDUCE_SCATTER: words}
    if all_to_all is None:
        all_to_all = ranks * len(network.arcs) <= MOST_PAIR_COLUMNS
    if stop.reason() is StopReason.INTERRUPTED:
        all_to_all = allreduce = False
    pairs = reached = both = None
    if all_to_all:
        lengths, pair_rate = pair_bound(problem(CollectiveOp.ALL_TO_ALL), stop)
        pairs = float(all_to_all_units(network, lengths.tolist(), relaying=True) * unit)
        reached = min(pair_rate * float(unit), pairs)
        links[CollectiveOp.ALL_TO_ALL] = longest_links(network, lengths)
    if allreduce:
        summed = problem(CollectiveOp.ALLREDUCE)
        proof = limiting(summed, stop)
        both = Fraction(10**6) / bandwidth_us(summed, proof)
        links[CollectiveOp.ALLREDUCE] = longest_links(network, proof[0]["lengths"])
    return NetworkBounds(
        ranks / rate,
        rate,
        both,
        pairs,
        reached,
        tuple(network.names[node] for node in nodes),
        words,
        stop.reason() or StopReason.CONVERGED,
        links,
    )


def longest_links(network: RatedNetwork, lengths: Ints) -> str:
    """What the links of a proof are: those whose rates times lengths are most, by the ends and the rate."""
    weight = lengths * network.units.astype(np.float64)
    counts: dict[tuple[str, str, float], list[float]] = {}
    for arc in np.flatnonzero(weight > 0).tolist():
        tail, head = network.arcs[arc].tolist()
        ends = tuple("a switch" if network.is_switch[node] else "a rank" for node in (tail, head))
        counts.setdefault((*ends, float(network.gbytes_per_s[arc])), []).append(float(weight[arc]))  # type: ignore[arg-type]
    (tail, head, rate), own = max(counts.items(), key=lambda item: sum(item[1]))
    return f"{counted(len(own), 'link')} of {precise(rate)} GB/s from {tail} to {head}"


def bound_rows(network: RatedNetwork, bounds: NetworkBounds, sizes: Sequence[int], only: str | None) -> list[BoundRow]:
    """Return a row for each collective and size: the least time, and what is measured at best.

    Args:
        network: whose latencies count.
        bounds: of its rates.
        sizes: bytes of the vector; in an All-to-All of what every rank sends.
        only: the collective that is asked for; None: all that are bounded.
    """
    ranks = len(network.ranks)
    rates: dict[CollectiveOp, float | None] = {
        CollectiveOp.ALLREDUCE: None if bounds.allreduce_rate is None else float(bounds.allreduce_rate),
        CollectiveOp.ALLGATHER: float(bounds.allgather_rate),
        CollectiveOp.REDUCE_SCATTER: float(bounds.allgather_rate),
        CollectiveOp.ALL_TO_ALL: None if bounds.all_to_all_lambda is None else ranks * bounds.all_to_all_lambda,
    }
    rows = []
    for collective, rate in rates.items():
        if rate is None or only not in (None, collective.value):
            continue
        slowest = slowest_message_us(CollectiveProblem("bound", network, collective, 1))
        for size in sizes:
            time_us = max(size / rate / 1e3 + float(network.latency_us.min()), slowest)
            algbw = size / time_us / 1e3
            busbw = algbw * bus_factor(collective, ranks)
            rows.append(BoundRow(collective.value, size, time_us, algbw, busbw, bounds.links[collective]))
    return rows


@dataclass(frozen=True)
class BoundRow:
    """The least time of a collective of one size, the bandwidths as nccl-tests states them, and what limits them."""

    collective: str
    bytes: int
    time_us: float
    algbw_gbytes_per_s: float
    busbw_gbytes_per_s: float
    limited_by: str


def breadth_first_figures(network: RatedNetwork) -> dict[str, Any]:
    """Steps and bandwidth factor T_B of balanced breadth-first broadcasts: time = steps alpha + T_B M / B.

    B is the rate into a rank; the factor is stated where it is the same for all.

    Raises:
        InputError: a network with switches.
    """
    try:
        loads, _ = step_loads(network)
    except ValueError as error:
        raise InputError([Problem(str(error), path="--method", value="bfb")]) from None
    into = np.bincount(network.arcs[:, 1], network.units, network.nodes)
    factor = None
    if into.min() == into.max():
        factor = str(Fraction(int(into[0]), network.nodes) * sum(loads))
    return {"steps": len(loads), "loads": [str(load) for load in loads], "bandwidth_factor": factor}


def bounds_answer(bounds: NetworkBounds, ranks: int, collective: str | None) -> str:
    """The bounds that were derived.

    Args:
        collective: collective that was asked for; None: all.
    """
    parts = []
    if collective in (None, "allgather", "reduce-scatter"):
        named = {"allgather": "AllGather", "reduce-scatter": "ReduceScatter"}.get(
            collective or "", "AllGather or ReduceScatter"
        )
        parts.append(f"{precise(float(bounds.allgather_rate))} GB/s for {named}")
    if bounds.allreduce_rate is not None:
        parts.append(f"{precise(float(bounds.allreduce_rate))} GB/s for AllReduce")
    if bounds.all_to_all_lambda is not None:
        parts.append(f"{precise(bounds.all_to_all_lambda)} GB/s for each ordered pair of an All-to-All")
    listed = parts[-1] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"No schedule over these {counted(ranks, 'rank')} exceeds {listed} (proven)."
