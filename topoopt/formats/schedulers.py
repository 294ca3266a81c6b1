"""What Slurm and Kubernetes take of a network: a tree of switches, blocks of hosts, and labels of nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from topoopt.core.result import Result
from topoopt.formats.exporter import NOTES_FILE, Export, Exporter, ExportOptions, notes_bytes
from topoopt.formats.host_tree import HostTree, host_tree

MOST_NAME = 64
"""Characters of the name of a switch in Slurm."""

TIER = "fabric.topograph.run/tier-"
MOST_LABEL = 63


def _tree(solution: Result[Any, Any], options: ExportOptions) -> HostTree:
    return host_tree(solution.figures.problem.network, options.gpus_per_server, options.hosts)


def hostlist(names: Sequence[str]) -> str:
    """Names as Slurm writes them: `n[0-3,7],x`; the inverse of `scontrol show hostnames`."""
    groups: dict[tuple[str, int], list[int]] = {}
    for name in names:
        stem, digits = re.fullmatch(r"(.*?)([0-9]*)", name).groups()  # type: ignore[union-attr]
        width = len(digits) if digits.startswith("0") and len(digits) > 1 else 0
        groups.setdefault((stem, width if digits else -1), []).append(int(digits or 0))
    texts = []
    for (stem, width), numbers in groups.items():
        if width < 0:
            texts.append(stem)
            continue
        runs: list[list[int]] = []
        for number in sorted(numbers):
            if runs and number == runs[-1][1] + 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        shown = [f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}" for low, high in runs]
        single = len(runs) == 1 and runs[0][0] == runs[0][1]
        texts.append(f"{stem}{shown[0]}" if single else f"{stem}[{','.join(shown)}]")
    return ",".join(texts)


def _plain(name: str, most: int) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:most].rstrip("-._") or "switch"


def switch_names(tree: HostTree, most: int) -> list[str]:
    """A name for each switch, no two alike, with letters that Slurm and Kubernetes take."""
    names: list[str] = []
    for row, switch in enumerate(tree.switches):
        name = _plain(switch.name, most)
        names.append(name if name not in names else f"{name[: most - 6]}-{row}")
    return names


def block_sizes(smallest: int, blocks: int) -> list[int]:
    """Hosts of the smallest block, and its doubles up to what all blocks hold together."""
    return [smallest << power for power in range(blocks.bit_length())]


def build_slurm(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """The tree as `topology.conf`, tree and blocks as `topology.yaml`.

    Raises:
        InputError: no packet switches between hosts, sets of hosts that are no tree, hosts that are not stated.
    """
    tree = _tree(solution, options)
    names = switch_names(tree, MOST_NAME)
    conf, rows = [], list[dict[str, str]]()
    for row in range(len(tree.switches)):
        below, own = tree.children(row)
        entry = {"switch": names[row]}
        if below:
            entry["children"] = hostlist([names[at] for at in below])
        if own and not below:
            entry["nodes"] = hostlist([tree.hosts[host] for host in own])
        rows.append(entry)
        what = f"Switches={entry['children']}" if below else f"Nodes={entry['nodes']}"
        conf.append(f"SwitchName={names[row]} {what}")
    leaves = [row for row in range(len(tree.switches)) if not tree.children(row)[0]]
    sizes = [len(tree.switches[row].hosts) for row in leaves]
    notes = [*_tree_notes(tree), *_mixed(tree)]
    blocks = [
        {"block": names[row], "nodes": hostlist([tree.hosts[host] for host in tree.switches[row].hosts])}
        for row in leaves
    ]
    topologies: list[dict[str, Any]] = [{"topology": "tree", "cluster_default": True, "tree": {"switches": rows}}]
    covered = sum(sizes) == len(tree.hosts)
    if covered:
        block: dict[str, Any] = {"block_sizes": block_sizes(min(sizes), len(leaves)), "blocks": blocks}
        topologies.append({"topology": "block", "cluster_default": False, "block": block})
        notes.append(
            f"blocks are the {len(leaves)} smallest sets of hosts under one switch, {min(sizes)} hosts or more"
        )
    else:
        notes.append("no blocks: some hosts are under no leaf")
    notes.append("Slurm ignores topology.conf where topology.yaml stands beside it: install one of the two")
    files = (
        ("topology.conf", "\n".join((*conf, "")).encode()),
        ("topology.yaml", _yaml(topologies).encode()),
        (NOTES_FILE, notes_bytes("Topology of a cluster for Slurm", tuple(notes))),
    )
    content = (tuple(conf), topologies)
    return Export(files, content, tuple(notes), {"hosts": len(tree.hosts), "switches": len(tree.switches)})


def _mixed(tree: HostTree) -> Iterable[str]:
    for row, switch in enumerate(tree.switches):
        below, own = tree.children(row)
        if below and own:
            shown = ", ".join(tree.hosts[host] for host in own[:8])
            yield f"{switch.name} has switches and hosts below it; Slurm takes the switches: left out are {shown}"


def _tree_notes(tree: HostTree) -> Iterable[str]:
    for switch in tree.switches:
        if len(switch.switches) > 1:
            shown = ", ".join(switch.switches[:4]) + (", ..." if len(switch.switches) > 4 else "")
            yield f"{switch.name} stands for {len(switch.switches)} switches that reach the same hosts: {shown}"


def _yaml(topologies: list[dict[str, Any]]) -> str:
    """Block style, text in quotes: what YAML and its subset JSON read alike."""
    lines = []
    for topology in topologies:
        lines.append(f"- topology: {topology['topology']}")
        lines.append(f"  cluster_default: {'true' if topology['cluster_default'] else 'false'}")
        if "tree" in topology:
            lines += ["  tree:", "    switches:"]
            for entry in topology["tree"]["switches"]:
                texts = [f"{key}: {json.dumps(value)}" for key, value in entry.items()]
                lines += [f"      - {texts[0]}", *(f"        {text}" for text in texts[1:])]
        if "block" in topology:
            sizes = ", ".join(map(str, topology["block"]["block_sizes"]))
            lines += ["  block:", f"    block_sizes: [{sizes}]", "    blocks:"]
            for entry in topology["block"]["blocks"]:
                texts = [f"{key}: {json.dumps(value)}" for key, value in entry.items()]
                lines += [f"      - {texts[0]}", *(f"        {text}" for text in texts[1:])]
    return "\n".join((*lines, ""))


def build_kubernetes(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """Labels of every node: the switch above it in each tier, 0 the leaf.

    Raises:
        InputError: as of Slurm.
    """
    tree = _tree(solution, options)
    names = dict(zip(tree.switches, switch_names(tree, MOST_LABEL), strict=True))
    labels = {
        name: {f"{TIER}{tier}": names[switch] for tier, switch in enumerate(tree.above(host))}
        for host, name in enumerate(tree.hosts)
    }
    documents = []
    for name, given in labels.items():
        rows = "".join(f"    {key}: {json.dumps(value)}\n" for key, value in given.items())
        documents.append(f"apiVersion: v1\nkind: Node\nmetadata:\n  name: {json.dumps(name)}\n  labels:\n{rows}")
    notes = (
        *_tree_notes(tree),
        "kubectl apply --server-side -f labels.yaml sets the labels of nodes that are there, and no others",
        "labels of NVLink domains (accelerator.topograph.run/domain, nvidia.com/gpu.clique) are not written: the GPU "
        "operator knows them",
    )
    files = (
        ("labels.yaml", "---\n".join(documents).encode()),
        (NOTES_FILE, notes_bytes("Labels of nodes for Kubernetes", notes)),
    )
    return Export(files, labels, notes, {"hosts": len(labels)})


SLURM = Exporter(
    kinds=("collective",),
    makes="topology.conf (tree of switches) and topology.yaml (tree and blocks); gpus_per_server says which ranks "
    "are a host",
    limits=(
        "a tree alone: switches that reach the same hosts are one, and rates and rails are not written",
        "nodes are hosts: what lies inside one (NVSwitches, NICs) is left out",
    ),
    folder=True,
    build=build_slurm,
)
KUBERNETES = Exporter(
    kinds=("collective",),
    makes="labels.yaml: the switch above each node, by tier, as topograph labels it",
    limits=("the same tree as of slurm; values have at most 63 of the characters A-Z a-z 0-9 . _ -",),
    folder=True,
    build=build_kubernetes,
)
