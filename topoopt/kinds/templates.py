"""Instances to begin with, one a kind, their fields explained: what `topoopt init` writes."""

from __future__ import annotations

from pathlib import Path

from topoopt.core.errors import InputError, Problem
from topoopt.files.faults import nearest_text, value_text
from topoopt.files.untrusted import read_text

MOST_BYTES = 100_000
"""Of a template."""

TEMPLATES: dict[str, str] = {
    "co-optimisation": "job",
    "topology": "network",
    "routing": "network",
    "allocation": "allocation",
    "hierarchical-bandwidth": "hierarchy",
    "placement": "placement",
    "shared-cluster": "shared_cluster",
    "collective": "collective",
    "llm-training": "llm_training",
    "dag-topology": "dag_topology",
    "regional-circuits": "regional_circuits",
}
"""Folder of each kind, which has KIND.template.yaml."""


def template(kind: str, name: str) -> str:
    """The text of a first instance.

    Args:
        kind: of it.
        name: of it; letters, digits and ._+-.

    Raises:
        InputError: no such kind.
    """
    if kind not in TEMPLATES:
        allowed = nearest_text(kind, tuple(TEMPLATES))
        raise InputError([Problem("no such kind of instance", path="KIND", value=value_text(kind), allowed=allowed)])
    file = Path(__file__).with_name(TEMPLATES[kind]) / f"{kind}.template.yaml"
    return read_text(file, MOST_BYTES).replace("NAME", name)
