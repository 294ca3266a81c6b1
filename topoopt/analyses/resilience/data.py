"""A study of failures as plain data: one JSON object, and the rows of a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from topoopt.core.failures import Failure, FailureOutcome, Resilience
from topoopt.files.atomic import csv_text

COLUMNS = (
    "part",
    "failure",
    "value",
    "slowdown",
    "repair",
    "disconnected_pairs",
    "diameter",
    "mean_hops",
    "broken_rings",
    "rings",
    "rerouted_pairs",
    "bound",
    "spare_circuits",
)


def failure_dict(failure: Failure) -> dict[str, Any]:
    """What failed."""
    return {
        "label": failure.label,
        "links": [list(link) for link in failure.links],
        "servers": list(failure.servers),
        "switches": list(failure.planes),
    }


def outcome_dict(outcome: FailureOutcome, nominal: float) -> dict[str, Any]:
    """One failure."""
    return {
        "failure": failure_dict(outcome.failure),
        "value": outcome.value,
        "slowdown": outcome.slowdown(nominal),
        "repair": outcome.repair,
        "tried": {trial.strategy: trial.value for trial in outcome.trials},
        "bound": outcome.bound,
        "disconnected_pairs": outcome.disconnected_pairs,
        "diameter": outcome.diameter,
        "mean_hops": outcome.mean_hops,
        "broken_rings": outcome.broken_rings,
        "rings": outcome.rings,
        "rerouted_pairs": outcome.rerouted_pairs,
        "spare_circuits": outcome.spare_circuits,
    }


def resilience_dict(result: Resilience) -> dict[str, Any]:
    """All of it."""
    nominal = result.nominal
    return {
        "kind": result.kind,
        "name": result.name,
        "objective": result.objective,
        "unit": result.unit,
        "nominal": nominal,
        "links": [outcome_dict(outcome, nominal) for outcome in result.links],
        "servers": [outcome_dict(outcome, nominal) for outcome in result.servers],
        "switches": [outcome_dict(outcome, nominal) for outcome in result.planes],
        "worst": [
            {
                "part": worst.part,
                "count": worst.count,
                "proven": worst.proven,
                "how": worst.how,
                "evaluated": worst.evaluated,
                "outcome": outcome_dict(worst.outcome, nominal),
            }
            for worst in result.worst
        ],
        "sampled": [{**asdict(sample), "worst": outcome_dict(sample.worst, nominal)} for sample in result.sampled],
        "rewirings": [
            {
                "failure": failure_dict(rewiring.failure),
                "removed": [list(link) for link in rewiring.removed],
                "added": [list(link) for link in rewiring.added],
                "allowed": rewiring.allowed,
                "before": rewiring.before,
                "after": rewiring.after,
                "slowdown": rewiring.after / nominal if nominal > 0 else 1.0,
                "method": rewiring.method,
                "bound": rewiring.bound,
                "violations": list(rewiring.violations),
            }
            for rewiring in result.rewirings
        ],
        "check": {"ok": not result.violations, "checked": result.checked, "violations": list(result.violations)},
        "notes": list(result.notes),
        "seed": result.seed,
        "complete": result.complete,
    }


def rows(result: Resilience) -> list[tuple[str, FailureOutcome]]:
    """Every single failure with the part it is of, the worst failures of several at the end."""
    single = (("link", result.links), ("server", result.servers), ("switch", result.planes))
    listed = [(part, outcome) for part, outcomes in single for outcome in outcomes]
    return listed + [(f"worst {each.count} {each.part}", each.outcome) for each in result.worst if each.count > 1]


def resilience_csv(result: Resilience) -> str:
    """CSV text: `COLUMNS`, then one column for each strategy tried."""
    listed = rows(result)
    strategies = list(dict.fromkeys(trial.strategy for _, outcome in listed for trial in outcome.trials))
    cells = []
    for part, outcome in listed:
        plain = {**outcome_dict(outcome, result.nominal), "part": part, "failure": outcome.failure.label}
        tried = {trial.strategy: trial.value for trial in outcome.trials}
        cells.append([plain[column] for column in COLUMNS] + [tried.get(strategy) for strategy in strategies])
    return csv_text([*COLUMNS, *strategies], cells)
