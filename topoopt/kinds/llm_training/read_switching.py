"""The section of an instance that says how circuits are set anew inside a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from topoopt.core.llm_training_plan import PHOTONIC_RAILS
from topoopt.core.optical_devices import parse_delay
from topoopt.core.switching import SwitchSettings
from topoopt.files.faults import Fault
from topoopt.files.findings import within
from topoopt.kinds.llm_training.schema import GpuClusterSection, SwitchingSection


def switching_of(section: SwitchingSection | None) -> SwitchSettings | None:
    """The settings; None without a section.

    Raises:
        InputError: the delay is none.
    """
    if section is None:
        return None
    delay_ms = within("switching.delay", lambda: parse_delay(section.delay))
    return SwitchSettings(delay_ms / 1e3, section.provisioned, section.ports, section.port_gbps)


def switching_faults(
    section: SwitchingSection | None, cluster: GpuClusterSection, fabrics: Sequence[str]
) -> Iterator[Fault]:
    """What rails need of the instance."""
    if section is None:
        if PHOTONIC_RAILS in fabrics:
            text = "missing: how long circuits of the rails take to set"
            yield Fault(("switching",), text, None, f"a section, or no {PHOTONIC_RAILS} among the fabrics")
        return
    if cluster.degree % cluster.gpus_per_server:
        text = "with switching every GPU has interfaces of its own on its rail"
        allowed = f"multiples of gpus_per_server {cluster.gpus_per_server}"
        yield Fault(("cluster", "degree"), text, str(cluster.degree), allowed)
