"""Model families as operator graphs, and where operator times come from (measured profiles, analytic devices)."""

from topoopt.workloads.devices import DEVICES
from topoopt.workloads.models import MODELS, ElementSizes, build_operators, build_workload, global_batch
from topoopt.workloads.profile_costs import Measurement, Profile, ProfileCosts
from topoopt.workloads.spec import CostModel, Job, OperatorSpec

__all__ = [
    "DEVICES",
    "MODELS",
    "CostModel",
    "ElementSizes",
    "Job",
    "Measurement",
    "OperatorSpec",
    "Profile",
    "ProfileCosts",
    "build_operators",
    "build_workload",
    "global_batch",
]
