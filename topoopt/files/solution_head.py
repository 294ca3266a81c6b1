"""What the JSON of commands says of a bound and of the verdict of the checker."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from topoopt.core.proofs import Bound
from topoopt.core.solution import CheckResult


def check_document(check: CheckResult) -> dict[str, Any]:
    """Plain data of the verdict of the checker."""
    left_out = [asdict(one) for one in check.not_recomputed]
    return {"ok": check.ok, "violations": list(check.violations), "not_recomputed": left_out}


def bound_document(bound: Bound) -> dict[str, Any]:
    """Plain data of a bound."""
    document = {"value": float(bound.value), "proved_by": bound.argument.value, "verified": bound.verified}
    return document if bound.iterations is None else {**document, "iterations": bound.iterations}
