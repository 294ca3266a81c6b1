"""One execution by the formulas of Calculon: the parts of its time, and its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from topoopt.core.calculon import ExecutionChoices, TensorTransfers
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy, Recompute
from topoopt.verify.llm_training.calculon.block import (
    BlockSeconds,
    ExecutionKey,
    HeldBytes,
    block_bytes,
    block_seconds,
    matrices,
    optimizer_seconds,
    state_bytes,
)
from topoopt.verify.llm_training.calculon.machine import transfer_s


@dataclass(frozen=True)
class ExecutionFigures:
    """What an iteration takes.

    Attributes:
        seconds, bytes: by the names of the parts of a solution, those that are not 0 always.
        chunk: seconds of a micro-batch in a chunk: forward, gradients of inputs, of weights.
        hop: seconds from a stage to the next.
    """

    seconds: Mapping[str, float]
    bytes: Mapping[str, float]
    chunk: tuple[float, float, float]
    hop: float

    @property
    def total(self) -> float:
        """Seconds."""
        return sum(self.seconds.values())

    @property
    def memory(self) -> float:
        """Bytes."""
        return sum(self.bytes.values())


Evaluate = Callable[[ParallelStrategy, ExecutionChoices], ExecutionFigures]


def evaluator(problem: LlmTrainingProblem) -> Evaluate:
    """Evaluates executions, blocks that are alike once."""
    settings, model, length = problem.calculon, problem.model, problem.batch.length
    assert settings is not None
    steady = settings

    @cache
    def block(key: ExecutionKey) -> tuple[BlockSeconds, HeldBytes]:
        return block_seconds(model, length, steady, key), block_bytes(model, length, steady, key)

    @cache
    def update(t: int, shares: int) -> tuple[float, float, float]:
        return optimizer_seconds(model, steady, t, shares)

    def evaluate(one: ParallelStrategy, choices: ExecutionChoices) -> ExecutionFigures:
        key = ExecutionKey(one.tensor, one.micro_batch, one.recompute, choices.transfers, choices.redo)
        times, held = block(key)
        shares = one.data if one.zero else 1
        return _figures(problem, one, choices, times, held, update(one.tensor, shares))

    return evaluate


def _figures(
    problem: LlmTrainingProblem,
    one: ParallelStrategy,
    choices: ExecutionChoices,
    block: BlockSeconds,
    held: HeldBytes,
    update: tuple[float, float, float],
) -> ExecutionFigures:
    settings, model = problem.calculon, problem.model
    assert settings is not None
    machine, p, v, t = settings.machine, one.pipeline, one.chunks, one.tensor
    layers, m = model.layers // p, problem.batch.sequences // one.data // one.micro_batch
    inner = layers // v - 1
    whole = one.micro_batch * problem.batch.length * model.hidden * machine.element_bytes
    network = machine.networks[settings.pipeline_network]
    message = 0.0 if p == 1 else whole if choices.transfers is TensorTransfers.ALL_REDUCE else whole / t
    hop = transfer_s(network, network.point_to_point, message, 2)
    back = block.again + block.inputs + block.weights
    backward = (back + block.inside[1] + block.inside[2], back + block.edge[1] + block.edge[2] + hop)
    forward = inner * (block.forward + block.inside[0]) + block.forward + block.edge[0]
    chunk_back = inner * backward[0] + backward[1]
    waits = p - 1 + (v - 1) * (-m % p)

    def passed(part: int) -> float:
        return m * v * (inner * block.inside[part] + block.edge[part])

    seconds = {
        "forward": m * layers * block.forward,
        "backward": m * layers * (block.inputs + block.weights),
        "recompute": m * layers * block.again,
        "bubble": waits * (forward + hop + chunk_back),
        "tensor": passed(0) + passed(1) + passed(2),
        "pipeline": 2.0 * m * v * hop if p > 1 else 0.0,
        "data": _exposed(problem, one, choices, block, backward, hop, update) if one.data > 1 else 0.0,
        "optimizer": layers * update[0],
    }
    weights, shares = float(sum(matrices(model, t))), one.data if one.zero else 1
    ways = min(m, p) * (1.0 + (p - 1) / (v * p) if v > 1 else 1.0)
    if one.recompute is Recompute.FULL:
        activations = held.working + layers * whole * ways
    else:
        activations = held.working + held.kept * (layers * ways - 1)
    sizes = {
        "weights": layers * weights * machine.element_bytes,
        "gradients": 4.0 * weights + (layers - 1) * weights * machine.element_bytes / shares,
        "optimizer": layers * weights * state_bytes(settings) / shares,
        "activations": activations + held.gradients,
    }
    of_weights = (inner + 1) * block.weights
    return ExecutionFigures(seconds, sizes, (forward, chunk_back - hop - of_weights, of_weights), hop)


def _exposed(
    problem: LlmTrainingProblem,
    one: ParallelStrategy,
    choices: ExecutionChoices,
    block: BlockSeconds,
    backward: tuple[float, float],
    hop: float,
    update: tuple[float, float, float],
) -> float:
    """Seconds of the reduction of gradients, and of gathering weights, that backward passes do not hide."""
    settings, model, p, v = problem.calculon, problem.model, one.pipeline, one.chunks
    assert settings is not None
    layers, m = model.layers // p, problem.batch.sequences // one.data // one.micro_batch
    count = layers // v
    network = settings.machine.networks[settings.data_network]
    size = float(sum(matrices(model, one.tensor))) * settings.machine.element_bytes
    used = (network.reduce_scatter, network.all_gather) if one.zero else (network.all_reduce,)
    reduction = sum(transfer_s(network, cost, size, one.data) for cost in used)
    if not choices.data_overlap:
        return layers * reduction
    step, unit, memory = (0.0, 0.0, 0.0) if one.zero else update
    quiet = step - memory  # the optimizer leaves memory alone for so long
    busy = block.backward_memory + block.again_memory
    own, last = (part - busy + quiet for part in backward)
    if settings.data_network == settings.tensor_network:
        own -= block.inside[1] + block.inside[2]
        last -= block.edge[1] + block.edge[2]
    window, usage = (count - 1) * own + last, network.processor_usage
    slowed = (block.backward_unit + block.again_unit + unit) * usage
    chunk, met = count * reduction, 0.0
    if settings.data_network == settings.pipeline_network:
        met = min(chunk // ((count - 1) * backward[0] + backward[1]), m % p or p)
    over = chunk - p * window + met * hop + p * count * slowed
    earlier = (v - 1) * (over if over > 0 else chunk * usage)
    tail = window - hop - (backward[0] + backward[1]) / 2 + quiet if count > 1 else 0.0
    rest = (count - 1) * reduction
    over = rest + slowed - tail
    return reduction + earlier + (over if over > 0 else rest * usage)
