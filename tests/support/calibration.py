"""How far a device model is from measured profiles, operator by operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from topoopt.workloads.models import build_operators
from topoopt.workloads.operators import CLASS_OF_KIND, DeviceModel, OperatorSpec, Profile, SplitDegrees


@dataclass(frozen=True)
class Comparison:
    """One measurement beside the model; times in ms of one part on one server.

    `widest` marks the measurement of the operator with the most parts, the one data parallelism uses.
    """

    operator_class: str
    spec: OperatorSpec
    parts: int
    samples_per_gpu: int
    widest: bool
    measured_ms: tuple[float, float]
    modelled_ms: tuple[float, float]

    @property
    def relative_errors(self) -> tuple[float, float]:
        """|modelled / measured - 1|, forward and backward."""
        forward, backward = (
            abs(model / measured - 1.0) for model, measured in zip(self.modelled_ms, self.measured_ms, strict=True)
        )
        return forward, backward


def compare(
    device: DeviceModel, model: str, sizes: Mapping[str, int], profile: Profile, gpus_per_server: int
) -> list[Comparison]:
    """The device model beside every measurement of a profile.

    Operators that share a key were measured on the first of them (the memory figures show it), so the first one is
    modelled. Keys the model does not have are skipped.
    """
    first: dict[str, OperatorSpec] = {}
    for spec in build_operators(model, sizes):
        first.setdefault(spec.key, spec)
    rows = []
    for key, table in profile.operators.items():
        if key not in first:
            continue
        spec = first[key]
        for parts, measured in table.items():
            samples = profile.samples // (1 if spec.one_gpu else parts * gpus_per_server)
            rows.append(
                Comparison(
                    operator_class=CLASS_OF_KIND[spec.kind],
                    spec=spec,
                    parts=parts,
                    samples_per_gpu=samples,
                    widest=parts == max(table),
                    measured_ms=(measured.forward_ms, measured.backward_ms),
                    modelled_ms=device.times_ms(spec, samples, SplitDegrees(parts)),
                )
            )
    return rows


@dataclass(frozen=True)
class ClassError:
    """Relative errors of an operator class, forward and backward pass together."""

    measurements: int
    median: float
    largest: float
    median_widest: float


def summarise(rows: Iterable[Comparison]) -> dict[str, ClassError]:
    """Errors by operator class, sorted by name."""
    groups: dict[str, list[Comparison]] = {}
    for row in rows:
        groups.setdefault(row.operator_class, []).append(row)

    def median(values: list[float]) -> float:
        ordered = sorted(values)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

    summary = {}
    for name in sorted(groups):
        errors = [error for row in groups[name] for error in row.relative_errors]
        widest = [error for row in groups[name] if row.widest for error in row.relative_errors]
        summary[name] = ClassError(len(errors), median(errors), max(errors), median(widest))
    return summary
