"""The table of executors."""

from __future__ import annotations

from topoopt.studies.executor_dask import dask
from topoopt.studies.executor_slurm import slurm
from topoopt.studies.executors import Executor, local

EXECUTORS: dict[str, Executor] = {"local": local, "slurm": slurm, "dask": dask}
"""Ways to do runs, by the name of `topoopt study run --executor`."""
