"""Megatron-LM takes a strategy as arguments (megatron/training/arguments.py), a host file, and a table of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import RANK_ORDER, ParallelStrategy, PipelineSchedule, Recompute
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.result import Result
from topoopt.files.atomic import csv_text
from topoopt.formats.exporter import NOTES_FILE, Export, Exporter, ExportOptions, notes_bytes, plan_on

ARGUMENTS_FILE, HOST_FILE, RANKS_FILE = "arguments.txt", "hostfile", "ranks.csv"


HEAD = ("rank", "host", "gpu", "tensor", "context", "data", "pipeline")

SCHEDULES = (PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.INTERLEAVED)
"""What Megatron-LM runs."""

ORDERS = (RANK_ORDER, (D.TENSOR, D.CONTEXT, D.PIPELINE, D.DATA))
"""Of ranks: the usual one, and that of `--use-tp-pp-dp-mapping`."""

SHARING = {2: "optim_grads", 3: "optim_grads_params"}
"""What its FSDP shares out, by ZeRO stage."""


def arguments_of(
    strategy: ParallelStrategy, problem: LlmTrainingProblem, *, experts: bool
) -> tuple[tuple[str, str], ...]:
    """Names and values; an empty value for a flag.

    Args:
        experts: the model has some.
    """
    s = strategy
    listed: list[tuple[str, object]] = [
        ("--num-layers", problem.model.layers),
        ("--seq-length", problem.batch.length),
        ("--global-batch-size", problem.batch.sequences),
        ("--micro-batch-size", s.micro_batch),
        ("--tensor-model-parallel-size", s.tensor),
        ("--context-parallel-size", s.context),
        ("--pipeline-model-parallel-size", s.pipeline),
    ]
    if experts:
        listed += [("--expert-model-parallel-size", s.expert), ("--expert-tensor-parallel-size", s.expert_tensor)]
    return tuple((name, str(value)) for name, value in (*listed, *_choices(s)))


def has_experts(result: Result[Any, Any]) -> bool:
    """Whether experts are divided, or their copies are reduced apart from the rest."""
    divided = any(plan.strategy.expert * plan.strategy.expert_tensor > 1 for plan in result.plan.fabrics)
    return divided or dict(result.figures.sent_bytes).get("data_expert_sent_bytes", 0.0) > 0


def _choices(s: ParallelStrategy) -> Iterator[tuple[str, object]]:
    if _counted(s) != _counted(s, RANK_ORDER):
        yield "--use-tp-pp-dp-mapping", ""
    if s.sequence:
        yield "--sequence-parallel", ""
    if s.pipeline > 1 and len(set(s.stage_layers)) > 1:
        yield "--pipeline-model-parallel-layout", _layout(s.stage_layers)
    elif s.chunks > 1:
        yield "--num-virtual-stages-per-pipeline-rank", s.chunks
    if s.zero == 1:
        yield "--use-distributed-optimizer", ""
    elif s.zero > 1:
        yield "--use-megatron-fsdp", ""
        yield "--data-parallel-sharding-strategy", SHARING[s.zero]
        yield "--use-distributed-optimizer", ""
        yield "--no-gradient-accumulation-fusion", ""
        yield "--ckpt-format", "fsdp_dtensor"
    if s.recompute is Recompute.FULL:
        yield "--recompute-granularity", "full"
        yield "--recompute-method", "uniform"
        yield "--recompute-num-layers", 1
    elif s.recompute is Recompute.SELECTIVE:
        yield "--recompute-granularity", "selective"


def _counted(strategy: ParallelStrategy, order: tuple[D, ...] | None = None) -> list[D]:
    """The dimensions that ranks count along, in an order (default: its own): those of one rank stand anywhere."""
    return [
        dimension
        for dimension in (strategy.order if order is None else order)
        if getattr(strategy, dimension.value) > 1
    ]


def _layout(layers: tuple[int, ...]) -> str:
    """Stages in the order of the model: E embedding, t a layer, L the loss."""
    stages = ["t" * count for count in layers]
    return "|".join(["E" + stages[0], *stages[1:-1], stages[-1] + "L"])


def coordinates(strategy: ParallelStrategy, rank: int) -> dict[D, int]:
    """Where a rank stands in each dimension: the first one counts fastest."""
    by_dimension = {}
    for dimension in strategy.order:
        rank, by_dimension[dimension] = divmod(rank, getattr(strategy, dimension.value))
    return by_dimension


def build(result: Result[Any, Any], options: ExportOptions) -> Export:
    """Arguments, one a line; hosts with their slots; a row for every rank.

    Raises:
        InputError: what Megatron-LM does not run.
    """
    plan, problem = plan_on(result, options.fabric), result.figures.problem
    strategy = plan.strategy
    experts = has_experts(result)
    _refuse(strategy, experts=experts)
    servers = plan.network.places or tuple(range(problem.cluster.servers))
    names = {index: host.name for index, host in enumerate(options.hosts)}
    hosts = [names.get(server, f"server-{server}") for server in servers]
    g = problem.cluster.gpus_per_server
    arguments = arguments_of(strategy, problem, experts=experts)
    rows = [
        (rank, hosts[rank // g], rank % g, *(coordinates(strategy, rank)[dimension] for dimension in RANK_ORDER))
        for rank in range(problem.cluster.gpus)
    ]
    text = "".join(f"{name} {value}".rstrip() + "\n" for name, value in arguments)
    files = (
        (ARGUMENTS_FILE, text.encode()),
        (HOST_FILE, "".join(f"{host} slots={g}\n" for host in hosts).encode()),
        (RANKS_FILE, csv_text(HEAD, rows).encode()),
        (NOTES_FILE, notes_bytes(f"Megatron-LM on {problem.cluster.gpus} GPUs", EXPORTER.limits)),
    )
    content: dict[str, Any] = {
        "arguments": dict(arguments),
        "hosts": [(host, g) for host in hosts],
        "ranks": [tuple(map(str, row)) for row in rows],
    }
    return Export(files, content, EXPORTER.limits)


def _refuse(strategy: ParallelStrategy, *, experts: bool) -> None:
    problems = []
    if strategy.schedule not in SCHEDULES:
        allowed = ", ".join(SCHEDULES)
        text = "Megatron-LM has no such schedule"
        problems.append(Problem(text, path="plan.strategy.schedule", value=strategy.schedule.value, allowed=allowed))
    if experts and strategy.tensor > 1 and not strategy.sequence:  # megatron/core/transformer/moe/moe_layer.py
        text = "Megatron-LM trains experts beside tensor parallelism with sequence parallelism alone"
        problems.append(Problem(text, path="plan.strategy.sequence", value="false", allowed="true"))
    usual, stages_first = (_counted(strategy, order) for order in ORDERS)
    if _counted(strategy) not in (usual, stages_first):
        value, allowed = ", ".join(strategy.order), " or ".join(", ".join(order) for order in ORDERS)
        text = "Megatron-LM has no such order of ranks"
        problems.append(Problem(text, path="plan.strategy.order", value=value, allowed=allowed))
    elif experts and _counted(strategy) != usual and strategy.expert_replicas != strategy.data:
        # An assertion of megatron/core/parallel_state.py.
        text = "Megatron-LM wants as many replicas of experts as of all else where ranks count along data last"
        value, allowed = str(strategy.expert_replicas), str(strategy.data)
        problems.append(Problem(text, path="plan.strategy.order", value=f"{value} of experts", allowed=allowed))
    if problems:
        raise InputError(problems)


EXPORTER = Exporter(
    kinds=("llm-training",),
    makes="arguments of Megatron-LM for the strategy, a host file and the place of every rank",
    limits=(
        "the shape of the model but for its layers, the data and the learning rate are the user's",
        "schedules other than 1f1b and interleaved are refused",
        "what is hidden (overlap) follows from further arguments of Megatron-LM, which the solution does not say",
        "layers that predict further tokens stand on the last stage, and are not in the layout",
    ),
    folder=True,
    build=build,
)
