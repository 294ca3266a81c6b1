"""A bound on every plan of a job from the strategy program: laws of the checker, multipliers of a solver.

The laws come from `topoopt.verify`, which proves them; the program finds multipliers; what they prove is evaluated by
`topoopt.verify` again. A solver that errs makes the bound weaker, never wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from formulations.job.strategy_choice import EventLaw, Quantity, StrategyChoice
from solvers.job.strategy_program import MOST_COEFFICIENTS, QUICK_COEFFICIENTS, prove
from topoopt.core.cluster import Cluster
from topoopt.core.proofs import Bound
from topoopt.core.strategy import StrategyCertificate
from topoopt.core.workload import Workload
from topoopt.verify.job.choices import Choices, choices_of
from topoopt.verify.job.instance_bounds import instance_bounds
from topoopt.verify.job.mirror import mirrored
from topoopt.verify.job.offset_classes import states_of
from topoopt.verify.job.strategy_certificate import at_root, strategy_bound
from topoopt.verify.job.strategy_laws import StrategyLaws, strategy_laws

MOST_SERVERS_APART = 128
"""Beyond, traffic is not told apart by even and odd servers: for DLRM on 432 and 1024 that proved no more."""


def program_of(laws: StrategyLaws) -> StrategyChoice:
    """The laws as a program; tables of zeros are left out."""
    known: dict[tuple[str, int], int] = {}
    quantities: list[Quantity] = []
    event_laws = []
    for law in laws.laws:
        terms: dict[int, float] = {}
        for tables, needs in ((laws.operators, law.operators), (laws.between, law.pairs)):
            for table, indices in needs:
                for index in indices:
                    values = tables[table][index]
                    if not values.any():
                        continue
                    if (table, index) not in known:
                        known[table, index] = len(quantities)
                        quantities.append(Quantity(index, values))
                    q = known[table, index]
                    terms[q] = terms.get(q, 0.0) + 1.0
        event_laws.append(EventLaw(law.name, law.tail, law.head, law.constant, tuple(terms.items())))
    return StrategyChoice(laws.counts, laws.pairs, tuple(quantities), tuple(event_laws), len(laws.events), laws.room)


def prove_bound(
    cluster: Cluster,
    workload: Workload,
    *,
    quick: bool = False,
    known: Sequence[Bound] | None = None,
    programs: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[Bound, StrategyCertificate | None]:
    """The best lower bound on the iteration time of any plan, ms, and its proof where it needs one.

    The formulas need none; the strategy program is tried where it is small enough, with even and odd servers apart
    where that is.

    Args:
        quick: try it only where it takes well under a second.
        known: what `topoopt.verify.job.instance_bounds` gives, if it was worked out already.
        programs: linear programs that the proof may take; None: by its size.
        stop: whether time is up; what is proven by then counts.
    """
    bounds = instance_bounds(cluster, workload) if known is None else known
    formula = max(bounds, key=lambda each: each.value)
    choices = choices_of(cluster, workload)
    if cluster.servers < 2 or any(not choice.splits for choice in choices):
        return formula, None
    apart = not quick and cluster.servers % 2 == 0 and cluster.servers <= MOST_SERVERS_APART
    for classes in (2, 1) if apart else (1,):
        certificate = _certificate(cluster, workload, choices, classes, quick, programs, stop)
        if certificate is not None:
            found = strategy_bound(cluster, workload, certificate)
            return (found, certificate) if found.value > formula.value else (formula, None)
    return formula, None


def _certificate(
    cluster: Cluster,
    workload: Workload,
    choices: tuple[Choices, ...],
    classes: int,
    quick: bool,
    programs: int | None,
    stop: Callable[[], bool],
) -> StrategyCertificate | None:
    """The proof with so many classes of servers; None: too large, or the solver fails."""
    most = QUICK_COEFFICIENTS if quick else MOST_COEFFICIENTS
    states = [len(each.split) for each in states_of(cluster, workload, choices, classes)]
    edges = {(edge.producer, v) for v, operator in enumerate(workload.operators) for edge in operator.inputs}
    if 2 * sum(states[u] * states[v] for u, v in edges) > most:
        return None  # each pair of states has two coefficients at least: too large before it is built
    laws = strategy_laws(cluster, workload, choices, classes)
    fixed = None
    if classes > 1 and mirrored(laws):
        fixed = int(np.argmax([reduced.max() for reduced in laws.operators["allreduce"]]))
    tree = prove(program_of(laws), most, allowed=at_root(laws, fixed), programs=programs, stop=stop)
    return None if tree is None else StrategyCertificate(tree, classes, fixed)
