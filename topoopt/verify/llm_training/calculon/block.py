"""A transformer block on one GPU by the formulas of Calculon: a table of its operations, its memory in closed form.

After Isaev et al., SC'23, and the rules of its tool: no embedding and no head, a gradient of inputs and one of weights
each as dear as the forward product, masks of one byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from topoopt.core.calculon import CalculonSettings, TensorTransfers
from topoopt.core.language_model import LanguageModel
from topoopt.core.parallelism import Recompute
from topoopt.verify.llm_training.calculon.machine import joint_s, memory_s, transfer_s, unit_s

Triple = tuple[float, float, float]
"""Forward pass, gradients of inputs, gradients of weights."""

ADAM = 11
"""Operations of the optimizer for a weight."""


@dataclass(frozen=True)
class ExecutionKey:
    """What a block depends on: t, b, and the choices of its passes."""

    tensor: int
    micro_batch: int
    recompute: Recompute
    transfers: TensorTransfers
    redo: bool


@dataclass(frozen=True)
class BlockOperation:
    """One operation, or a transfer with the work that belongs to it.

    Attributes:
        again: computed again in the backward pass; of a transfer: done again.
        ahead: of a transfer, whether it stands before the matrices; None: no transfer.
    """

    work: Triple
    moved: Triple
    again: bool
    matrix: bool = False
    ahead: bool | None = None


@dataclass(frozen=True)
class BlockSeconds:
    """Seconds of one micro-batch in a block.

    Attributes:
        forward, again, inputs, weights: of its operations.
        inside, edge: transfers forward, backward, and done again; in the last block of a chunk.
        backward_unit, backward_memory: of both gradients, those of transfers too.
        again_unit, again_memory: of all operations up to each one that is computed again, added up, as the tool does.
    """

    forward: float
    again: float
    inputs: float
    weights: float
    inside: Triple
    edge: Triple
    backward_unit: float
    backward_memory: float
    again_unit: float
    again_memory: float


def operations(model: LanguageModel, length: int, e: int, key: ExecutionKey) -> Iterator[BlockOperation]:
    """In their order; e: bytes of an element."""
    t, rows, h = key.tensor, key.micro_batch * length, model.hidden
    width, inner = model.heads * model.head_size // t, model.ffn_hidden // t
    full, core = key.recompute is Recompute.FULL, key.recompute is not Recompute.NONE
    part = rows * h // t if key.transfers is TensorTransfers.SEQUENCE else rows * h
    heads, square = key.micro_batch * model.heads // t, length * length

    def matrix(inputs: int, outputs: int) -> BlockOperation:
        work, moved = 2.0 * rows * inputs * outputs, e * float(rows * inputs + rows * outputs + inputs * outputs)
        return BlockOperation((work, work, work), (moved, moved, moved), full, matrix=True)

    def attention(*, again: bool) -> BlockOperation:
        work, moved = 2.0 * heads * square * model.head_size, e * heads * (square + 2.0 * length * model.head_size)
        return BlockOperation((work, 2.0 * work, 0.0), (moved, moved, 0.0), again, matrix=True)

    def each(size: int, forward: int, backward: int, of_element: float, *, again: bool) -> BlockOperation:
        moved = of_element * size
        return BlockOperation((forward * size, backward * size, 0.0), (moved, moved, 0.0), again)

    def spread(size: int, users: int, *, again: bool) -> BlockOperation:
        return BlockOperation((0.0, users * size, 0.0), (0.0, (users + 1.0) * size * e, 0.0), again)

    def norm() -> Iterator[BlockOperation]:
        moved = 2.0 * e * (part + h)
        yield spread(part, 2, again=full)
        yield BlockOperation((9.0 * part, 14.0 * part, 7.0 * part), (moved, moved, moved), full)

    def transfer(*, ahead: bool, again: bool) -> BlockOperation:
        size = rows * h if t > 1 else 0
        own, whole = size * (t - 1) / t, 2.0 * size * e
        other = whole if key.transfers is TensorTransfers.SEQUENCE else 0.0
        work, moved = ((0.0, own, 0.0), (other, whole, 0.0)) if ahead else ((own, 0.0, 0.0), (whole, other, 0.0))
        return BlockOperation(work, moved, again and t > 1, ahead=ahead)

    def closing() -> Iterator[BlockOperation]:
        yield each(part, 1, 1, 2 * e + 1, again=full)
        yield each(part, 1, 2, 3 * e, again=full)

    yield from norm()
    yield transfer(ahead=True, again=core or key.redo)
    yield spread(rows * h, 3, again=core or key.redo)
    yield from (matrix(h, width) for _ in range(3))
    yield attention(again=core)
    yield each(heads * square, 5, 8, 2 * e, again=core)
    yield each(heads * square, 1, 1, 2 * e + 1, again=core)
    yield attention(again=full)
    yield matrix(width, h)
    yield transfer(ahead=False, again=full)
    yield from closing()
    yield from norm()
    yield transfer(ahead=True, again=full or key.redo)
    yield matrix(h, inner)
    yield each(model.ffn_hidden * rows // t, 8, 13, 2 * e, again=full)
    yield matrix(inner, h)
    yield transfer(ahead=False, again=full)
    yield from closing()


def block_seconds(model: LanguageModel, length: int, settings: CalculonSettings, key: ExecutionKey) -> BlockSeconds:
    """Sums over the operations of a block."""
    machine, e = settings.machine, settings.machine.element_bytes
    sums = dict.fromkeys(("forward", "again", "inputs", "weights", "back_u", "back_m", "again_u", "again_m"), 0.0)
    ways = {"inside": [0.0, 0.0, 0.0], "edge": [0.0, 0.0, 0.0]}
    seen = [0.0, 0.0]
    size = float(key.micro_batch * length * model.hidden * e)
    network = machine.networks[settings.tensor_network]
    for one in operations(model, length, e, key):
        units = [unit_s(machine, work, matrix=one.matrix) for work in one.work]
        memories = [memory_s(machine, moved) for moved in one.moved]
        joint = [joint_s(machine, *both) for both in zip(units, memories, strict=True)]
        seen = [seen[0] + units[0], seen[1] + memories[0]]
        sums["back_u"] += units[1] + units[2]
        sums["back_m"] += memories[1] + memories[2]
        if one.ahead is None:
            for name, value in zip(("forward", "inputs", "weights"), joint, strict=True):
                sums[name] += value
            if one.again:
                sums["again"] += joint[0]
                sums["again_u"] += seen[0]
                sums["again_m"] += seen[1]
            continue
        if key.tensor == 1:
            continue
        scatter, gather, reduce = (
            transfer_s(network, cost, size, key.tensor)
            for cost in (network.reduce_scatter, network.all_gather, network.all_reduce)
        )
        for name, found in ways.items():
            parted = key.transfers is TensorTransfers.SEQUENCE or (
                name == "edge" and key.transfers is TensorTransfers.BETWEEN_STAGES
            )
            towards, back = (gather, scatter) if parted else (0.0, reduce)
            if not one.ahead:
                towards, back = (scatter, gather) if parted else (reduce, 0.0)
            found[0] += towards + joint[0]
            found[1] += back + joint[1]
            found[2] += towards if one.again else 0.0
    inside, edge = ((one[0], one[1], one[2]) for one in ways.values())
    return BlockSeconds(
        sums["forward"], sums["again"], sums["inputs"], sums["weights"], inside, edge,
        sums["back_u"], sums["back_m"], sums["again_u"], sums["again_m"],
    )  # fmt: skip


@dataclass(frozen=True)
class HeldBytes:
    """Bytes of activations of a micro-batch in a block: while it works, kept until its backward pass, gradients."""

    working: float
    kept: float
    gradients: float


def block_bytes(model: LanguageModel, length: int, settings: CalculonSettings, key: ExecutionKey) -> HeldBytes:
    """In closed form."""
    t, e, rows = key.tensor, settings.machine.element_bytes, key.micro_batch * length
    split = key.transfers is TensorTransfers.SEQUENCE
    whole, wide, inner = rows * model.hidden, rows * model.heads * model.head_size // t, rows * model.ffn_hidden // t
    part = whole // t if split else whole
    squares = key.micro_batch * model.heads // t * length**2
    received = e * part if split and t > 1 else 0
    sent = 0 if t == 1 else e * part
    behind = inner * (1 if settings.fused else 2)
    masks = 2 * part
    working = 2 * (e * part + received + sent) + masks
    working += e * (2 * whole + 4 * wide + 2 * squares + behind) + squares
    full, core = key.recompute is Recompute.FULL, key.recompute is not Recompute.NONE
    kept = 2 * (e * part + received) + masks + e * (4 * wide + behind)
    kept += 0 if core else squares * (2 * e + 1)
    kept += e * whole * ((not (core or key.redo)) + (not (full or key.redo)))
    gradients = 2 * (2 * e * part + received + sent) + masks
    gradients += e * (2 * whole + 4 * wide + 2 * squares + behind) + squares
    return HeldBytes(float(working), float(kept), float(gradients))


def matrices(model: LanguageModel, t: int) -> tuple[int, ...]:
    """Weights of a block on a GPU, by operation."""
    h, width, inner = model.hidden, model.heads * model.head_size // t, model.ffn_hidden // t
    return (2 * h, h * width, h * width, h * width, h * width, 2 * h, h * inner, h * inner)


def optimizer_seconds(
    model: LanguageModel, settings: CalculonSettings, t: int, shares: int
) -> tuple[float, float, float]:
    """Of the optimizer in a block: all, at the unit, at memory."""
    machine, whole, units, memories = settings.machine, 0.0, 0.0, 0.0
    for count in matrices(model, t):
        unit = unit_s(machine, count * ADAM / shares, matrix=False)
        memory = memory_s(machine, count * state_bytes(settings) / shares)
        whole, units, memories = whole + joint_s(machine, unit, memory), units + unit, memories + memory
    return whole, units, memories


def state_bytes(settings: CalculonSettings) -> int:
    """Of the optimizer for a weight: two moments, and a copy of weights that are smaller than 4 bytes."""
    return 12 if settings.machine.element_bytes < 4 else 8
