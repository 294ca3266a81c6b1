"""What a count of costs answers, in one sentence: the price of the cluster's network, and of others beside it."""

from __future__ import annotations

from topoopt.analyses.costs.count import CostFigures, CostQuestion
from topoopt.costs import DIRECT_CONNECT
from topoopt.drawing.format import counted, ratio

COMPARED = ("oversubscribed-fat-tree", "full-fat-tree", "ideal-switch")
"""Networks of switches that direct connect is set beside."""


def answer(question: CostQuestion, figures: CostFigures) -> str:
    """Direct connect where it is counted, else the first fabric; others as multiples of direct connect."""
    target = question.target
    own = DIRECT_CONNECT if DIRECT_CONNECT in figures.fabrics else next(iter(figures.fabrics), "")
    where = f"{counted(target.servers, 'server')} with {target.degree} × {target.link_gbps:g} Gbit/s"
    if not own:
        return f"None of the fabrics exists for {where}."
    found = figures.fabrics[own]
    others = [name for name in COMPARED if name in figures.fabrics and name != own]
    against = [f"{name} {ratio(figures.fabrics[name].over_direct_connect)}" for name in others]
    than = "" if own == DIRECT_CONNECT or not others else " as direct connect"
    return (
        f"{own[0].upper()}{own[1:]} for {where} costs {found.bill.usd:,.0f} USD, "
        f"{found.bill.usd_per_server:,.0f} a server"
        f"{'; ' + ', '.join(against) + ' as much' + than if against else ''}."
    )
