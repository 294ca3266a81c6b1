"""Tables of the report on failures: text of every cell."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.failures import FailureOutcome, Resilience
from topoopt.drawing.format import counted, number, ratio
from topoopt.drawing.sentences import SAME

SHOWN = 60
NOTHING = "nothing delivered"
UNKNOWN = "–"

REPAIRS = (
    ("reroute", "broken routes over least-loaded shortest surviving paths"),
    ("detour", "each broken ring step over its least-loaded shortest surviving path"),
    ("lend", "broken ring steps over links without AllReduce, which model-parallel traffic leaves where it can"),
    ("re-split", "broken rings dropped, shares of the others by linear program"),
    ("spread", "the same program, with broken rings on several detours or in another order as alternatives"),
    ("rebalance", "all routes balanced anew"),
    ("routed anew", "all demand routed on what survives, by linear program or Frank-Wolfe"),
)


@dataclass(frozen=True)
class FailureRow:
    """One failure."""

    label: str
    slowdown: str
    value: str
    repair: str
    tried: tuple[str, ...]
    pairs: str
    diameter: str
    rings: str
    rerouted: str
    spare: str


@dataclass(frozen=True)
class FailureTable:
    """Failures of one sort, the worst first; `hidden` says how many are left out."""

    title: str
    strategies: tuple[str, ...]
    rows: tuple[FailureRow, ...]
    hidden: str
    rings: bool
    spare: bool


def faster_text(result: Resilience) -> str:
    """Why some failures seem to help; empty where none does."""
    every = (*result.links, *result.servers, *result.planes)
    slow = [outcome.slowdown(result.nominal) for outcome in every]
    count = sum(value is not None and value < 1 - SAME for value in slow)
    if not count:
        return ""
    return (
        f"A slow-down below 1 ({counted(count, 'failure')}): a failure cannot help; the routes made for its repair are "
        "better than those of the plan, which could have them too."
    )


def worst_first(outcomes: tuple[FailureOutcome, ...]) -> list[FailureOutcome]:
    """By value, what delivers nothing first."""
    return sorted(outcomes, key=lambda each: -(float("inf") if each.value is None else each.value))


def slow_text(outcome: FailureOutcome, nominal: float) -> str:
    """Slow-down of an outcome."""
    slow = outcome.slowdown(nominal)
    return NOTHING if slow is None else ratio(slow)


def failure_tables(result: Resilience) -> tuple[FailureTable, ...]:
    """Links, servers, optical switches; none for what was not evaluated."""
    job = result.objective != "theta"
    servers = "Servers that forward no longer" if job else "Servers"
    sorts = (("Links", result.links), (servers, result.servers), (f"{result.switch.capitalize()}es", result.planes))
    return tuple(_table(title, outcomes, result.nominal, job) for title, outcomes in sorts if outcomes)


def _table(title: str, outcomes: tuple[FailureOutcome, ...], nominal: float, job: bool) -> FailureTable:
    ordered = worst_first(outcomes)
    names = dict.fromkeys(trial.strategy for outcome in ordered for trial in outcome.trials)
    strategies = tuple(names) if len(names) > 1 else ()
    left = len(ordered) - SHOWN
    return FailureTable(
        title=f"{title} ({len(ordered)})",
        strategies=strategies,
        rows=tuple(_row(outcome, nominal, strategies) for outcome in ordered[:SHOWN]),
        hidden=f"{counted(left, 'failure')} with less effect left out; --csv lists all." if left > 0 else "",
        rings=job,
        spare=any(outcome.spare_circuits for outcome in ordered) and job,
    )


def _row(outcome: FailureOutcome, nominal: float, strategies: tuple[str, ...]) -> FailureRow:
    tried = {trial.strategy: trial.value for trial in outcome.trials}

    def cell(value: float | None) -> str:
        return UNKNOWN if value is None else number(value)

    return FailureRow(
        label=outcome.failure.label,
        slowdown=slow_text(outcome, nominal),
        value=cell(outcome.value),
        repair=outcome.repair,
        tried=tuple(cell(tried.get(name)) for name in strategies),
        pairs=f"{outcome.disconnected_pairs:,}",
        diameter=UNKNOWN if outcome.diameter is None else str(outcome.diameter),
        rings=f"{outcome.broken_rings} of {outcome.rings}",
        rerouted=f"{outcome.rerouted_pairs:,}",
        spare=str(outcome.spare_circuits),
    )


def several_rows(result: Resilience) -> tuple[tuple[str, str], ...]:
    """Worst and random failures of several parts."""
    rows = []
    for worst in result.worst:
        if worst.count > 1:
            proof = "proven" if worst.proven else "not proven"
            text = f"{worst.outcome.failure.label}: {slow_text(worst.outcome, result.nominal)} ({worst.how}; {proof})"
            rows.append((f"worst failure of {worst.count} {worst.part}", text))
    for sample in result.sampled:
        delivered = (
            f"{sample.delivered} of {sample.samples} delivered (95 % confidence: "
            f"{sample.delivered_low:.3g} to {sample.delivered_high:.3g} of all)"
        )
        mean = ""
        if sample.mean_slowdown is not None:
            mean = f"; mean slow-down {ratio(sample.mean_slowdown)}"
            if sample.mean_low is not None and sample.mean_high is not None:
                mean += f" (95 %: {sample.mean_low:.4g} to {sample.mean_high:.4g})"
            if sample.p95_slowdown is not None:
                mean += f", 95th percentile {ratio(sample.p95_slowdown)}"
        rows.append((f"{sample.count} random {sample.part}, seed {sample.seed}", delivered + mean))
    return tuple(rows)


def rewiring_rows(result: Resilience) -> tuple[tuple[str, str], ...]:
    """What re-wiring gains."""
    rows = []
    for each in result.rewirings:
        before = NOTHING if each.before is None else f"{number(each.before)} {result.unit}"
        after = f"{number(each.after)} {result.unit}"
        given = ", ".join(f"{a}-{b}" for a, b in each.removed) or "none"
        made = ", ".join(f"{a}-{b}" for a, b in each.added) or "none"
        bound = "" if each.bound is None else f"; proven: not below {number(each.bound)}"
        rows.append(
            (
                f"after {each.failure.label}, at most {each.allowed} given up",
                f"{before} → {after}{bound}. Given up: {given}; set: {made} ({each.method})",
            )
        )
    return tuple(rows)
