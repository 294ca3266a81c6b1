"""Arguments of Megatron-LM, and where every rank stands."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.llm_plans import with_fabric
from tests.support.read_back.exports import check_export
from tests.support.smallest import solution_of
from topoopt.core.errors import InputError
from topoopt.core.llm_training_plan import FabricPlan
from topoopt.core.parallelism import RANK_ORDER, ParallelStrategy, PipelineSchedule, Recompute
from topoopt.formats.table import EXPORTERS, Export, ExportOptions


def exported(*, experts: bool = False, **parts: Any) -> Export:
    """Of the smallest solution with another strategy on its 16 GPUs; with experts whose gradients are reduced."""
    solution = solution_of("llm-training")
    changed = with_fabric(solution, 0, FabricPlan(replace(ParallelStrategy(), **parts)))
    sent = (("data_expert_sent_bytes", 1.0),) if experts else ()
    vars(changed)["figures"] = SimpleNamespace(problem=solution.problem, sent_bytes=sent)
    return EXPORTERS["megatron"].build(changed, ExportOptions())


def text(export: Export, name: str) -> str:
    """One of its files."""
    return dict(export.files)[name].decode()


def test_arguments_and_ranks() -> None:
    """Names of megatron/training/arguments.py; ranks count along tensor, context, data, pipeline, four to a server."""
    export = exported(
        tensor=2, sequence=True, context=2, data=2, pipeline=2, chunks=3, zero=1, micro_batch=2,
        schedule=PipelineSchedule.INTERLEAVED, recompute=Recompute.FULL, stage_layers=(4,) * 6,
    )  # fmt: skip
    check_export("megatron", export)
    arguments = text(export, "arguments.txt").splitlines()
    for line in (
        "--num-layers 24", "--tensor-model-parallel-size 2", "--context-parallel-size 2", "--sequence-parallel",
        "--pipeline-model-parallel-size 2", "--num-virtual-stages-per-pipeline-rank 3", "--micro-batch-size 2",
        "--global-batch-size 32", "--use-distributed-optimizer", "--recompute-granularity full",
    ):  # fmt: skip
        assert line in arguments
    assert text(export, "hostfile").splitlines() == [f"server-{place} slots=4" for place in range(4)]
    rows = text(export, "ranks.csv").splitlines()
    assert rows[0] == "rank,host,gpu,tensor,context,data,pipeline"
    assert rows[1 + 11] == "11,server-2,3,1,1,0,1"
    assert len(rows) == 17


def test_uneven_layers_are_a_layout() -> None:
    """Embedding before the first stage, loss behind the last, a letter for each layer between."""
    arguments = text(exported(data=8, pipeline=2, stage_layers=(11, 13)), "arguments.txt")
    assert f"--pipeline-model-parallel-layout E{'t' * 11}|{'t' * 13}L\n" in arguments
    assert "virtual" not in arguments


def test_what_megatron_does_not_run_is_refused() -> None:
    with pytest.raises(InputError, match=r"no such schedule .value: zb-h1.; allowed: 1f1b, interleaved"):
        exported(data=8, pipeline=2, schedule=PipelineSchedule.ZB_H1, stage_layers=(12, 12))


def test_orders_of_ranks() -> None:
    """The order with stages before replicas has a flag; others Megatron-LM does not know."""
    tensor, context, data, pipeline = RANK_ORDER
    export = exported(data=4, pipeline=4, stage_layers=(6,) * 4, order=(tensor, context, pipeline, data))
    check_export("megatron", export)
    assert "--use-tp-pp-dp-mapping" in text(export, "arguments.txt").splitlines()
    assert text(export, "ranks.csv").splitlines()[1 + 5] == "5,server-1,1,0,0,1,1"
    with pytest.raises(InputError, match="no such order of ranks"):
        exported(tensor=2, data=2, pipeline=4, stage_layers=(6,) * 4, order=(data, tensor, context, pipeline))


def test_dimensions_of_one_rank_stand_anywhere_in_the_order() -> None:
    """Replicas before context of 1 is the usual order; stages before one replica is too."""
    tensor, context, data, pipeline = RANK_ORDER
    cases: tuple[tuple[Any, dict[str, Any]], ...] = (
        ((tensor, data, context, pipeline), {"data": 4, "pipeline": 4, "stage_layers": (6,) * 4}),
        ((tensor, pipeline, data, context), {"tensor": 4, "pipeline": 4, "stage_layers": (6,) * 4, "sequence": True}),
    )
    for order, parts in cases:
        export = exported(order=order, **parts)
        check_export("megatron", export)
        assert "mapping" not in text(export, "arguments.txt")


def test_arguments_of_experts_stand_where_there_are_some() -> None:
    """A dense model with tensor 2 and one GPU an expert would have other groups of replicas for experts, which Megatron
    refuses beside `--use-tp-pp-dp-mapping` (`megatron/core/parallel_state.py`)."""
    tensor, context, data, pipeline = RANK_ORDER
    order = (tensor, context, pipeline, data)
    parts: dict[str, Any] = {"tensor": 2, "sequence": True, "data": 2, "pipeline": 4, "stage_layers": (6,) * 4}
    assert "--expert" not in text(exported(order=order, **parts), "arguments.txt")
    lines = text(exported(experts=True, expert=2, **parts), "arguments.txt").splitlines()
    assert {"--expert-model-parallel-size 2", "--expert-tensor-parallel-size 1"} <= set(lines)
    assert exported(experts=True, order=order, expert=2, **parts)  # two replicas of experts, as of all else
    with pytest.raises(InputError, match=r"as many replicas of experts .*4 of experts.; allowed: 2"):
        exported(experts=True, order=order, **parts)


def test_experts_beside_tensor_parallelism_want_split_sequences() -> None:
    parts: dict[str, Any] = {"tensor": 2, "data": 2, "pipeline": 4, "stage_layers": (6,) * 4}
    assert exported(**parts)
    with pytest.raises(InputError, match="sequence parallelism alone"):
        exported(experts=True, expert=4, **parts)


@pytest.mark.parametrize(("zero", "strategy"), [(2, "optim_grads"), (3, "optim_grads_params")])
def test_shared_gradients_and_weights_take_all_arguments_of_fsdp(zero: int, strategy: str) -> None:
    """Those that the documentation of Megatron-FSDP says are required."""
    lines = text(exported(data=16, zero=zero), "arguments.txt").splitlines()
    assert {
        "--use-megatron-fsdp", f"--data-parallel-sharding-strategy {strategy}", "--use-distributed-optimizer",
        "--no-gradient-accumulation-fusion", "--ckpt-format fsdp_dtensor",
    } <= set(lines)  # fmt: skip
