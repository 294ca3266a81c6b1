"""Readers of tables that schedulers, tuners, NetBox and optical switches take, by their own rules."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

MOST = 2**64 - 1


def rows_of(file: Path) -> list[dict[str, str]]:
    """Rows of a table by name."""
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def read_tuner(folder: Path) -> tuple[str, ...]:
    """Lines of a tuner's table: eight to ten fields; those of a group cover all sizes, with their channels."""
    (file,) = [file for file in folder.iterdir() if file.suffix in (".conf", ".csv")]
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    covered: dict[tuple[str, ...], int] = {}
    for line in lines:
        cells = line.split(",")
        assert 8 <= len(cells) <= 10
        assert len(line) < 255
        collective, low, high, _, _, channels, *group = cells
        key = (collective, *group)
        assert 1 <= int(channels) <= 64
        if int(low) <= covered.get(key, -1):  # what follows a line for the same sizes
            assert int(high) == covered[key]
        else:
            assert int(low) == covered.get(key, -1) + 1
            covered[key] = int(high)
    assert set(covered.values()) <= {MOST}
    return tuple(lines)


def read_cables(folder: Path) -> dict[str, Any]:
    """Cables of NetBox's import, and differences."""
    rows = rows_of(folder / "cables.csv")
    assert all(row["side_a_type"] == row["side_b_type"] == "dcim.interface" for row in rows)
    ends = [
        tuple(sorted(((row["side_a_device"], row["side_a_name"]), (row["side_b_device"], row["side_b_name"]))))
        for row in rows
    ]
    ports = [end for pair in ends for end in pair]
    assert len(set(ports)) == len(ports)  # a termination that is cabled already is an error of NetBox
    content: dict[str, Any] = {"cables": frozenset(ends)}
    if (folder / "differences.csv").exists():
        content["differences"] = tuple(tuple(row.values()) for row in rows_of(folder / "differences.csv"))
    return content


def hostnames(text: str) -> list[str]:
    """Names of a host list of Slurm."""
    names = []
    for stem, numbers, plain in re.findall(r"([^,\[]*)\[([^\]]*)\]|([^,\[\]]+)", text):
        if plain:
            names.append(plain)
        for part in numbers.split(",") if numbers else ():
            low, _, high = part.partition("-")
            names += [f"{stem}{number:0{len(low)}d}" for number in range(int(low), int(high or low) + 1)]
    return names


def read_slurm(folder: Path) -> object:
    """Lines of topology.conf and the list of topology.yaml, which must state the same tree."""
    lines = tuple((folder / "topology.conf").read_text().splitlines())
    topologies = YAML(typ="safe").load((folder / "topology.yaml").read_text())
    entries = topologies[0]["tree"]["switches"]
    again = [
        f"SwitchName={row['switch']} "
        + (f"Switches={row['children']}" if "children" in row else f"Nodes={row['nodes']}")
        for row in entries
    ]
    assert list(lines) == again
    names = [row["switch"] for row in entries]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 64 for name in names)
    children = [name for row in entries for name in hostnames(row.get("children", ""))]
    nodes = [name for row in entries for name in hostnames(row.get("nodes", ""))]
    assert set(children) <= set(names)
    assert len(set(children)) == len(children)  # a tree
    assert len(set(nodes)) == len(nodes)
    for topology in topologies[1:]:
        sizes = topology["block"]["block_sizes"]
        blocks = [hostnames(row["nodes"]) for row in topology["block"]["blocks"]]
        assert all(len(block) >= sizes[0] for block in blocks)
        assert all(size % sizes[0] == 0 and (size // sizes[0]).bit_count() == 1 for size in sizes)
        assert sorted(name for block in blocks for name in block) == sorted(nodes)
    return lines, topologies


def read_labels(folder: Path) -> dict[str, dict[str, str]]:
    """Labels of nodes."""
    documents = list(YAML(typ="safe").load_all((folder / "labels.yaml").read_text()))
    assert all(document["kind"] == "Node" and document["apiVersion"] == "v1" for document in documents)
    labels = {document["metadata"]["name"]: dict(document["metadata"]["labels"]) for document in documents}
    values = [value for given in labels.values() for value in given.values()]
    assert all(re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", value) for value in values)
    return labels


def read_optical(folder: Path) -> dict[str, Any]:
    """Cross-connects of every optical switch, each port at most once, and changes."""
    connects: dict[int, frozenset[tuple[int, int]]] = {}
    changes = []
    for number in range(1, 1 + sum(re.fullmatch(r"ocs\d+\.json", file.name) is not None for file in folder.iterdir())):
        tables = json.loads((folder / f"ocs{number}.json").read_text())
        pairs = []
        for name, row in tables["OCS_CROSS_CONNECT"].items():
            assert name == f"{row['a_side']}-{row['b_side']}"
            assert {row["a_side"], row["b_side"]} <= set(tables["OCS_PORT"])
            pairs.append((int(row["a_side"].removesuffix("A")), int(row["b_side"].removesuffix("B"))))
        for side in (0, 1):
            ports = [pair[side] for pair in pairs]
            assert len(set(ports)) == len(ports)
        connects[number] = frozenset(pairs)
        file = folder / f"ocs{number}.changes.json"
        changes += [json.loads(file.read_text())] if file.exists() else []
    return {"connects": connects, "changes": tuple(changes)}


def read_repetita(folder: Path) -> object:
    """Number of nodes, links and demands in kbit/s."""
    blocks: dict[str, list[list[str]]] = {}
    for file in folder.iterdir():
        if file.suffix not in (".graph", ".demands"):
            continue
        lines = [line.split() for line in file.read_text().splitlines() if line]
        while lines:
            (word, count), _, *rest = lines
            blocks[word], lines = rest[: int(count)], rest[int(count) :]
    edges = tuple((int(tail), int(head), rate) for _, tail, head, _, rate, _ in blocks["EDGES"])
    demands = tuple((int(source), int(sink), rate) for _, source, sink, rate in blocks["DEMANDS"])
    return len(blocks["NODES"]), edges, demands


def read_sndlib(folder: Path) -> object:
    """Number of nodes, links and demands in Gbit/s, of a native file whose nodes are N0, N1, ..."""
    sections: dict[str, list[list[str]]] = {}
    section = ""
    (file,) = folder.iterdir()
    head, *lines = file.read_text().splitlines()
    assert head == "?SNDlib native format; type: network; version: 1.0"
    for line in lines:
        cells = line.partition("#")[0].split()
        if len(cells) == 2 and cells[1] == "(":
            section = cells[0]
            sections[section] = []
        elif cells and cells != [")"]:
            sections[section].append(cells)
    assert sections["META"] == [["unit", "=", "GBITPERSEC"]]
    assert not sections["ADMISSIBLE_PATHS"]
    number = {cells[0]: at for at, cells in enumerate(sections["NODES"])}
    links = tuple((number[cells[2]], number[cells[3]], cells[5]) for cells in sections["LINKS"])
    demands = tuple((number[cells[2]], number[cells[3]], cells[6]) for cells in sections["DEMANDS"])
    assert all(cells[6:] == ["0", "0", "0", "(", ")"] for cells in sections["LINKS"])
    assert all((cells[5], cells[7]) == ("1", "UNLIMITED") for cells in sections["DEMANDS"])
    return len(number), links, demands


def read_infragraph(folder: Path) -> object:
    """Instances with their kinds, and links as (node, node, GB/s, us), of a file with one component an instance."""
    (file,) = folder.iterdir()
    document = json.loads(file.read_text())
    kind = {}
    for device in document["devices"]:
        (component,) = device["components"]
        assert component == {"name": device["name"], "count": 1, "choice": device["name"]}
        kind[device["name"]] = component["choice"]
    nodes = tuple((instance["name"], kind[instance["device"]]) for instance in document["instances"])
    number = {name: at for at, (name, _) in enumerate(nodes)}
    assert len(number) == len(nodes)
    physical = {link["name"]: link["physical"] for link in document["links"]}
    links = []
    for edge in document["edges"]:
        ends = [number[edge[end]["instance"]] for end in ("ep1", "ep2")]
        assert [edge[end]["component"] for end in ("ep1", "ep2")] == [nodes[end][1] for end in ends]
        assert edge["scheme"] == "one2one"
        rate, latency = physical[edge["link"]]["bandwidth"], physical[edge["link"]]["latency"]
        assert (rate["choice"], latency["choice"]) == ("gigabytes_per_second", "us")
        links.append((*ends, rate["gigabytes_per_second"], latency["us"]))
    return nodes, tuple(links)
