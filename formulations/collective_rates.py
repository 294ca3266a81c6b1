"""Programs of collectives: the best rates of All-to-All and AllReduce, and schedules of whole chunks in given steps.

all_to_all_rate
---------------
The best rate of All-to-All: every rank sends the same to every other, split over paths, within the rates of
links.

    maximise  lambda
    (1) fit        sum_s flow[s,e] <= c[e]                                        every link e
    (2) conserve   sum_{e into v} flow[s,e] - sum_{e out of v} flow[s,e] = lambda    every source s, every rank v but s
                   sum_{e into w} flow[s,e] - sum_{e out of w} flow[s,e] = 0         every switch w
    flow >= 0

flow[s,.] is what rank s sends, aggregated over destinations; none comes back to s, and where ranks do not relay it
leaves no rank but s. Columns: flow by source and link, then lambda; rows: (1) by link, (2) by source and node. With one
source alone the same is the best rate of a broadcast to ranks that each get a message of their own.

allreduce_roots
---------------
The best rate of AllReduce: pieces go up in-trees to roots and down from them, roots used unequally.

    maximise  sum_v root[v]
    (1) fit                broadcast[e] + reduce[e] <= c[e]                        every link e
    (2) broadcast_balance  sum_{e out of w} broadcast[e] - sum_{e into w} broadcast[e] = 0    every switch w
    (3) reduce_balance     sum_{e out of w} reduce[e] - sum_{e into w} reduce[e] = 0          every switch w
    (4) leave              sum_{e out of A} broadcast[e] - sum_{v in A} root[v] >= 0      every set A that holds some
    (5) reach              sum_{e into A} reduce[e] - sum_{v in A} root[v] >= 0           ranks and not all
    all >= 0

root[v] is the rate rooted at rank v, broadcast[e] what broadcasts put on a link, reduce[e] what reductions do. By
Edmonds' theorem trees exist for any such loads; at switches they are split off first. Columns: broadcast and reduce by
link, root by rank. Solvers add rows (4) and (5) where they are violated; written out, there are two a set.

step_schedule
-------------
A schedule in a given number of steps, as a mixed-integer program: whole chunks, the fullest link of each step.

    minimise  sum_t load[t]
    (1) full    sum_c sent[c,e,t] - rate[e] load[t] <= 0                 every link e, every step t
    (2) there   sent[c,ij,t] - most[ij] has[c,i,t] <= 0                  i a rank: it has the chunk before the step
    (3) pass    sum_j sent[c,wj,t] - sum_i sent[c,iw,t] = 0              w a switch: it holds nothing
    (4) copy    sent[c,wj,t] - sum_i sent[c,iw,t] <= 0                   instead of (3), where switches copy
    (5) gain    has[c,j,t+1] - has[c,j,t] - sum_i sent[c,ij,t] <= 0      every node j
    has[c,i,0] = 1 at the owner alone, has[c,i,S] = 1 at all ranks, 0 at switches
    has in {0, 1}, sent in {0, .., most}, load >= 0

most is 1, but N - 1 into switches that do not copy. Time-expanded in the steps of a synchronous schedule (the variables
of SCCL and TE-CCL); exact, and for small cases only. Columns: sent by chunk, link, step; has by chunk, node, step; load
by step.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from formulations.programs import Families, LpArrays, with_names
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.collective import CollectiveProblem
from topoopt.core.errors import InputError, Problem
from topoopt.core.rated_network import RatedNetwork

Arc = tuple[int, int]


def allowed_arcs(network: RatedNetwork, rank: int, *, relaying: bool) -> Ints:
    """int64, arcs that what a rank sends may use: none back to it, and none out of other ranks that do not relay."""
    tails, heads = network.arcs[:, 0], network.arcs[:, 1]
    usable = heads != rank
    if not relaying:
        usable &= network.is_switch[tails] | (tails == rank)
    return np.flatnonzero(usable)


def all_to_all_rate_arrays(
    network: RatedNetwork, capacity: Floats, *, relaying: bool = True, source: int | None = None
) -> tuple[LpArrays, Ints]:
    """The program, minimising -lambda; the last column is lambda, the first rows are the links.

    Args:
        network: whose arcs and switches count.
        capacity: float64[m], in any unit.
        relaying: whether ranks pass on what others send.
        source: the only rank that sends; None: all do.

    Returns:
        The program, and int64[sources, m], the column of what each source (row) sends over each arc; -1 where it
        may not.
    """
    program = Families()
    links = program.rows(len(network.arcs), -np.inf, capacity)
    sources = network.ranks.tolist() if source is None else [source]
    sent = [_source_flow(program, links, network, rank, relaying=relaying) for rank in sources]
    rate = program.columns(1, cost=-1.0)
    for rank, (_, arrival) in zip(sources, sent, strict=True):
        program.terms(arrival[np.setdiff1d(network.ranks, [rank])], rate[0], -1.0)
    return program.arrays(), np.array([columns for columns, _ in sent])


def all_to_all_rate_names(network: RatedNetwork, *, relaying: bool = True) -> tuple[list[str], list[str]]:
    """Names: columns `flow_s_i_j`, `lambda`; rows `fit_i_j`, `conserve_s_v`."""
    arcs = [f"{tail}_{head}" for tail, head in network.arcs.tolist()]
    ranks = network.ranks.tolist()
    usable = {rank: allowed_arcs(network, rank, relaying=relaying).tolist() for rank in ranks}
    columns = [f"flow_{rank}_{arcs[arc]}" for rank in ranks for arc in usable[rank]]
    rows = [f"conserve_{rank}_{node}" for rank in ranks for node in range(network.nodes) if node != rank]
    return [*columns, "lambda"], [f"fit_{arc}" for arc in arcs] + rows


def all_to_all_rate_from_collective(problem: CollectiveProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of the network of an instance, capacities in GB/s, whatever its collective."""
    program, _ = all_to_all_rate_arrays(problem.network, problem.network.gbytes_per_s, relaying=problem.relaying)
    return with_names(program, *all_to_all_rate_names(problem.network, relaying=problem.relaying))


def build_straight_allreduce(network: RatedNetwork, capacity: Floats) -> LpArrays:
    """The best rate of AllReduce where ranks do not relay: what is rooted at a rank comes straight to it and goes back.

        maximise  sum_v x_v
        s.t.      inflow - outflow of f_s at v = x_v     what s sends to be summed at v
                  inflow - outflow of g_s at v = x_s     what s has summed
                  both 0 at switches,  sum_s (f_s,e + g_s,e) <= c_e

    The first rows are the links; arguments as of `build`.
    """
    program = Families()
    links = program.rows(len(network.arcs), -np.inf, capacity)
    rooted = np.full(network.nodes, -1)
    rooted[network.ranks] = program.columns(len(network.ranks), cost=-1.0)
    for rank in network.ranks.tolist():
        others = np.setdiff1d(network.ranks, [rank])
        for at in (rooted[others], rooted[[rank]]):
            _, arrival = _source_flow(program, links, network, rank, relaying=False)
            program.terms(arrival[others], at, -1.0)
    return program.arrays()


def _source_flow(
    program: Families, links: Ints, network: RatedNetwork, rank: int, *, relaying: bool
) -> tuple[Ints, Ints]:
    """What a rank sends: its columns, int64[m], -1 where it may not; its rows of balance, int64[V], -1 at the rank."""
    usable = allowed_arcs(network, rank, relaying=relaying)
    columns = program.columns(len(usable))
    program.terms(links[usable], columns, 1.0)
    row = np.insert(program.rows(network.nodes - 1, 0.0, 0.0), rank, -1)
    program.terms(row[network.arcs[usable, 1]], columns, 1.0)
    leaving = network.arcs[usable, 0] != rank
    program.terms(row[network.arcs[usable[leaving], 0]], columns[leaving], -1.0)
    flow = np.full(len(network.arcs), -1, dtype=np.int64)
    flow[usable] = columns
    return flow, row


MOST_NODES = 12
"""Nodes of a network up to which the rows of all sets are written out."""


def allreduce_roots_arrays(network: RatedNetwork, capacity: Floats) -> LpArrays:
    """The program without rows of sets, minimising -sum x; columns g, h [m each], x [N].

    Args:
        network: whose arcs and switches count.
        capacity: float64[m], in any unit.
    """
    m = len(network.arcs)
    program = Families()
    broadcast, reduced = program.columns(m), program.columns(m)
    program.columns(len(network.ranks), cost=-1.0)
    rows = program.rows(m, -np.inf, capacity)
    for column in (broadcast, reduced):
        program.terms(rows, column, 1.0)
    number = np.full(network.nodes, -1)
    number[network.is_switch] = np.arange(int(network.is_switch.sum()))
    for column in (broadcast, reduced):
        balance = program.rows(int(network.is_switch.sum()), 0.0, 0.0)
        for end, sign in ((0, 1.0), (1, -1.0)):
            at = number[network.arcs[:, end]]
            program.terms(balance[at[at >= 0]], column[at >= 0], sign)
    return program.arrays()


def set_row(network: RatedNetwork, side: Bools, *, reduce: bool) -> tuple[Floats, Floats]:
    """Columns and coefficients of the row >= 0 of a set of nodes, bool[V]."""
    tail, head = side[network.arcs[:, 0]], side[network.arcs[:, 1]]
    crossing = np.flatnonzero(~tail & head) + len(network.arcs) if reduce else np.flatnonzero(tail & ~head)
    inside = np.flatnonzero(side[network.ranks]) + 2 * len(network.arcs)
    return np.concatenate((crossing, inside)), np.concatenate((np.ones(len(crossing)), -np.ones(len(inside))))


def sets_of(network: RatedNetwork) -> Iterator[tuple[int, ...]]:
    """All sets of nodes that hold some ranks and not all, small ones first."""
    ranks = set(network.ranks.tolist())
    for size in range(1, network.nodes):
        for nodes in itertools.combinations(range(network.nodes), size):
            if 0 < len(ranks.intersection(nodes)) < len(ranks):
                yield nodes


def build_whole(network: RatedNetwork, capacity: Floats) -> LpArrays:
    """The named program with the rows of all sets; of small networks."""
    made = Families.extending(with_names(allreduce_roots_arrays(network, capacity), *allreduce_roots_names(network)))
    for nodes in sets_of(network):
        side = np.isin(np.arange(network.nodes), nodes)
        text = "_".join(map(str, nodes))
        for name, reduce in (("leave", False), ("reach", True)):
            columns, values = set_row(network, side, reduce=reduce)
            row = made.rows(1, 0.0, np.inf, names=[f"{name}_{text}"])
            made.terms(row, columns.astype(np.int64), values)
    return made.arrays()


def allreduce_roots_names(network: RatedNetwork) -> tuple[list[str], list[str]]:
    """Names of the program without rows of sets."""
    arcs = [f"{tail}_{head}" for tail, head in network.arcs.tolist()]
    kinds = ("broadcast", "reduce")
    columns = [f"{kind}_{arc}" for kind in kinds for arc in arcs] + [f"root_{rank}" for rank in network.ranks]
    switches = np.flatnonzero(network.is_switch).tolist()
    return columns, [f"fit_{arc}" for arc in arcs] + [f"{kind}_balance_{w}" for kind in kinds for w in switches]


def allreduce_roots_from_collective(problem: CollectiveProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of the network of an instance, capacities in GB/s, whatever its collective.

    Raises:
        InputError: more nodes than sets can be written out for.
    """
    network = problem.network
    if network.nodes > MOST_NODES:
        text = "too many nodes to write out the rows of all sets"
        raise InputError([Problem(text, path="topology", value=str(network.nodes), allowed=f"2 to {MOST_NODES}")])
    return build_whole(network, network.gbytes_per_s)


def step_schedule_arrays(
    network: RatedNetwork, owners: Ints, rate: Floats, steps: int, *, multicast: bool = False
) -> tuple[LpArrays, Ints, Ints]:
    """The program, its columns F, int64[chunks, m, steps], and its columns U, int64[steps].

    Args:
        owners: int64[chunks], the rank that has each chunk at the beginning.
        rate: float64[m], of links, chunks a unit of load.
        steps: S.
        multicast: whether switches copy.
    """
    m, chunks, ranks = len(network.arcs), len(owners), network.ranks
    program = Families()
    tails, heads = network.arcs.T.astype(np.int64)
    most = np.where(network.is_switch[heads] & (not multicast), len(ranks) - 1.0, 1.0)
    sent = program.columns((chunks, m, steps), upper=most[:, None], integer=True)
    lower = np.zeros((chunks, network.nodes, steps + 1))
    upper = np.ones((chunks, network.nodes, steps + 1))
    upper[:, network.is_switch] = 0.0
    upper[:, :, 0] = 0.0
    upper[np.arange(chunks), owners, 0] = 1.0
    lower[np.arange(chunks), owners] = 1.0
    lower[:, ranks, steps] = 1.0
    has = program.columns((chunks, network.nodes, steps + 1), lower=lower, upper=upper, integer=True)
    load = program.columns(steps, cost=1.0)
    rows = program.rows((m, steps), -np.inf, 0.0)
    program.terms(rows[None], sent, 1.0)
    program.terms(rows, load[None, :], -rate[:, None])
    from_rank = np.flatnonzero(~network.is_switch[tails])
    rows = program.rows((chunks, len(from_rank), steps), -np.inf, 0.0)
    program.terms(rows, sent[:, from_rank], 1.0)
    program.terms(rows, has[:, tails[from_rank], :-1], -most[from_rank, None])
    for switch in np.flatnonzero(network.is_switch).tolist():
        into, out = np.flatnonzero(heads == switch), np.flatnonzero(tails == switch)
        if multicast:
            rows = program.rows((chunks, len(out), steps), -np.inf, 0.0)
            program.terms(rows, sent[:, out], 1.0)
            program.terms(rows[:, :, None], sent[:, None, into], -1.0)
        else:
            rows = program.rows((chunks, steps), 0.0, 0.0)
            program.terms(rows[:, None], sent[:, out], 1.0)
            program.terms(rows[:, None], sent[:, into], -1.0)
    rows = program.rows((chunks, network.nodes, steps), -np.inf, 0.0)
    program.terms(rows, has[:, :, 1:], 1.0)
    program.terms(rows, has[:, :, :-1], -1.0)
    program.terms(rows[:, heads], sent, -1.0)
    return program.arrays(), sent, load


def step_schedule_names(
    network: RatedNetwork, chunks: int, steps: int, *, multicast: bool = False
) -> tuple[list[str], list[str]]:
    """Names: columns `sent_c_i_j_t`, `has_c_v_t`, `load_t`; rows `full_i_j_t`, `there_c_i_j_t`, `pass_c_w_t` or
    `copy_c_w_j_t`, `gain_c_v_t`."""
    links = network.arcs.tolist()
    arcs = [f"{tail}_{head}" for tail, head in links]
    all_chunks, nodes, times = range(chunks), range(network.nodes), range(steps)
    columns = [f"sent_{c}_{arc}_{t}" for c in all_chunks for arc in arcs for t in times]
    columns += [f"has_{c}_{v}_{t}" for c in all_chunks for v in nodes for t in range(steps + 1)]
    columns += [f"load_{t}" for t in times]
    rows = [f"full_{arc}_{t}" for arc in arcs for t in times]
    own = [arc for arc, (tail, _) in zip(arcs, links, strict=True) if not network.is_switch[tail]]
    rows += [f"there_{c}_{arc}_{t}" for c in all_chunks for arc in own for t in times]
    for switch in np.flatnonzero(network.is_switch).tolist():
        if multicast:
            out = [head for tail, head in links if tail == switch]
            rows += [f"copy_{c}_{switch}_{head}_{t}" for c in all_chunks for head in out for t in times]
        else:
            rows += [f"pass_{c}_{switch}_{t}" for c in all_chunks for t in times]
    return columns, rows + [f"gain_{c}_{v}_{t}" for c in all_chunks for v in nodes for t in times]


def step_schedule_from_collective(problem: CollectiveProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an AllGather of one chunk a rank on the network of an instance, rates in GB/s."""
    network, steps = problem.network, int(options["steps"])
    program, *_ = step_schedule_arrays(network, network.ranks, network.gbytes_per_s, steps, multicast=problem.multicast)
    return with_names(program, *step_schedule_names(network, len(network.ranks), steps, multicast=problem.multicast))
