"""A schedule in a given number of steps, as a mixed-integer program: whole chunks, the fullest link of each step.

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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from formulations.collective.all_to_all_rate import network_model
from formulations.parts.arrays import LpArrays, with_names
from formulations.parts.rows import Families
from topoopt.core.arrays import Floats, Ints
from topoopt.core.collective import CollectiveProblem
from topoopt.core.rated_network import RatedNetwork


@dataclass(frozen=True, eq=False)
class StepProgram:
    """The program.

    Attributes:
        arrays: of it.
        sent: int64[chunks, m, steps], columns F.
        load: int64[steps], columns U.
    """

    arrays: LpArrays
    sent: Ints
    load: Ints


def build(network: RatedNetwork, owners: Ints, rate: Floats, steps: int, *, multicast: bool = False) -> StepProgram:
    """Build the program.

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
    return StepProgram(program.arrays(), sent, load)


def names_of(network: RatedNetwork, chunks: int, steps: int, *, multicast: bool = False) -> tuple[list[str], list[str]]:
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


def from_collective(problem: CollectiveProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an AllGather of one chunk a rank on the network of an instance, rates in GB/s."""
    network, steps = problem.network, int(options["steps"])
    program = build(network, network.ranks, network.gbytes_per_s, steps, multicast=problem.multicast)
    return with_names(program.arrays, *names_of(network, len(network.ranks), steps, multicast=problem.multicast))


def build_pyomo(network: RatedNetwork, owners: Ints, rate: Floats, steps: int, *, multicast: bool = False) -> Any:
    """Build the model; arguments as of the array builder."""
    import pyomo.environ as pyo

    model, arcs, ranks = network_model(network)
    switches = np.flatnonzero(network.is_switch).tolist()
    chunks, times = range(len(owners)), range(steps)
    speed = dict(zip(arcs, rate.tolist(), strict=True))
    most = {arc: len(ranks) - 1 if arc[1] in switches and not multicast else 1 for arc in arcs}

    def fixed(_: Any, c: int, v: int, t: int) -> tuple[float, float]:
        has = v == owners[c] or (t == steps and v in ranks)
        return float(has), float(has or (t > 0 and v in ranks))

    model.sent = pyo.Var(
        chunks, arcs, times, domain=pyo.Integers, bounds=lambda _, c, i, j, t: (0.0, float(most[i, j]))
    )
    model.has = pyo.Var(chunks, range(network.nodes), range(steps + 1), domain=pyo.Integers, bounds=fixed)
    model.busiest = pyo.Var(times, domain=pyo.NonNegativeReals)

    @model.Constraint(arcs, times)  # type: ignore[untyped-decorator]
    def full(block: Any, i: int, j: int, t: int) -> Any:
        return sum(block.sent[c, i, j, t] for c in chunks) - speed[i, j] * block.busiest[t] <= 0.0

    @model.Constraint(chunks, [arc for arc in arcs if arc[0] in ranks], times)  # type: ignore[untyped-decorator]
    def there(block: Any, c: int, i: int, j: int, t: int) -> Any:
        return block.sent[c, i, j, t] - most[i, j] * block.has[c, i, t] <= 0.0

    @model.Constraint(chunks, range(network.nodes), times)  # type: ignore[untyped-decorator]
    def gain(block: Any, c: int, v: int, t: int) -> Any:
        come = sum(block.sent[c, i, j, t] for i, j in arcs if j == v)
        return block.has[c, v, t + 1] - block.has[c, v, t] - come <= 0.0

    def come(block: Any, c: int, w: int, t: int) -> Any:
        return sum(block.sent[c, i, j, t] for i, j in arcs if j == w)

    def passed(block: Any, c: int, w: int, t: int) -> Any:
        return sum(block.sent[c, i, j, t] for i, j in arcs if i == w) - come(block, c, w, t) == 0.0

    def copied(block: Any, c: int, w: int, j: int, t: int) -> Any:
        return block.sent[c, w, j, t] - come(block, c, w, t) <= 0.0

    if multicast:
        model.copy_rows = pyo.Constraint(chunks, [arc for arc in arcs if arc[0] in switches], times, rule=copied)
    else:
        model.pass_rows = pyo.Constraint(chunks, switches, times, rule=passed)
    model.least = pyo.Objective(expr=sum(model.busiest[t] for t in times), sense=pyo.minimize)
    return model
