"""Traffic from server to server in an instance: a matrix, a file of matrices, or generated all-to-alls of experts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Len
from pydantic import Discriminator, Field, Tag

from topoopt.core.arrays import Floats
from topoopt.core.data import STRICT
from topoopt.core.errors import InputError, Problem
from topoopt.files.demand_files import TRACE_ENDINGS, ServerNames, read_demand, read_trace
from topoopt.files.fields import or_text
from topoopt.files.sections import check_demand, existing_file, matrix_rows
from topoopt.workloads.demands import LAWS, HotExperts, hot_experts

MOST_SERVERS = 128
MOST_STEPS = 200

_SCALE = Annotated[float, Gt(0), Le(1e18)]
Scale = Annotated[_SCALE, or_text(_SCALE)]
Row = Annotated[tuple[Annotated[float, Ge(0), Le(1e18)], ...], Len(0, MOST_SERVERS)]


@dataclass(frozen=True, kw_only=True)
class MatrixTraffic:
    """One step, in the file."""

    __pydantic_config__ = STRICT

    matrix: Annotated[tuple[Row, ...], Len(0, MOST_SERVERS)]
    """row i, column j: bytes that server i sends to server j"""


@dataclass(frozen=True, kw_only=True)
class FileTraffic:
    """Steps from a file of one's own: .csv and .parquet hold one matrix, .npy and .npz one or a stack of them."""

    __pydantic_config__ = STRICT

    file: Annotated[str, Len(1, 1000)]
    """relative to the folder of this file"""
    scale: Scale = 1.0
    """bytes of a unit in the file, e.g. those of a token"""


@dataclass(frozen=True, kw_only=True)
class HotExpertsTraffic:
    """Generated: all-to-all traffic of a mixture of experts whose hot experts move from step to step."""

    __pydantic_config__ = STRICT

    family: Literal["hot-experts"]
    steps: Annotated[int, Ge(1), Le(MOST_STEPS)]
    seed: Annotated[int, Ge(0), Le(2**63 - 1)] = 0
    """of the generator; nothing to do with the seed of the search"""
    experts_per_server: Annotated[int, Ge(1), Le(1024)] = 1
    law: Annotated[str, Field(json_schema_extra={"enum": [*LAWS]})] = "zipf"
    """popularity of experts"""
    skew: Annotated[float, Gt(0), Le(1000)] = 1.0
    """exponent of Zipf, concentration of Dirichlet"""
    affinity: Annotated[float, Ge(0), Le(1)] = 0.0
    """part of a server's tokens with a law of their own"""
    scale: Scale
    """mean bytes of an ordered pair in a step"""


def traffic_shape(value: object) -> str:
    """Return the name of the class that an entry of the demands is meant for."""
    if isinstance(value, MatrixTraffic | FileTraffic | HotExpertsTraffic):
        return type(value).__name__
    keys = value.keys() if isinstance(value, dict) else ()
    if "family" in keys:
        return "HotExpertsTraffic"
    return "FileTraffic" if "file" in keys else "MatrixTraffic"


Traffic = Annotated[
    Annotated[MatrixTraffic, Tag("MatrixTraffic")]
    | Annotated[FileTraffic, Tag("FileTraffic")]
    | Annotated[HotExpertsTraffic, Tag("HotExpertsTraffic")],
    Discriminator(traffic_shape),
]


def matrices_of(entry: MatrixTraffic | FileTraffic | HotExpertsTraffic, names: ServerNames, folder: Path) -> Floats:
    """Return float64[k, n, n], the matrices of an entry.

    Parameters
    ----------
    entry : what the instance says.
    names : of the servers.
    folder : of the instance.

    Raises
    ------
    InputError
        Everything that is wrong with it; paths are relative to the entry.
    """
    servers = names.servers
    if isinstance(entry, HotExpertsTraffic):
        settings = HotExperts(entry.steps, entry.experts_per_server, entry.law, entry.skew, entry.affinity)
        return hot_experts(servers, settings, seed=entry.seed) * entry.scale
    if isinstance(entry, MatrixTraffic):
        matrix = matrix_rows([list(row) for row in entry.matrix], servers)
        check_demand(matrix, servers, "matrix")
        return matrix[None]
    path = existing_file(folder, entry.file)
    stacked = path.suffix.lower() in TRACE_ENDINGS
    stack = read_trace(path) if stacked else read_demand(path).placed(names, str(path))[None]
    problems: list[Problem] = []
    for matrix in stack:
        try:
            check_demand(matrix, servers, "file")
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return np.asarray(stack * entry.scale)
