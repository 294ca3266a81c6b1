"""A bound on every plan of a job from the strategy program: laws of the checker, multipliers of a solver.

The laws come from `topoopt.verify`, which proves them; the program finds multipliers; what they prove is evaluated by
`topoopt.verify` again. A solver that errs makes the bound weaker, never wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from formulations.job.strategy_choice import EventLaw, Quantity, StrategyChoice
from solvers.job.strategy_program import MOST_COEFFICIENTS, QUICK_COEFFICIENTS, prove
from topoopt.core.cluster import Cluster
from topoopt.core.proofs import Bound
from topoopt.core.strategy import StrategyCertificate
from topoopt.core.workload import Workload
from topoopt.verify.job.choices import choices_of
from topoopt.verify.job.instance_bounds import instance_bounds
from topoopt.verify.job.strategy_certificate import strategy_bound
from topoopt.verify.job.strategy_laws import StrategyLaws, strategy_laws


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
    return StrategyChoice(laws.splits, laws.pairs, tuple(quantities), tuple(event_laws), len(laws.events), laws.room)


def prove_bound(
    cluster: Cluster, workload: Workload, *, quick: bool = False, known: Sequence[Bound] | None = None
) -> tuple[Bound, StrategyCertificate | None]:
    """The best lower bound on the iteration time of any plan, ms, and its proof where it needs one.

    The formulas need none; the strategy program is tried where it is small enough.

    Args:
        quick: try it only where it takes well under a second.
        known: what `topoopt.verify.job.instance_bounds` gives, if it was worked out already.
    """
    bounds = instance_bounds(cluster, workload) if known is None else known
    formula = max(bounds, key=lambda each: each.value)
    choices = choices_of(cluster, workload)
    if cluster.servers < 2 or any(not choice.splits for choice in choices):
        return formula, None
    most = QUICK_COEFFICIENTS if quick else MOST_COEFFICIENTS
    edges = {(edge.producer, v) for v, operator in enumerate(workload.operators) for edge in operator.inputs}
    if 2 * sum(len(choices[u].splits) * len(choices[v].splits) for u, v in edges) > most:
        return formula, None  # each pair of splits has two coefficients at least: too large before it is built
    certificate = prove(program_of(strategy_laws(cluster, workload, choices)), most)
    if certificate is None:
        return formula, None
    found = strategy_bound(cluster, workload, certificate)
    return (found, certificate) if found.value > formula.value else (formula, None)
