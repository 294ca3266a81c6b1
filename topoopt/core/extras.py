"""Libraries that the main work does without; each belongs to an extra of the installation."""

from __future__ import annotations

import importlib
from typing import Any

from topoopt.core.errors import InputError, Problem

EXTRAS = {
    "pyarrow": "studies",
    "duckdb": "studies",
    "submitit": "slurm",
    "distributed": "dask",
    "pandas": "notebook",
}
"""Extra that each library comes with."""


def extra(module: str, purpose: str) -> Any:
    """A library of an extra, loaded.

    Args:
        module: such as `pyarrow.parquet`.
        purpose: what it is needed for, as the subject of a sentence in the plural.

    Raises:
        InputError: it is not installed; names the extra.
    """
    library = module.split(".", 1)[0]
    try:
        return importlib.import_module(module)
    except ImportError:
        text = f"{purpose} need {library}, which is not installed"
        raise InputError([Problem(text, allowed=f"pip install 'topoopt[{EXTRAS[library]}]'")]) from None
