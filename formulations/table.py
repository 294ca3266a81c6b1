"""The table of formulations: what `topoopt export` can write. A new one is one module and one line."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from formulations import (
    bandwidth_allocation,
    circuit_matching,
    dag_topology,
    flow_routing,
    joint_topology,
    mixtures,
    placed_graphs,
    stage_order,
)
from formulations.programs import LpArrays
from topoopt.core.errors import InputError, Problem, raise_any


@dataclass(frozen=True)
class Option:
    """A number that changes a formulation: its default, its range, and what it means."""

    summary: str
    default: float
    least: float = 0.0
    most: float = math.inf
    whole: bool = True


@dataclass(frozen=True)
class Formulation:
    """A line of the table.

    Attributes:
        summary: what is decided, for people.
        kinds: of the instances it takes.
        build: (problem, options) -> program with readable names; raises InputError or InfeasibleError for a problem of
            these kinds that it cannot state.
        options: by name.
        several_demands: whether it takes network problems with a set of demands.
    """

    summary: str
    kinds: tuple[str, ...]
    build: Callable[[Any, Mapping[str, float]], LpArrays]
    options: Mapping[str, Option] = field(default_factory=dict)
    several_demands: bool = False


VOLUME = Option(
    "what each server sends to the next in an AllReduce of all, in demand units", 1.0, most=1e12, whole=False
)

FORMULATIONS: Mapping[str, Formulation] = {
    "all_to_all_rate": Formulation(
        "what every rank of a network sends the others at once, split over paths, at the largest equal rate",
        ("collective",),
        flow_routing.all_to_all_rate_from_collective,
    ),
    "allreduce_mix": Formulation(
        "ring orders of an AllReduce and all routing on a fixed topology, least largest link load",
        ("routing",),
        mixtures.allreduce_mix_from_routing,
        {
            "volume": VOLUME,
            "orders": Option("ring orders, by coprime steps", 4, least=1, most=1000),
            "hop_price": Option("charge on hops, relative to all traffic", 0.0, most=1e9, whole=False),
        },
    ),
    "allreduce_roots": Formulation(
        "loads of trees up and down for an AllReduce and the shares of their roots, largest rate (all cuts, 12 nodes)",
        ("collective",),
        flow_routing.allreduce_roots_from_collective,
    ),
    "allreduce_topology": Formulation(
        "links, ring orders of an AllReduce and all routing together (mixed-integer); a relaxation above 6 servers",
        ("topology",),
        mixtures.allreduce_topology_from_topology,
        {"volume": VOLUME, "symmetry": Option("1: rules that break symmetry", 1, most=1)},
    ),
    "bandwidth_allocation": Formulation(
        "rates of transfers that share links: all rise together (the first step of fair rates), or the largest total",
        ("allocation",),
        bandwidth_allocation.from_allocation,
    ),
    "block_cut": Formulation(
        "what a device that holds a block sends and receives at least, if its load is limited (free sets, a bound)",
        ("placement",),
        placed_graphs.block_cut_from_placement,
        {
            "block": Option("which co-located group", 0, most=20_000),
            "limit_ms": Option("of the load; 0: the mean work", 0.0, most=1e30, whole=False),
        },
    ),
    "circulant_flow": Formulation(
        "routing on a circulant, one load per class of arcs; routings for a grid of lengths (an upper bound)",
        ("routing",),
        mixtures.circulant_flow_from_routing,
        {"grid": Option("fineness of the lengths the routings are shortest for", 4, most=64)},
    ),
    "concurrent_flow": Formulation(
        "routing by source and arc, least largest link load",
        ("routing",),
        flow_routing.concurrent_flow_from_routing,
        {"hop_price": Option("time of a hop in the unit of theta", 0.0, most=1e9, whole=False)},
    ),
    "circuit_matching": Formulation(
        "circuits of an optical switch for one all-to-all, the rest over electrical interfaces (mixed-integer)",
        ("regional-circuits",),
        circuit_matching.from_regional_circuits,
        {"step": Option("which step of the demands", 0, most=199)},
    ),
    "concurrent_flow_hops": Formulation(
        "the same over paths of limited length",
        ("routing",),
        flow_routing.concurrent_flow_hops_from_routing,
        {"max_hops": Option("longest path; 0: as the instance says, or any", 0)},
    ),
    "dag_topology": Formulation(
        "circuits between pods, transfers carried in intervals of variable length, least makespan (tiny jobs)",
        ("dag-topology",),
        dag_topology.from_dag_topology,
        {"intervals": Option("intervals of constant rates", 4, least=1, most=200)},
    ),
    "favourite_children": Formulation(
        "which consumer runs right behind its producer on unlimited devices, relaxed (for list scheduling)",
        ("placement",),
        placed_graphs.favourite_children_from_placement,
    ),
    "hop_lp": Formulation(
        "what any topology can carry at most, one and two hops spelled out (a bound on lambda)",
        ("topology",),
        joint_topology.hop_lp_from_topology,
        {"guess": Option("L, above which lambda is cut off; 0: the node cut", 0.0, whole=False)},
    ),
    "joint_topology": Formulation(
        "links and routing together (mixed-integer), with the constraints of the instance",
        ("topology",),
        joint_topology.joint_topology_from_topology,
        {"symmetry": Option("1: rules that break symmetry", 1, most=1)},
    ),
    "link_packing": Formulation(
        "rates of pairs of servers split over their physical links; of an instance: equal rates",
        ("placement",),
        placed_graphs.packing_program,
        {
            "scale": Option(
                "0: the largest part of the rates that fits; else fewest splits at that part",
                0.0,
                most=1.0,
                whole=False,
            )
        },
    ),
    "path_split": Formulation(
        "routing over the shortest paths of every demand (an upper bound)",
        ("routing",),
        mixtures.path_split_from_routing,
        {"paths": Option("paths of each demand", 4, least=1, most=1000)},
    ),
    "placement_joint": Formulation(
        "placement, all orders and static rates, least makespan (mixed-integer, tangents at an equal split)",
        ("placement",),
        placed_graphs.joint_program,
    ),
    "placement_makespan": Formulation(
        "placement and orders without contention, least makespan (mixed-integer)",
        ("placement",),
        placed_graphs.makespan_program,
        {"relax": Option("1: also where transfers contend, as a relaxation", 0, most=1)},
    ),
    "placement_rates": Formulation(
        "static rates of a placement (equal parts of a topological order) with known orders",
        ("placement",),
        placed_graphs.rates_program,
    ),
    "common_routing": Formulation(
        "routing by pair, common to a set of demand matrices, least largest link load",
        ("routing",),
        flow_routing.common_routing_from_routing,
        several_demands=True,
    ),
    "step_schedule": Formulation(
        "an AllGather of whole chunks step by step, least sum of the fullest links (mixed-integer)",
        ("collective",),
        flow_routing.step_schedule_from_collective,
        {"steps": Option("number of steps", 2, least=1, most=64)},
    ),
    "stage_order": Formulation(
        "operators to stages of a pipeline, least load of the busiest device (mixed-integer)",
        ("placement",),
        stage_order.from_placement,
    ),
}


def build_named(name: str, problem: Any, options: Mapping[str, float]) -> LpArrays:
    """The program of a formulation for an instance, with readable names.

    Raises:
        InputError: no such formulation, another kind of instance, an unknown option or one out of range (all listed);
            or a problem that the formulation cannot state.
        InfeasibleError: a demand that nothing can carry.
    """
    line = FORMULATIONS.get(name)
    if line is None:
        allowed = ", ".join(FORMULATIONS)
        raise InputError([Problem("no such formulation", path="--set formulation", value=name, allowed=allowed)])
    errors = []
    if problem.kind not in line.kinds:
        fitting = ", ".join(key for key, entry in FORMULATIONS.items() if problem.kind in entry.kinds)
        text = f"formulation {name} takes instances of kind {', '.join(line.kinds)}"
        allowed = f"for this kind: {fitting or 'none'}"
        errors.append(Problem(text, path="kind", value=problem.kind, allowed=allowed))
    if getattr(problem, "several", False) and not line.several_demands:
        text = "this formulation takes one demand"
        fitting = ", ".join(key for key, entry in FORMULATIONS.items() if entry.several_demands)
        errors.append(Problem(text, path="demands", value=str(len(problem.demands)), allowed=fitting))
    for key, value in options.items():
        option = line.options.get(key)
        if option is None:
            names = ", ".join(line.options) or f"{name} has no options"
            errors.append(Problem("no such option", path="--set", value=key, allowed=names))
        elif not option.least <= value <= option.most or (option.whole and value != int(value)):
            form = "whole numbers" if option.whole else "numbers"
            upto = "" if math.isinf(option.most) else f" to {option.most:g}"
            allowed = f"{form} from {option.least:g}{upto}"
            errors.append(Problem("out of range", path=f"--set {key}", value=f"{value:g}", allowed=allowed))
    raise_any(errors)
    return line.build(problem, {key: option.default for key, option in line.options.items()} | dict(options))
