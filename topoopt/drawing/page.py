"""What all reports share: the template engine, the headline cards, the legend of the utilisation classes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from topoopt.core.result import CUT_OFF, CheckResult, SolutionHead
from topoopt.drawing.finish import finished
from topoopt.drawing.format import counted
from topoopt.drawing.sentences import full_answer, objective_text, quantity
from topoopt.drawing.utilisation import use_style

if TYPE_CHECKING:
    from jinja2 import Environment

SHOWN_VIOLATIONS = 50


@dataclass(frozen=True)
class Card:
    """A headline figure: what it is, its value, a line of explanation, and a colour class."""

    title: str
    value: str
    detail: str
    css: str = ""


def check_card(check: CheckResult) -> Card:
    """Verdict of the checker."""
    if check.cut_off:
        return Card("independent check", "not made", CUT_OFF.reason, "claimed")
    found = "no violations" if check.ok else f"{counted(len(check.violations), 'violation')}, listed below"
    left_out = f"; not recomputed: {counted(len(check.not_recomputed), 'figure')}" if check.not_recomputed else ""
    css = "good" if check.holds else "claimed" if check.ok else "bad"
    return Card("independent check", check.outcome, found + left_out, css)


def closing_cards(solution: SolutionHead) -> tuple[Card, ...]:
    """A claimed bound, if there is one, and the verdict of the checker."""
    claim = solution.claimed_bound
    if claim is None:
        return (check_card(solution.check),)
    value = quantity(claim.value, solution.objective.unit)
    return Card("claimed bound", value, claim.proved_by, "claimed"), check_card(solution.check)


def run_rows(solution: SolutionHead) -> tuple[tuple[str, str], ...]:
    """Name and value pairs of the instance and the run."""
    claim, unit = solution.claimed_bound, solution.objective.unit
    claims = () if claim is None else (("claimed bound", f"{quantity(claim.value, unit)}, {claim.proved_by}"),)
    return (
        ("instance", f"{solution.name} ({solution.kind})"),
        ("instance SHA-256", solution.instance_sha256 or "not recorded"),
        ("method", solution.method),
        ("seed", str(solution.seed)),
        ("status", f"{solution.status.value}; stopped by: {solution.stopped_by.value}"),
        ("objective", f"{objective_text(solution.objective.name)}, {quantity(solution.objective.value, unit)}"),
        *claims,
    )


def versions_row(solution: SolutionHead) -> tuple[str, str]:
    """What made the solution."""
    return "versions", ", ".join(f"{name} {version}" for name, version in solution.versions) or "not recorded"


@cache
def _environment() -> Environment:
    """Templates are compiled once; their compiler is loaded with the first, as many a run has no page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("topoopt", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render_page(template: str, answer: str, check: CheckResult | None = None, **values: object) -> str:
    """A self-contained page from a template of this package; every value that is no markup is escaped.

    Args:
        template: its path in the package.
        answer: one sentence that answers the question, before all else.
        check: whose violations to list.
        values: of the template; one that is missing is an error.
    """
    violations = () if check is None else check.violations
    page = (
        _environment()
        .get_template(template)
        .render(
            answer=answer if check is None else full_answer(answer, check),
            use_style=use_style(),
            violations=[text.replace(" -> ", " → ") for text in violations[:SHOWN_VIOLATIONS]],
            hidden_violations=max(0, len(violations) - SHOWN_VIOLATIONS),
            **values,
        )
    )
    return finished(page)
