"""Model families as operator graphs, and where operator times come from (measured profiles, analytic devices)."""

from topoopt.workloads.device import DEVICES, Measurement, Profile, ProfileCosts
from topoopt.workloads.models import MODELS, ElementSizes, build_operators, build_workload, global_batch
from topoopt.workloads.operators import CostModel, Job, OperatorSpec

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
