"""What circuits between pods amount to, in words, rows, figures and a picture; for terminal, JSON and report alike."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.pod_circuits import PodPlan, PodVerdict, TriedStrategy
from topoopt.core.units import BYTES_PER_MS_PER_GBPS
from topoopt.drawing.circuits_picture import DrawnCircuits, circle_of_circuits
from topoopt.drawing.format import byte_size, counted, percent
from topoopt.kinds.llm_training.words import differences, seconds, strategy_words

CLOSE = 1e-6
"""Part of a time that is no gap."""

SHOWN_PAIRS = 12
SHOWN_ROWS = 40


def in_use(plan: PodPlan) -> tuple[float, ...]:
    """Part of an iteration in which the busier direction of each pair carries something, all its circuits at once."""
    rate = plan.settings.circuit_gbps * BYTES_PER_MS_PER_GBPS * 1e3 * plan.makespan_s
    return tuple(max(one.there_bytes, one.back_bytes) / (rate * one.count) for one in plan.links)


def gain_over_first(plan: PodPlan) -> float | None:
    """Part saved of what the strategy that is fastest on an ideal switch takes over its own circuits."""
    return None if plan.first_s is None else 1.0 - plan.makespan_s / plan.first_s


def gain_over_volume(plan: PodPlan) -> float:
    """Part saved of what the same strategy takes over circuits by volume."""
    return 1.0 - plan.makespan_s / plan.volume_s


def counts_of(plan: PodPlan) -> dict[str, int]:
    """Strategies tried, by what is known of them."""
    return {verdict.value: sum(one.verdict is verdict for one in plan.tried) for verdict in PodVerdict}


def proof_of_pods(plan: PodPlan) -> str:
    """What is proven of strategies, tried or not."""
    counts = {name: count for name, count in counts_of(plan).items() if count}
    words = {
        "searched": "with circuits of their own",
        "slower": "that no circuits make faster",
        "crowded": "with more peers than ports",
        "left": "left",
    }
    parts = ", ".join(f"{count} {words[name]}" for name, count in counts.items())
    if plan.others_s is None:
        others = "there is no other that fits"
    elif plan.others_s >= plan.makespan_s * (1 - CLOSE):
        others = f"no other is below {seconds(plan.others_s)} over any circuits"
    else:
        others = f"of all others it is only known that none is below {seconds(plan.others_s)}"
    return f"{counted(len(plan.tried), 'strategy', 'strategies')} looked at: {parts}; {others}"


def pods_words(plan: PodPlan) -> str:
    """Pods, circuits and ports, in a sentence's end."""
    saved = sum(plan.ports_saved)
    free = "no port is free" if not saved else f"{counted(saved, 'port')} of {plan.pods * plan.settings.ports} free"
    least = plan.proof.circuits_bound
    few = "none fewer do" if least == plan.circuits_total else f"at least {least} are needed"
    of = f"{counted(plan.pods, 'pod')} of {counted(plan.settings.gpus, 'GPU')}"
    return f"{counted(plan.circuits_total, 'circuit')} between {of}, {free} ({few})"


def gain_words(solution: LlmTrainingSolution, plan: PodPlan) -> str:
    """What choosing both together gains."""
    first = plan.tried[plan.first].strategy
    saved = gain_over_volume(plan)
    volume = f"{percent(saved)} less than" if saved >= CLOSE else "as fast as"
    volume = f"{volume} over circuits by volume"
    gain = gain_over_first(plan)
    if plan.first == plan.best:
        return f"its strategy is also the fastest on an ideal switch; {volume}"
    if gain is None:
        return f"pods have too few ports for the strategy that is fastest on an ideal switch; {volume}"
    changed = differences(solution.plan.strategy, first)
    other = (
        f"{seconds(plan.first_s or 0.0)} that the fastest on an ideal switch takes over its own circuits ({changed})"
    )
    return f"{percent(gain)} less than the {other}; {volume}"


def pods_rows(solution: LlmTrainingSolution) -> tuple[tuple[str, str], ...]:
    """Rows for a table; none on other fabrics."""
    plan = solution.fabrics[0].pods
    if plan is None:
        return ()
    pairs = [f"{one.one}↔{one.other}: {one.count}" for one in plan.links]
    more = f", and {len(pairs) - SHOWN_PAIRS} more pairs" if len(pairs) > SHOWN_PAIRS else ""
    first = "pods have too few ports" if plan.first_s is None else seconds(plan.first_s)
    return (
        ("on an ideal switch", seconds(solution.breakdown.total)),
        ("without transfers between pods", seconds(plan.compute_s)),
        ("circuits", pods_words(plan)),
        ("by pair", ", ".join(pairs[:SHOWN_PAIRS]) + more),
        ("circuits by volume", seconds(plan.volume_s)),
        ("the fastest on an ideal switch, its best circuits", first),
        ("strategies in pods", proof_of_pods(plan)),
    )


def pods_figures(solution: LlmTrainingSolution) -> dict[str, Any]:
    """Of a plan in pods, for JSON; empty on other fabrics."""
    plan = solution.fabrics[0].pods
    if plan is None:
        return {}
    gain = gain_over_first(plan)
    fastest = plan.tried[plan.best]
    return {
        "pods": {
            "pods": plan.pods,
            "gpus": plan.settings.gpus,
            "ports": plan.settings.ports,
            "circuit_gbps": plan.settings.circuit_gbps,
            "slack_percent": plan.settings.slack_percent,
            "makespan_s": plan.makespan_s,
            "fastest_s": fastest.makespan_s,
            "compute_s": plan.compute_s,
            "communication_s": plan.communication_s,
            "circuits": [[one.one, one.other, one.count] for one in plan.links],
            "circuits_total": plan.circuits_total,
            "circuits_bound": plan.proof.circuits_bound,
            "ports_saved": list(plan.ports_saved),
            "by_volume_s": plan.volume_s,
            "gain_over_volume_percent": 100.0 * gain_over_volume(plan),
            "ideal_strategy": strategy_words(plan.tried[plan.first].strategy),
            "ideal_strategy_s": plan.first_s,
            "gain_over_ideal_strategy_percent": None if gain is None else 100.0 * gain,
            "tried_bound_s": plan.tried_bound_s,
            "others_bound_s": plan.others_s,
            "strategies": counts_of(plan),
        }
    }


def pods_picture(plan: PodPlan) -> Markup:
    """Circuits between pods, by how much of an iteration the busier direction is in use."""
    lines = [
        DrawnCircuits(
            one.one,
            one.other,
            one.count,
            share,
            f"{one.one} ↔ {one.other}: {counted(one.count, 'circuit')}, {byte_size(one.there_bytes)} there, "
            f"{byte_size(one.back_bytes)} back, in use {percent(share)} of the time",
        )
        for one, share in zip(plan.links, in_use(plan), strict=True)
    ]
    ports = plan.settings.ports
    tips = [f"pod {pod}: {used} of {ports} ports in use" for pod, used in enumerate(plan.ports_used)]
    return circle_of_circuits(lines, tips, f"Circuits between {plan.pods} pods")


def link_rows(plan: PodPlan) -> list[tuple[str, str, str, str, str]]:
    """Pair, circuits, bytes there and back, part of the time in use; most circuits first."""
    rows = sorted(zip(plan.links, in_use(plan), strict=True), key=lambda row: -row[0].count)
    return [
        (
            f"{one.one} ↔ {one.other}",
            str(one.count),
            byte_size(one.there_bytes),
            byte_size(one.back_bytes),
            percent(use),
        )
        for one, use in rows
    ]


def tried_rows(plan: PodPlan) -> list[tuple[str, str, str, str]]:
    """Strategy, time over its best circuits, bound, what is known; the best first, then by time."""

    def late(place: int) -> tuple[bool, float, float]:
        one = plan.tried[place]
        return place != plan.best, one.makespan_s or float("inf"), one.bound_s

    return [_tried(plan, place) for place in sorted(range(len(plan.tried)), key=late)]


def _tried(plan: PodPlan, place: int) -> tuple[str, str, str, str]:
    one: TriedStrategy = plan.tried[place]
    took = "" if one.makespan_s is None else seconds(one.makespan_s)
    bound = "" if one.verdict is PodVerdict.CROWDED else seconds(one.bound_s)
    what = "the plan" if place == plan.best else one.verdict.value
    first = ", fastest on an ideal switch" if place == plan.first else ""
    return strategy_words(one.strategy), took, bound, what + first
