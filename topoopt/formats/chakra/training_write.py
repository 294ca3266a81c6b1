"""One iteration of training as Chakra execution traces: a file a rank, passes in the order of the schedule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from topoopt.core.hierarchy import Collective, CollectiveStep, ComputeStep, RankStep
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.result import Result
from topoopt.formats.chakra.content import CommType, NodeType
from topoopt.formats.chakra.nodes import MAX_NODES, collective_node, message_node, node, trace_bytes
from topoopt.formats.exporter import NOTES_FILE, Export, ExportOptions, json_bytes, notes_bytes, plain_name, refuse
from topoopt.formats.training_plans import plan_on

GROUPS_FILE, LAYOUT_FILE = "comm_groups.json", "layout.json"
STAGES, ALL = "stages", "all"
RANKS = re.compile(r"\d{1,9}(-\d{1,9})?")

COMM_TYPES = {
    Collective.ALL_REDUCE: CommType.ALL_REDUCE,
    Collective.ALL_GATHER: CommType.ALL_GATHER,
    Collective.REDUCE_SCATTER: CommType.REDUCE_SCATTER,
    Collective.ALL_TO_ALL: CommType.ALL_TO_ALL,
}

LIMITS = (
    "training: transfers of a pass follow its computing, those of its layers added up; what is hidden behind computing "
    "is not in a trace",
    "training: gradients are reduced behind the last backward pass of a stage, weights gathered ahead of its first "
    "pass, with ZeRO 3 in all passes; the step of the optimizer is that of the fullest rank",
    "training: embeddings and losses exchange nothing; schedule dualpipe and experts shared by GPUs are refused",
)


def build(result: Result[Any, Any], options: ExportOptions) -> Export:
    """Traces of the ranks asked for, groups of their collectives, and where ranks stand.

    Raises:
        InputError: no instance, no plan for the fabric, ranks that there are not, or too many.
    """
    plan, program = plan_on(result, options.fabric), options.program
    if program is None:
        raise refuse("sizes of layers are those of the instance", path="--instance", allowed="the solved instance")
    strategy = plan.strategy
    ranks = ranks_asked(strategy, options.ranks)
    due = [program.totals(rank) for rank in ranks]
    count = sum(one.steps for one in due)
    if count > MAX_NODES:
        raise refuse("too many nodes for traces", path="--ranks", value=count, allowed=f"at most {MAX_NODES}")
    prefix, n = plain_name(result.name), strategy.gpus
    traces = [(f"{prefix}.{rank}.et", trace_bytes(_nodes(program.steps(rank)))) for rank in ranks]
    cluster = result.figures.problem.cluster
    places = plan.network.places or tuple(range(cluster.servers))
    layout = {
        "ranks": n,
        "gpus_per_server": cluster.gpus_per_server,
        "servers": list(places),
        "order": [one.value for one in strategy.order],
        "sizes": [getattr(strategy, one.value) for one in strategy.order],
    }
    groups = {str(number): list(members) for number, members in program.groups.items()}
    title = f"{len(ranks)} of {n} ranks as Chakra execution traces: {prefix}.RANK.et, groups in {GROUPS_FILE}"
    files = (
        *traces,
        (GROUPS_FILE, json_bytes(groups)),
        (LAYOUT_FILE, json_bytes(layout)),
        (NOTES_FILE, notes_bytes(title, LIMITS)),
    )
    content = (layout, {name: tuple(members) for name, members in groups.items()}, due)
    return Export(files, content, LIMITS)


def _nodes(steps: Iterable[RankStep]) -> Iterator[Any]:
    for place, one in enumerate(steps):
        if isinstance(one, ComputeStep):
            yield node(place, one.name, NodeType.COMP, one.after, one.time_us)
        elif isinstance(one, CollectiveStep):
            kind = COMM_TYPES[one.collective]
            yield collective_node(place, one.name, kind, one.size_bytes, one.after, str(one.group))
        else:
            yield message_node(place, one.sends, one.peer, one.tag, one.size_bytes, one.after)


def ranks_asked(strategy: ParallelStrategy, text: str) -> list[int]:
    """Ranks: `stages`, one of each stage of the first replica; `all`; or a list such as `0,8-15`.

    Raises:
        InputError: no such list, or ranks that there are not.
    """
    n = strategy.gpus
    if text == ALL:
        return list(range(n))
    if text == STAGES:
        stride = 1
        for dimension in strategy.order:
            if dimension.value == "pipeline":
                break
            stride *= getattr(strategy, dimension.value)
        return [stride * stage for stage in range(strategy.pipeline)]
    parts = text.split(",")
    allowed = f"{STAGES}, {ALL}, or ranks 0 to {n - 1} such as 0,8-15"
    found: set[int] = set()
    for part in parts:
        first, _, last = part.partition("-")
        if not RANKS.fullmatch(part) or not int(first) <= int(last or first) < n:
            raise refuse("not ranks of the strategy", path="--ranks", value=part, allowed=allowed)
        found.update(range(int(first), int(last or first) + 1))
    return sorted(found)
