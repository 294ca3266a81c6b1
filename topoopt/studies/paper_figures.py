"""Figures of TopoOpt's evaluation (NSDI'23) that simulation can give, and the tables that LIBRA (ISPASS 2024) and the
placement graphs of Tarnawski et al. (NeurIPS 2020) allow: each is a shipped study.

What is drawn, the published values and their sources stand in the study.
"""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.errors import InputError, Problem
from topoopt.files.faults import nearest_text, value_text

TOPOOPT = "TopoOpt, NSDI'23"
LIBRA = "LIBRA, ISPASS 2024"
PLACEMENT = "Tarnawski et al., NeurIPS 2020"


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper.

    Attributes:
        name: on the command line.
        number: in the paper, with a word where it is drawn twice; empty: none.
        title: what it shows.
        study: file below the folder of shipped instances.
        paper: whose figure it is.
    """

    name: str
    number: str
    title: str
    study: str
    paper: str = TOPOOPT

    @property
    def place(self) -> str:
        """Where it stands, for people."""
        return f"figure {self.number}" if self.number else self.paper


FIGURES = (
    PaperFigure(
        "heat-maps", "1", "who sends how much to whom, data parallel and hybrid", "studies/paper/heat-maps.yaml"
    ),
    PaperFigure("cost", "10", "cost of a cluster by fabric and size", "studies/cost-against-size.yaml"),
    PaperFigure("bandwidth", "11", "iteration time of six models by bandwidth", "studies/paper/bandwidth.yaml"),
    PaperFigure("batch", "12", "all-to-all traffic of DLRM by batch size", "studies/dlrm-batch-128.yaml"),
    PaperFigure("bandwidth-tax", "13", "bandwidth tax of DLRM by batch size", "studies/paper/bandwidth-tax.yaml"),
    PaperFigure("path-length", "14", "hops of a model-parallel byte of DLRM", "studies/paper/path-length.yaml"),
    PaperFigure("link-traffic", "15", "bytes that links carry, DLRM", "studies/paper/link-traffic.yaml"),
    PaperFigure("shared-cluster", "16", "jobs that share a cluster, mean and tail", "studies/shared-load-432.yaml"),
    PaperFigure(
        "equal-cost-paths", "16, paths", "fat-trees by how they take paths", "studies/paper/equal-cost-paths.yaml"
    ),
    PaperFigure("reconfiguration", "17", "time over reconfiguration latency", "studies/paper/reconfiguration.yaml"),
    PaperFigure(
        "libra", "", "bandwidths fitted to a workload against an equal split", "studies/paper/libra.yaml", LIBRA
    ),
    PaperFigure(
        "placement", "", "operators on devices, pipelines and steps", "studies/paper/placement.yaml", PLACEMENT
    ),
)


def figures_named(name: str | None) -> tuple[PaperFigure, ...]:
    """The figure of a name or number; all without one.

    Raises:
        InputError: no such figure.
    """
    if name is None:
        return FIGURES
    found = tuple(figure for figure in FIGURES if name and name in (figure.name, figure.number))
    if not found:
        allowed = nearest_text(name, tuple(figure.name for figure in FIGURES))
        raise InputError([Problem("no such figure", path="FIGURE", value=value_text(name), allowed=allowed)])
    return found
