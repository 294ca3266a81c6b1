"""What reconfiguring circuits gains or costs for a job, at every delay of the optical switches."""

from topoopt.reconfiguration.break_even import break_even
from topoopt.reconfiguration.sweep import reconfiguration_sweep

__all__ = ["break_even", "reconfiguration_sweep"]
