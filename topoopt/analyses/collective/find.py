"""Which topologies suit collectives best: from the atlas at once, or by a search."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solvers.stop import Stop
from topoopt.analyses.collective.atlas import atlas, known_smaller
from topoopt.analyses.collective.candidates import found_topologies
from topoopt.analyses.collective.scores import ScoredTopology, TopologyLimits, Wanted, built, topology_limits
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.files.atomic import csv_text, write_text_atomically

SEARCH_VISITS = 20_000_000
"""Links followed in the search of a size that the atlas has not."""

NETWORK_FILES = (".csv", ".graphml")


@dataclass(frozen=True)
class AllReduceCost:
    """What makes steps and bandwidth factors into times.

    Attributes:
        vector_bytes: M.
        link_gbytes_per_s: rate of one link, GB/s.
        step_us: latency of a step.
    """

    vector_bytes: int
    link_gbytes_per_s: float
    step_us: float

    def time_us(self, wanted: Wanted, one: ScoredTopology) -> float:
        """AllReduce as a ReduceScatter and an AllGather: 2 T_L alpha + 2 T_B M / (d b)."""
        into = wanted.degree * self.link_gbytes_per_s
        return 2 * one.steps * self.step_us + 2 * float(one.bandwidth) * self.vector_bytes / into / 1e3


Preference = Callable[[ScoredTopology], Any]

PREFERENCES: Mapping[str, Preference] = {
    "steps": lambda one: (one.steps, one.bandwidth, -one.all_to_all),
    "bandwidth": lambda one: (one.bandwidth, one.steps, -one.all_to_all),
    "all-to-all": lambda one: (-one.all_to_all, one.steps, one.bandwidth),
}
"""What comes first; the others decide where that is equal."""


@dataclass(frozen=True)
class TopologyFront:
    """What was found for one size.

    Attributes:
        wanted: size, degree, links.
        limits: bounds over all topologies of the size.
        entries: the Pareto front, fewest steps first.
        searched: whether a search was made, or the atlas alone was asked.
        best: place in `entries` of the preferred one.
    """

    wanted: Wanted
    limits: TopologyLimits
    entries: tuple[ScoredTopology, ...]
    searched: bool
    best: int

    @property
    def preferred(self) -> ScoredTopology:
        """The one that was asked for."""
        return self.entries[self.best]


def find_front(
    wanted: Wanted, stop: Stop, *, visits: int | None, seed: int, preference: Preference = PREFERENCES["bandwidth"]
) -> TopologyFront:
    """The best known topologies of a size.

    Args:
        wanted: size, degree, links.
        stop: ends the search early.
        visits: links followed in a search beyond the atlas; None: a search where the atlas does not know the size.
        seed: of the search.
        preference: the smallest comes first.

    Raises:
        InputError: so few links cannot connect the servers, or more links than other servers.
        InfeasibleError: nothing was found.
    """
    if wanted.degree >= wanted.servers:
        allowed = f"1 to {wanted.servers - 1}"
        raise InputError(
            [Problem("more links than others", path="--degree", value=str(wanted.degree), allowed=allowed)]
        )
    try:
        limits = topology_limits(wanted)
    except ValueError as error:
        raise InputError([Problem(str(error), path="--degree", value=str(wanted.degree))]) from None
    known = atlas()
    entries = list(known.get(wanted, ()))
    searched = visits is not None or not entries
    if searched:
        effort = SEARCH_VISITS if visits is None else visits
        entries = found_topologies(wanted, known_smaller(known), stop, known=entries, visits=effort, seed=seed)
    if not entries and stop.reason() is not None:
        raise LimitError("nothing was found in time")
    if not entries:
        raise InfeasibleError(f"no connected network of {wanted.servers} servers with {wanted.degree} links was found")
    best = min(range(len(entries)), key=lambda place: preference(entries[place]))
    return TopologyFront(wanted, limits, tuple(entries), searched, best)


def recipe_text(recipe: Mapping[str, Any]) -> str:
    """As a section `topology` on one line, which commands and instance files take."""

    def text(value: Any) -> str:
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{key}: {text(inner)}" for key, inner in value.items()) + "}"
        return f"[{', '.join(map(text, value))}]" if isinstance(value, Sequence) and value != str(value) else str(value)

    return text(recipe)


def front_document(found: TopologyFront, cost: AllReduceCost | None) -> dict[str, Any]:
    """For programs; factors as text too."""
    wanted, limits = found.wanted, found.limits
    return {
        "kind": "collective-topologies",
        "servers": wanted.servers,
        "degree": wanted.degree,
        "links": wanted.links.value,
        "searched": found.searched,
        "limits": {
            "steps": limits.steps,
            "bandwidth_factor": str(limits.bandwidth),
            "all_to_all_rate": limits.all_to_all,
        },
        "front": [entry_document(found, one, cost) for one in found.entries],
        "best": found.best,
    }


def entry_document(found: TopologyFront, one: ScoredTopology, cost: AllReduceCost | None) -> dict[str, Any]:
    """One topology, its figures, and how far each is from its bound."""
    limits = found.limits
    times = {} if cost is None else {"allreduce_us": cost.time_us(found.wanted, one)}
    return {
        "steps": one.steps,
        "bandwidth_factor": str(one.bandwidth),
        "bandwidth_factor_value": float(one.bandwidth),
        "all_to_all_rate": one.all_to_all,
        "steps_above_moore": one.steps - limits.steps,
        "bandwidth_gap": float(one.bandwidth / limits.bandwidth - 1),
        "all_to_all_gap": max(1 - one.all_to_all / limits.all_to_all, 0.0),
        **times,
        "topology": dict(one.recipe),
        "topology_text": recipe_text(one.recipe),
    }


def front_csv(found: TopologyFront, cost: AllReduceCost | None) -> str:
    """The front as a table."""
    rows = [entry_document(found, one, cost) for one in found.entries]
    header = [key for key in rows[0] if key != "topology"]
    return csv_text(header, ([row[key] for key in header] for row in rows))


def write_network(file: Path, one: ScoredTopology, link_gbytes_per_s: float) -> None:
    """The topology as a network file that commands of collectives read, by the ending of its name.

    Raises:
        WriteError: it cannot be written.
    """
    graph = built(one.recipe)
    if file.suffix.lower() == ".graphml":
        import networkx as nx

        made: Any = nx.MultiDiGraph()
        made.add_nodes_from((str(node) for node in range(graph.servers)), role="rank")
        made.add_edges_from(((str(t), str(h)) for t, h in graph.arcs.tolist()), rate=link_gbytes_per_s)
        write_text_atomically(file, "\n".join(nx.generate_graphml(made)) + "\n")
        return
    rows = ((tail, head, link_gbytes_per_s) for tail, head in graph.arcs.tolist())
    comment = f"# {json.dumps(one.recipe)}\n"
    write_text_atomically(file, comment + csv_text(("tail", "head", "rate"), rows))
