"""Small schedules in the formats of other tools, written out as those tools write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Step = tuple[Any, ...]
"""Type, source, destination (`o3`: chunk 3 of the output; `-`: none), chunks, and (block, step) to wait for."""

WrittenBlock = tuple[int, int, int, list[Step]]
"""Peer to send to, to receive from, channel, steps."""


def msccl(
    path: Path,
    collective: str,
    chunks: int,
    gpus: Sequence[Sequence[WrittenBlock]],
    *,
    in_place: bool = True,
    scratch: int = 0,
    sizes: tuple[int, int] | None = None,
    silent: frozenset[tuple[int, int, int]] = frozenset(),
    attributes: Mapping[str, str] | None = None,
) -> Path:
    """An MSCCL algorithm; `hasdep` as it must be, but for the (gpu, block, step) in `silent`."""
    channels = 1 + max((block[2] for blocks in gpus for block in blocks), default=0)
    head = {
        "name": "t", "proto": "Simple", "nchannels": channels, "nchunksperloop": chunks, "ngpus": len(gpus),
        "coll": collective, "inplace": int(in_place), "outofplace": int(not in_place),
        "minBytes": 0, "maxBytes": 1 << 30,
        **(attributes or {}),
    }  # fmt: skip
    inside, outside = sizes or (chunks, chunks)
    lines = [f"<algo {_xml(head)}>"]
    for rank, blocks in enumerate(gpus):
        waited = {step[4] for block in blocks for step in block[3] if len(step) > 4}
        lines.append(f'<gpu id="{rank}" i_chunks="{inside}" o_chunks="{outside}" s_chunks="{scratch}">')
        for number, (send, receive, channel, steps) in enumerate(blocks):
            lines.append(f'<tb id="{number}" send="{send}" recv="{receive}" chan="{channel}">')
            for place, step in enumerate(steps):
                kind, source, target, count = step[:4]
                depends = step[4] if len(step) > 4 else (-1, -1)
                told = (number, place) in waited and (rank, number, place) not in silent
                row = {
                    "s": place, "type": kind, "srcbuf": _buffer(source)[0], "srcoff": _buffer(source)[1],
                    "dstbuf": _buffer(target)[0], "dstoff": _buffer(target)[1], "cnt": count,
                    "depid": depends[0], "deps": depends[1], "hasdep": int(told),
                }  # fmt: skip
                lines.append(f"<step {_xml(row)}/>")
            lines.append("</tb>")
        lines.append("</gpu>")
    path.write_text("\n".join([*lines, "</algo>"]))
    return path


def _xml(values: Mapping[str, Any]) -> str:
    return " ".join(f'{key}="{value}"' for key, value in values.items())


def _buffer(text: str) -> tuple[str, int]:
    return ("i", -1) if text == "-" else (text[0], int(text[1:]))


def ring_allgather(n: int) -> list[list[WrittenBlock]]:
    """Rank r sends its chunk on round the ring: s, then rcs, then r (in place)."""
    gpus: list[list[WrittenBlock]] = []
    for rank in range(n):
        steps: list[Step] = [("s", f"o{rank}", f"o{rank}", 1)]
        for back in range(1, n):
            chunk = f"o{(rank - back) % n}"
            steps.append(("rcs" if back < n - 1 else "r", chunk, chunk, 1))
        gpus.append([((rank + 1) % n, (rank - 1) % n, 0, steps)])
    return gpus


def teccl(
    path: Path,
    flows: Sequence[str],
    demands: Sequence[tuple[int, int, int]],
    *,
    epoch_s: float = 1e-6,
    epochs: int = 1,
    gbytes: float = 1e-6,
) -> Path:
    """A schedule of TE-CCL; `flows` without the words: `0 of 1: 1>2 @0 via 3 x0.5`; demands (at, chunk, from)."""
    lines = []
    for flow in flows:
        what, _, rest = flow.partition(": ")
        chunk, source = what.split(" of ")
        words = rest.split()
        tail, head = words[0].split(">")
        volume = next((f" with volume {word[1:]}" for word in words if word.startswith("x")), "")
        epoch = next(word[1:] for word in words if word.startswith("@"))
        via = f" via switches {words[words.index('via') + 1]}" if "via" in words else ""
        lines.append(f"Chunk {chunk} from {source} traveled over {tail}->{head}{volume} in epoch {epoch}{via}")
    finish = epoch_s * epochs
    document = {
        "1-Epoch_Duration": epoch_s,
        "3-Epochs_Required": epochs,
        "4-Collective_Finish_Time": finish,
        "5-Algo_Bandwidth": gbytes / finish,
        "7-Flows": lines,
        "8-Chunk paths": {
            f"Demand at {at} for chunk {chunk} from {source} met by epoch 0": [] for at, chunk, source in demands
        },
    }
    path.write_text(json.dumps(document))
    return path


def everyone(ranks: Sequence[int]) -> list[tuple[int, int, int]]:
    """Demands of an AllGather: chunk 0 of each at each other."""
    return [(at, 0, source) for at in ranks for source in ranks if at != source]


def sccl(
    path: Path,
    name: str,
    nodes: int,
    chunks: Sequence[tuple[Sequence[int], Sequence[int], int]],
    steps: Sequence[tuple[int, Sequence[tuple[int, int, int]]]],
    links: Sequence[Sequence[int]] | None = None,
    maps: tuple[Mapping[str, list[int]], Mapping[str, list[int]]] = ({}, {}),
) -> Path:
    """An algorithm of SCCL: chunks (pre, post, address), steps (rounds, sends), links[dst][src], maps of addresses."""
    document: dict[str, Any] = {
        "msccl_type": "algorithm",
        "name": f"{name}-t",
        "instance": {"msccl_type": "instance", "steps": len(steps), "extra_rounds": 0, "chunks": 1, "pipeline": None},
        "input_map": maps[0],
        "output_map": maps[1],
        "steps": [
            {"msccl_type": "step", "rounds": rounds, "sends": [list(one) for one in sends]} for rounds, sends in steps
        ],
        "collective": {
            "msccl_type": "collective",
            "name": f"{name}(n={nodes})",
            "nodes": nodes,
            "chunks": [{"msccl_type": "chunk", "pre": list(a), "post": list(b), "addr": c} for a, b, c in chunks],
            "triggers": {},
            "runtime_name": name,
        },
    }
    if links is not None:
        document["topology"] = {
            "msccl_type": "topology",
            "name": "t",
            "switches": [],
            "links": [list(r) for r in links],
        }
    path.write_text(json.dumps(document))
    return path


def forestcoll(path: Path, per_node: int, trees: Sequence[tuple[str, int, Sequence[tuple[str, ...]]]]) -> Path:
    """Trees of ForestColl: (root, chunks, ways); a way is the nodes from a tail to a head."""
    lines = [f'<Algo nchunkspernode="{per_node}">']
    for index, (root, chunks, ways) in enumerate(trees):
        lines.append(f'<tree root="{root}" index="{index}" nchunks="{chunks}" height="{len(ways)}">')
        lines += [f'<send src="{way[0]}" dst="{way[-1]}" path="{",".join(way)}"/>' for way in ways]
        lines.append("</tree>")
    path.write_text("\n".join([*lines, "</Algo>"]))
    return path


def teccl_input(folder: Path, name: str, chassis: int, collective: int = 1, **more: Any) -> Path:
    """An input of TE-CCL."""
    path = folder / f"{name}-{chassis}.json"
    topology = {"name": name, "chassis": chassis, "chunk_size": 0.0625, **more}
    instance = {"collective": collective, "num_chunks": 1, "epoch_type": 2, "switch_copy": True}
    path.write_text(json.dumps({"TopologyParams": topology, "GurobiParams": {}, "InstanceParams": instance}))
    return path
