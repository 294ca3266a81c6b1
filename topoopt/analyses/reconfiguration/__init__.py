"""What reconfiguring circuits gains or costs for a job, at every delay of the optical switches."""

from topoopt.analyses.reconfiguration.break_even import break_even
from topoopt.analyses.reconfiguration.run import reconfiguration_sweep

__all__ = ["break_even", "reconfiguration_sweep"]
