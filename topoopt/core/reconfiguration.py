"""What reconfiguring circuits gains or costs at each delay: results of `topoopt reconfigure`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from topoopt.core.verdict import StopReason


@dataclass(frozen=True)
class DelayPoint:
    """A scheme at one reconfiguration delay.

    Attributes:
        delay_ms: of the optical switch.
        iteration_time_ms: of the job, simulated, or of all steps of a trace of demands.
        choice: strategy or schedule that was best there.
        reconfigurations: in an iteration.
        dark_ms: time of an iteration in which circuits were being changed.
    """

    delay_ms: float
    iteration_time_ms: float
    choice: str
    reconfigurations: int
    dark_ms: float


class WhenBetter(StrEnum):
    """When a scheme beats the one-shot network."""

    NEVER = "never"
    UP_TO = "up to"
    ALWAYS = "at every delay tried"
    OPEN = "not decided in time"


@dataclass(frozen=True)
class BreakEven:
    """Largest delay at which a scheme beats the one-shot network.

    Attributes:
        verdict: `never`: not even without delay; `up to`: between the two points, both simulated.
        wins: the largest delay found at which the scheme is faster; None: there is none.
        loses: the next larger delay tried, at which it is not; None: there is none.
    """

    verdict: WhenBetter
    wins: DelayPoint | None = None
    loses: DelayPoint | None = None


@dataclass(frozen=True)
class Scheme:
    """One way to reconfigure.

    Attributes:
        name, description: for people; the first scheme of a sweep is `one-shot`.
        points: by ascending delay.
        break_even: against one-shot; None for one-shot itself.
        break_even_rerouted: against one-shot with routes set anew at every step of a trace of demands.
        thetas: of every step of a trace of demands, largest link utilisation without any delay.
    """

    name: str
    description: str
    points: tuple[DelayPoint, ...]
    break_even: BreakEven | None = None
    break_even_rerouted: BreakEven | None = None
    thetas: tuple[float, ...] = ()


@dataclass(frozen=True)
class ReconfigurationSweep:
    """Time of a job, or of a trace of demands, over reconfiguration delays.

    Attributes:
        name: of the instance.
        servers, degree, link_gbps: n, d, B.
        schemes: one-shot first.
        strategies: names of the strategies tried on the demand-driven fabrics.
        stopped_by: whether everything was simulated.
        seed, instance_sha256, versions: where the figures come from.
        notes: what was assumed.
    """

    name: str
    servers: int
    degree: int
    link_gbps: float | None
    schemes: tuple[Scheme, ...]
    strategies: tuple[str, ...]
    stopped_by: StopReason
    seed: int
    instance_sha256: str
    versions: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
