"""Arguments of Megatron-LM, and where every rank stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.smallest import solution_of
from topoopt.core.errors import InputError
from topoopt.core.parallelism import RANK_ORDER, ParallelStrategy, Recompute
from topoopt.core.pipeline import PipelineSchedule
from topoopt.formats.exporter import Export, ExportOptions, check_export
from topoopt.formats.table import EXPORTERS


def exported(**parts: object) -> Export:
    """Of the smallest solution with another strategy on its 16 GPUs."""
    solution = solution_of("llm-training")
    strategy = replace(ParallelStrategy(), **parts)
    first = solution.fabrics[0]
    changed = replace(first, plan=replace(first.plan, strategy=strategy))
    return EXPORTERS["megatron"].build(replace(solution, fabrics=(changed,)), ExportOptions())


def text(export: Export, name: str) -> str:
    """One of its files."""
    return dict(export.files)[name].decode()


def test_arguments_and_ranks() -> None:
    """Names of megatron/training/arguments.py; ranks count along tensor, context, data, pipeline, four to a server."""
    export = exported(
        tensor=2, sequence=True, context=2, data=2, pipeline=2, chunks=3, zero=1, micro_batch=2,
        schedule=PipelineSchedule.INTERLEAVED, recompute=Recompute.FULL, stage_layers=(4,) * 6,
    )  # fmt: skip
    check_export(EXPORTERS["megatron"], export)
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
    check_export(EXPORTERS["megatron"], export)
    assert "--use-tp-pp-dp-mapping" in text(export, "arguments.txt").splitlines()
    assert text(export, "ranks.csv").splitlines()[1 + 5] == "5,server-1,1,0,0,1,1"
    with pytest.raises(InputError, match="no such order of ranks"):
        exported(data=4, pipeline=4, stage_layers=(6,) * 4, order=(data, tensor, context, pipeline))
