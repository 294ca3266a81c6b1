"""What solutions of all kinds have: objective, bound, verdict, and where they came from.

Wall-clock times and dates are kept out, so that the same seed gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, Self

from annotated_types import Ge, Le

from topoopt.core.columns import Columns, figures_of, links_of, lists_of
from topoopt.core.proofs import Bound
from topoopt.core.shown import Displayed, Shown, views
from topoopt.core.verdict import Status, StopReason, gap

MAXIMISED = frozenset({"algbw", "min_rate", "min_weighted_rate", "min_surplus", "weighted_total_rate"})
"""Objectives of which more is better, by name; their bounds are upper ones."""

LARGEST = "largest_"
"""Beginning of further such names, for kinds of other packages."""


def maximised(name: str) -> bool:
    """Return whether more is better, by the name of an objective."""
    return name in MAXIMISED or name.startswith(LARGEST)


@dataclass(frozen=True)
class Objective:
    """What was sought, and the value reached."""

    name: str
    value: Annotated[float, Ge(-1e30), Le(1e30)]
    unit: str

    @property
    def maximise(self) -> bool:
        """Whether more is better."""
        return maximised(self.name)


class Decides(StrEnum):
    """What of the answer rests on a figure."""

    NOTHING = "nothing"
    VALUE = "value"
    BOUND = "bound"
    BOTH = "both"


@dataclass(frozen=True)
class LeftOut:
    """A figure of a solution that a check did not recompute, why, and what of the answer is only claimed without it."""

    figure: str
    reason: str
    decides: Decides = Decides.NOTHING


def deciding(left_out: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    """Those that the value or the bound rests on."""
    return tuple(one for one in left_out if one.decides is not Decides.NOTHING)


@dataclass(frozen=True, repr=False)
class CheckResult(Shown):
    """Verdict of the independent checker: whether it holds, what is wrong, and what was not recomputed."""

    ok: bool
    violations: tuple[str, ...]
    not_recomputed: tuple[LeftOut, ...] = ()

    @property
    def cut_off(self) -> bool:
        """Whether the check was ended before it had recomputed anything."""
        return CUT_OFF in self.not_recomputed

    @property
    def claimed(self) -> tuple[LeftOut, ...]:
        """What the value or the bound rests on and was not recomputed."""
        return deciding(self.not_recomputed)

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong, and all that the value and the bound rest on was recomputed."""
        return self.ok and not self.claimed

    @property
    def outcome(self) -> str:
        """The verdict, for people."""
        return "passed" if self.holds else "passed as far as looked at" if self.ok else "failed"


CUT_OFF = LeftOut("all figures", "the run ended before its check; `topoopt check` does it", Decides.BOTH)
"""What a check that was cut off did not recompute."""

UNCHECKED = CheckResult(False, ("not checked yet",))
"""Before the checker has seen it."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SolutionHead(Displayed):
    """What solutions of all kinds have.

    Attributes:
        name, kind: of the instance.
        status, stopped_by: what is known, and why it stopped.
        objective: name, value, unit of what was sought.
        bound: on its value, by an argument that the checker makes again.
        claimed_bound: a tighter one that it does not; None where there is none.
        check: verdict of the independent checker.
        seed, method: of the run.
        instance_sha256: of the canonical instance.
        versions: of topoopt, python and the libraries that matter.
        notes: what was assumed, for people.
        instance: its document, with the files that it names; None where these are too large.
    """

    name: str
    kind: str
    status: Status
    stopped_by: StopReason
    objective: Objective
    bound: Bound
    check: CheckResult
    seed: int
    method: str
    instance_sha256: str
    versions: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    claimed_bound: Bound | None = None
    instance: Mapping[str, Any] | None = None

    @property
    def gap(self) -> float:
        """Part of the larger of objective and bound by which any other may be better; 0 where rounding is past it."""
        return gap(self.objective.value, self.bound.value, maximise=self.objective.maximise)

    def judged(self, violations: Iterable[object], not_recomputed: tuple[LeftOut, ...] = ()) -> Self:
        """The same with the verdict of the checker; one that is rejected is no plan.

        A bound that was not derived is claimed, and nothing is optimal whose value or bound is.
        """
        messages = tuple(map(str, violations))
        check = CheckResult(not messages, messages, not_recomputed)
        if messages:
            return replace(self, check=check, status=Status.UNKNOWN, stopped_by=StopReason.ERROR)
        derived = all(one.decides not in (Decides.BOUND, Decides.BOTH) for one in not_recomputed)
        status = Status.FEASIBLE if check.claimed and self.status is Status.OPTIMAL else self.status
        return replace(self, check=check, status=status, bound=replace(self.bound, derived=derived))

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the document that `topoopt.write_solution` writes."""
        document: dict[str, Any] = views().document_of(self)
        return document

    def columns(self) -> dict[str, Columns]:
        """Tables by name, each as its columns: `figures` (one row), `links` where there is a topology, every list."""
        topology = getattr(self, "topology", None)
        links = {} if topology is None else {"links": links_of(topology)}
        return {"figures": figures_of(self) | {"gap": [self.gap]}, **links, **lists_of(self)}

    def tables(self) -> dict[str, Any]:
        """The same as tables of Arrow (`pyarrow.Table`).

        `solution.tables()["links"].to_pandas()` is a DataFrame, where pandas is installed.
        """
        tables: dict[str, Any] = views().tables_of(self)
        return tables

    def __repr__(self) -> str:
        objective, verdict = self.objective, self.check.outcome if self.check.ok else "FAILED"
        return (
            f"<{type(self).__name__} {self.name!r}: {self.status}, {objective.name} {objective.value:.6g} "
            f"{objective.unit}, bound {self.bound.value:.6g}, check {verdict}>"
        )
