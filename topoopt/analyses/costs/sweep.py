"""Cost against the size of the cluster, as in figure 10 of the TopoOpt paper (NSDI'23)."""

from __future__ import annotations

from topoopt.analyses.costs.answer import answer
from topoopt.analyses.costs.count import CostFigures, CostQuestion
from topoopt.analyses.costs.plot import CostCurve, CostPage, CostPanel, OwnCost
from topoopt.analyses.costs.table import COUNTING_WORDS
from topoopt.core.errors import InputError
from topoopt.core.price_book import OCS_PORT, PATCH_PANEL_PORT
from topoopt.costs import DIRECT_CONNECT, FABRIC_COSTS, NetworkSize
from topoopt.costs.bills import bill_of, port_gbps
from topoopt.drawing.format import counted, number

SERVERS = (
    128, 160, 192, 224, 256, 320, 384, 432, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3456, 4096,
)  # fmt: skip
"""Sizes, with those of full fat-trees (k = 8, 12, 16, 24)."""

SETTINGS = ((4, 100.0), (4, 200.0), (8, 100.0), (8, 200.0))
"""Degree and rate of the panels of the figure."""

SHOWN = (
    DIRECT_CONNECT,
    "direct-connect-ocs",
    "oversubscribed-fat-tree",
    "full-fat-tree",
    "ideal-switch",
    "random-regular",
)
"""Fabrics of the plot unless others are named."""


def cost_page(question: CostQuestion, figures: CostFigures) -> CostPage:
    """The cluster asked for, a panel for its degree and rate, and one for each other setting of the figure."""
    target, book = question.target, question.book
    own = (target.degree, float(target.link_gbps))
    names = question.fabrics if question.named else SHOWN
    limits = [
        f"{device.name}: {device.ports} ports, so more servers take several in every plane"
        for device in map(book.device, (PATCH_PANEL_PORT, OCS_PORT))
        if device is not None
    ]
    notes = (
        f"Prices {book.name} of {book.dated}, US dollars; paid are {COUNTING_WORDS[question.counting]}.",
        "A fat-tree of equal cost lies on the line of direct connect by definition, where it is not faster than all "
        "interfaces together.",
        *(f"{limit}." for limit in limits),
    )
    settings = (own, *(setting for setting in SETTINGS if setting != own))
    return CostPage(
        title=target.name or counted(target.servers, "server"),
        answer=answer(question, figures),
        servers=target.servers,
        own=tuple(
            OwnCost(
                name,
                f"{number(one.bill.link_gbps)} Gbit/s",
                one.bill.usd,
                one.bill.usd_per_server,
                one.over_direct_connect,
            )
            for name, one in figures.fabrics.items()
        ),
        panels=tuple(_panel(question, names, *setting, first=setting == own) for setting in settings),
        notes=notes,
    )


def _panel(question: CostQuestion, names: tuple[str, ...], degree: int, gbps: float, *, first: bool) -> CostPanel:
    """The curves of one setting; those of the cluster asked for have a point of its size."""
    sizes = sorted({*SERVERS, question.target.servers}) if first else SERVERS
    curves = []
    for name in names:
        points = []
        for servers in sizes:
            size = NetworkSize(servers, degree, question.oversubscription)
            try:
                rate, _ = port_gbps(name, size, gbps, question.book, question.counting)
                usd = bill_of(name, size, rate, question.book, question.counting).usd
            except InputError:  # this fabric does not exist at this size
                continue
            points.append((servers, usd))
        if points:
            curves.append(CostCurve(name, FABRIC_COSTS[name].title, tuple(points)))
    return CostPanel(f"d = {degree}, {gbps:g} Gbit/s", tuple(curves))
