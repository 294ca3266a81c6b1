"""Operator times taken from a measured profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import Split
from topoopt.workloads.spec import Job, OperatorSpec


@dataclass(frozen=True)
class Measurement:
    """One operator in P parts: times of one part on one server, ms, and memory on one of its GPUs, bytes."""

    forward_ms: float
    backward_ms: float
    gpu_memory_bytes: int


@dataclass(frozen=True)
class Profile:
    """A measured profile.

    Attributes:
        servers: n it was measured for.
        samples: global batch.
        operators: per structural key (`Dense_2048_2048`, ...) the measurements by number of parts P.
        source: file it came from.
    """

    servers: int
    samples: int
    operators: Mapping[str, Mapping[int, Measurement]]
    source: str = ""


@dataclass(frozen=True)
class ProfileCosts:
    """Cost model whose candidates are exactly the splits that were measured.

    Operators with the same key share one measurement, as in the reference.
    """

    profile: Profile

    def splits(self, spec: OperatorSpec, job: Job) -> tuple[Split, ...]:
        """Measured splits of the operator, most parts first.

        Raises:
            InputError: the profile is for another batch or server count, or lacks the operator.
        """
        profile = self.profile
        problems = []
        for what, measured, wanted in (
            ("batch_size", profile.samples, job.samples),
            ("ngpus (servers)", profile.servers, job.servers),
        ):
            if measured != wanted:
                problems.append(
                    Problem(
                        f"the profile was measured for another {what}",
                        file=profile.source or None,
                        value=str(measured),
                        allowed=str(wanted),
                    )
                )
        table = profile.operators.get(spec.key, {})
        # A table is one part on one GPU; other operators only where the batch can be cut that way.
        legal = {
            parts: measured
            for parts, measured in table.items()
            if job.servers % parts == 0 and job.samples % parts == 0 and (parts == 1 or spec.sample_split)
        }
        if not legal:
            problems.append(
                Problem(
                    f"the profile has no usable measurement of operator {spec.name}",
                    file=profile.source or None,
                    path="measurements",
                    value=spec.key,
                    allowed=", ".join(sorted(profile.operators)),
                )
            )
        if problems:
            raise InputError(problems)
        gpus = 1 if spec.one_gpu else job.gpus_per_server
        return tuple(
            Split(
                sample_ways=parts,
                forward_ms=measured.forward_ms,
                backward_ms=measured.backward_ms,
                server_memory_bytes=measured.gpu_memory_bytes * gpus,
            )
            for parts, measured in sorted(legal.items(), reverse=True)
        )
