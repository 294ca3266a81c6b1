r"""A schedule in a given number of steps, as a mixed-integer program: whole chunks, the fullest link of each step.

    minimise  sum_t U_t
    s.t.      sum_c F[c,e,t] <= rate_e U_t                          every link e, every step t
              F[c,ij,t] <= most_ij B[c,i,t]                         i a rank: it has the chunk before the step
              sum_j F[c,wj,t] = sum_i F[c,iw,t]                     w a switch: it holds nothing
              F[c,wj,t] <= sum_i F[c,iw,t]                          instead, where switches copy
              B[c,j,t+1] <= B[c,j,t] + sum_i F[c,ij,t]              B[c,.,0] = [owner], B[c,.,S] = 1 at all ranks
              B in {0, 1}, F in {0, .., most}, U >= 0

most is 1, but N - 1 into switches that do not copy. Time-expanded in the steps of a synchronous schedule (the variables
of SCCL and TE-CCL); exact, and for small cases only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Families
from topoopt.core.arrays import Floats, Ints
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
