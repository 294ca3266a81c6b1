"""Collectives as functions: bounds, topologies made for them, and audits of schedules, as the commands have them."""

from __future__ import annotations

import warnings
from pathlib import Path

from solvers.stop import Stop
from topoopt.analyses.collective import collection_halted
from topoopt.analyses.collective.audits import Audit, AuditSettings, audit
from topoopt.analyses.collective.bounds import NetworkBounds, network_argument, network_bounds
from topoopt.analyses.collective.search import PREFERENCES, TopologyFront, Wanted, find_front
from topoopt.core.cluster import LinkDirection
from topoopt.core.collective import CollectiveProblem, DeclaredFigures
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.rated_network import RatedNetwork
from topoopt.formats.schedules import NAMES, SCHEDULES, ScheduleOptions, collective_named
from topoopt.kinds.collective.read import CollectiveInstance
from topoopt.library.calls import problem_of

Network = str | RatedNetwork | CollectiveProblem | CollectiveInstance
"""What `topoopt collective bound` takes, or a problem or instance of kind `collective`, or its network."""


def collective_bounds(network: Network, *, time_limit_s: float | None = None) -> NetworkBounds:
    """Best rates of AllGather, AllReduce and All-to-All on a network, GB/s, and the cut that limits them.

        topoopt.collective_bounds("preset: dgx-a100, boxes: 2").allgather_rate

    Args:
        network: an instance or network file, a section `topology` as text, or a problem of kind `collective`.
        time_limit_s: seconds.

    Raises:
        InputError: no such network.
        LimitError: stopped before anything was proven.
    """
    return network_bounds(_network(network), Stop().within(time_limit_s))


def find_topologies(
    servers: int,
    degree: int,
    *,
    links: str = "bidirectional",
    prefer: str = "bandwidth",
    visits: int | None = None,
    seed: int = 0,
    time_limit_s: float | None = None,
) -> TopologyFront:
    """The Pareto front over steps, bandwidth factor and All-to-All rate of topologies made for collectives.

        front = topoopt.find_topologies(64, 4, links="unidirectional")
        front.preferred.steps, front.preferred.bandwidth, front.limits

    Args:
        servers: n; degree: d links of each.
        links: `bidirectional` (fibre pairs) or `unidirectional`.
        prefer: what `preferred` is best in: `steps`, `bandwidth` or `all-to-all`.
        visits: links followed in a search beyond the atlas; None: a search only where the atlas does not know the size.
        seed: of the search.
        time_limit_s: seconds.

    Raises:
        InputError: a value that is out of range or unknown.
        InfeasibleError: no connected network was found.
    """
    problems = [
        Problem(f"unknown {what}", path=what, value=value, allowed=", ".join(allowed))
        for what, value, allowed in (("links", links, list(LinkDirection)), ("prefer", prefer, list(PREFERENCES)))
        if value not in allowed
    ]
    problems += [
        Problem("out of range", path=what, value=str(value), allowed=f"at least {least}")
        for what, value, least in (("servers", servers, 2), ("degree", degree, 1))
        if value < least
    ]
    raise_any(problems)
    wanted = Wanted(servers, degree, LinkDirection(links))
    return find_front(wanted, Stop().within(time_limit_s), visits=visits, seed=seed, preference=PREFERENCES[prefer])


def audit_schedule(
    schedule: str | Path,
    form: str,
    *,
    network: Network | None = None,
    collective: str | None = None,
    root: int = 0,
    vector_bytes: float | None = None,
    claimed_gbytes_per_s: float | None = None,
    multicast: bool = False,
    relaying: bool = False,
    message_us: float = 0.0,
    time_limit_s: float | None = None,
) -> Audit:
    """A verdict on a schedule in a file of another tool, with reasons, times and the bound in its `document`.

    Args:
        schedule: file, or folder or prefix of .et files.
        form: msccl, mscclpp, teccl, forestcoll, sccl or chakra.
        network: where it runs; None: that of the file, or semantics alone.
        collective, root, vector_bytes: where the file does not say.
        claimed_gbytes_per_s: a claim to be held against what is recomputed.
        multicast: switches copy; relaying: ranks pass on what is not for them.
        message_us: of every message besides its bytes.
        time_limit_s: seconds, for the bound.

    Raises:
        InputError: no such file, format, collective, network or root.
        LimitError: the order of its actions takes too long to be examined.
    """
    if form not in SCHEDULES:
        raise InputError([Problem("no such format", path="form", value=form, allowed=", ".join(SCHEDULES))])
    wanted = None if collective is None else collective_named(collective)
    if collective is not None and wanted is None:
        allowed = ", ".join(collective_name.value for collective_name in NAMES.values())
        raise InputError([Problem("no such collective", path="collective", value=collective, allowed=allowed)])
    placement = None if network is None else _network(network)
    declared = DeclaredFigures(vector_bytes, None, claimed_gbytes_per_s)
    settings = AuditSettings(multicast, relaying, message_us, declared, root)
    with collection_halted():
        program = SCHEDULES[form](Path(schedule), ScheduleOptions(wanted, root))
        if not 0 <= root < min(len(program.ranks), len(program.ranks if placement is None else placement.ranks)):
            raise InputError([Problem("no such rank", path="root", value=str(root))])
        return audit(program, placement, settings, Stop().within(time_limit_s))


def _network(given: Network) -> RatedNetwork:
    if isinstance(given, CollectiveProblem | CollectiveInstance):
        network: RatedNetwork = problem_of(given).network
        return network
    if isinstance(given, RatedNetwork):
        return given
    return network_argument(given, lambda text: warnings.warn(text, stacklevel=4))
