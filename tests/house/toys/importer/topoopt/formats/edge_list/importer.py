"""A list of links as a routing instance with uniform demand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from topoopt.core.arrays import MIB
from topoopt.files.untrusted import read_text
from topoopt.formats.table import Imported, Importer, NameOption, name_of


def import_edges(
    file: Annotated[Path, typer.Argument(help="Tail and head, one link a line.")],
    amount: Annotated[float, typer.Option(help="Of every pair.")] = 1.0,
    name: NameOption = None,
) -> Imported:
    """Links one a line."""
    links = [[int(word) for word in line.split()] for line in read_text(file, MIB).splitlines()]
    servers = max(map(max, links)) + 1
    document = {
        "schema_version": 1,
        "kind": "routing",
        "name": name or name_of(file),
        "topology": {"links": links, "directed": True},
        "demand": {"matrix": [[amount * (i != j) for j in range(servers)] for i in range(servers)]},
    }
    return Imported(document, f"{len(links)} links", {"links": len(links)})


IMPORTER: Importer = import_edges
