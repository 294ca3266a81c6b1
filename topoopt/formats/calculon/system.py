"""A strategy on a machine of Calculon, as the execution that Calculon would be given."""

from __future__ import annotations

import os
from typing import Any, Literal

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy, Recompute
from topoopt.formats.calculon.read import ExecutionJson, system_section

Again = Literal["none", "attn_only", "full"]

RECOMPUTED: dict[Recompute, Again] = {Recompute.NONE: "none", Recompute.SELECTIVE: "attn_only", Recompute.FULL: "full"}


def on_system(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, system: str | os.PathLike[str]
) -> dict[str, Any]:
    """The section `calculon` of the instance: tensors on the first network of the machine, all else on the second.

    Sequence parallelism gathers anew what it keeps split; activation functions are not fused.

    Raises:
        InputError: everything wrong with the file, or what it lacks for the strategy.
    """
    execution = ExecutionJson(
        num_procs=strategy.gpus,
        tensor_par=strategy.tensor,
        pipeline_par=strategy.pipeline,
        data_par=strategy.data,
        tensor_par_net=0,
        pipeline_par_net=1,
        data_par_net=1,
        batch_size=problem.batch.sequences,
        microbatch_size=strategy.micro_batch,
        datatype="float8" if problem.formats.fp8 else "float16",
        fused_activation=False,
        attention_type="multihead",
        activation_recompute=RECOMPUTED[strategy.recompute],
        pipeline_interleaving=strategy.chunks,
        optimizer_sharding=strategy.zero > 0,
        tensor_par_comm_type="rs_ag" if strategy.sequence else "ar",
        tensor_par_overlap="none",
        seq_par_ag_redo=strategy.sequence and strategy.recompute is not Recompute.FULL,
        data_par_overlap=problem.overlap.data and strategy.data > 1,
        weight_offload=False,
        activations_offload=False,
        optimizer_offload=False,
        training=True,
    )
    _, section = system_section(system, execution)
    return section
