"""One transformer block on one GPU as the Calculon model sees it: operations, bytes moved, bytes kept.

Every quantity is an array over records, so that a space is evaluated at once. Isaev et al., "Calculon: a methodology
and tool for high-level co-design of systems and large language models" (SC'23), with the tool's own rules where the
paper is silent: no embedding, head or loss; dropout keeps masks of one byte; a fused activation function keeps nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from topoopt.core.calculon import TensorTransfers
from topoopt.core.parallelism import Recompute
from topoopt.simulate.llm_training.calculon_records import CalculonRecords, Flags, Numbers


class Side(Enum):
    """The transfer before the matrices of a half of the block, and the one behind them."""

    BEFORE = "before"
    BEHIND = "behind"


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockLayer:
    """An operation of the block, with one value a record.

    Attributes:
        matrix: runs on the unit for matrices.
        forward, input_gradient, weight_gradient: operations.
        forward_bytes, input_gradient_bytes, weight_gradient_bytes: moved between the GPU and its memory.
        weights: elements.
        kept, gradient, output: bytes of what it keeps for the backward pass, of gradients, of its result.
        again: computed again in the backward pass.
        reused: what it keeps is that of the layer before.
        stored, output_stored: what it keeps, and its result, stay from the forward to the backward pass.
        side: of a transfer; None: computes.
        transferred_again: a transfer that is done again in the backward pass; plays no part for others.
    """

    matrix: bool = False
    forward: Numbers
    input_gradient: Numbers
    weight_gradient: Numbers
    forward_bytes: Numbers
    input_gradient_bytes: Numbers
    weight_gradient_bytes: Numbers
    weights: float | Numbers = 0.0
    kept: Numbers
    gradient: Numbers
    output: Numbers
    again: Flags
    reused: bool = False
    stored: Flags
    output_stored: Flags
    side: Side | None = None
    transferred_again: Flags


class BlockBuilder:
    """Makes the layers of a block of h, f, a heads of d, for sequences of s, in elements of e bytes.

    Args:
        records: executions.
        element_bytes: e.
        fused: the activation function keeps nothing of its own.
    """

    def __init__(self, records: CalculonRecords, element_bytes: int, *, fused: bool) -> None:
        self._e = float(element_bytes)
        self._fused = fused
        self._t = records.tensor
        self._b = records.micro_batch
        self._split = records.transfers == TensorTransfers.SEQUENCE
        self._full = records.recompute == Recompute.FULL
        self._core = records.recompute != Recompute.NONE
        self._redo = records.redo
        self._zero = np.zeros_like(self._t)
        self._yes = np.ones(len(self._t), dtype=bool)

    def layers(self, hidden: int, ffn_hidden: int, heads: int, head_size: int, length: int) -> list[BlockLayer]:
        """All of them, in order; lists of transfers are those with a side."""
        tokens = self._b * length
        whole = tokens * hidden
        between = np.where(self._split, tokens // self._t * hidden, whole)
        width = heads * head_size // self._t
        batches = self._b * heads // self._t
        scores = heads // self._t * length**2 * self._b
        inner = ffn_hidden // self._t
        again = self._core | self._redo
        return [
            *self._norm(between, hidden),
            self._transfer(whole, Side.BEFORE, again),
            self._fork(whole, 3, again, stored=~again),
            *(self._linear(tokens, hidden, width, reused=True, stored=~self._yes) for _ in range(3)),
            self._product(batches, length, head_size, length, self._core, ~self._core),
            self._softmax(scores),
            self._dropout(scores, self._core, ~self._core),
            self._product(batches, length, length, head_size, self._full, self._yes),
            self._linear(tokens, width, hidden),
            self._transfer(whole, Side.BEHIND, self._full),
            *self._residual(between),
            *self._norm(between, hidden),
            self._transfer(whole, Side.BEFORE, self._full | self._redo),
            self._linear(tokens, hidden, inner, stored=~(self._full | self._redo)),
            self._activation(ffn_hidden * tokens // self._t),
            self._linear(tokens, inner, hidden),
            self._transfer(whole, Side.BEHIND, self._full),
            *self._residual(between),
        ]

    def _fork(self, size: Numbers, users: int, again: Flags, stored: Flags) -> BlockLayer:
        zero, e = self._zero, self._e
        return BlockLayer(
            forward=zero,
            input_gradient=users * size,
            weight_gradient=zero,
            forward_bytes=zero,
            input_gradient_bytes=(users + 1) * size * e,
            weight_gradient_bytes=zero,
            kept=size * e,
            gradient=zero,
            output=zero,
            again=again,
            stored=stored,
            output_stored=self._yes,
            transferred_again=~self._yes,
        )

    def _norm(self, size: Numbers, hidden: int) -> tuple[BlockLayer, BlockLayer]:
        """The fork that feeds norm and residual, and the norm."""
        bytes_moved = (2 * size + 2 * hidden) * self._e
        norm = BlockLayer(
            forward=9 * size,
            input_gradient=14 * size,
            weight_gradient=7 * size,
            forward_bytes=bytes_moved,
            input_gradient_bytes=bytes_moved,
            weight_gradient_bytes=bytes_moved,
            weights=2 * hidden + self._zero,
            kept=size * self._e,
            gradient=size * self._e,
            output=size * self._e,
            again=self._full,
            reused=True,
            stored=~self._yes,
            output_stored=self._yes,
            transferred_again=~self._yes,
        )
        return self._fork(size, 2, self._full, self._yes), norm

    def _linear(
        self,
        rows: Numbers,
        inner: Numbers | int,
        columns: Numbers | int,
        *,
        reused: bool = False,
        stored: Flags | None = None,
    ) -> BlockLayer:
        work = 2 * rows * inner * columns
        moved = (rows * inner + rows * columns + inner * columns) * self._e
        return BlockLayer(
            matrix=True,
            forward=work,
            input_gradient=work,
            weight_gradient=work,
            forward_bytes=moved,
            input_gradient_bytes=moved,
            weight_gradient_bytes=moved,
            weights=inner * columns + self._zero,
            kept=rows * inner * self._e,
            gradient=rows * columns * self._e,
            output=rows * columns * self._e,
            again=self._full,
            reused=reused,
            stored=self._yes if stored is None else stored,
            output_stored=self._yes,
            transferred_again=~self._yes,
        )

    def _product(self, count: Numbers, m: int, n: int, k: int, again: Flags, output_stored: Flags) -> BlockLayer:
        """As many products of (m, n) by (n, k)."""
        work = count * 2 * m * n * k
        read, written = count * (m * n + n * k), count * m * k
        return BlockLayer(
            matrix=True,
            forward=work,
            input_gradient=2 * work,
            weight_gradient=self._zero,
            forward_bytes=(read + written) * self._e,
            input_gradient_bytes=(read + written) * self._e,
            weight_gradient_bytes=self._zero,
            kept=read * self._e,
            gradient=written * self._e,
            output=written * self._e,
            again=again,
            stored=self._yes,
            output_stored=output_stored,
            transferred_again=~self._yes,
        )

    def _pointwise(self, size: Numbers, forward: int, backward: int, kept: Numbers, again: Flags) -> BlockLayer:
        """One value in, one out; the backward pass moves as much."""
        return BlockLayer(
            forward=forward * size,
            input_gradient=backward * size,
            weight_gradient=self._zero,
            forward_bytes=2 * size * self._e,
            input_gradient_bytes=2 * size * self._e,
            weight_gradient_bytes=self._zero,
            kept=kept,
            gradient=kept,
            output=size * self._e,
            again=again,
            stored=self._yes,
            output_stored=self._yes,
            transferred_again=~self._yes,
        )

    def _softmax(self, size: Numbers) -> BlockLayer:
        one = self._pointwise(size, 5, 8, size * self._e, self._core)
        return replace(one, output_stored=~self._core)

    def _activation(self, size: Numbers) -> BlockLayer:
        return self._pointwise(size, 8, 13, self._zero if self._fused else size * self._e, self._full)

    def _dropout(self, size: Numbers, again: Flags, stored: Flags) -> BlockLayer:
        """Keeps a mask of a byte each, which is read in both passes."""
        moved = 2 * size * self._e + size
        one = self._pointwise(size, 1, 1, size, again)
        return replace(one, forward_bytes=moved, input_gradient_bytes=moved, stored=stored)

    def _residual(self, size: Numbers) -> tuple[BlockLayer, BlockLayer]:
        """Dropout, and the sum with what went round the half."""
        total = self._pointwise(size, 1, 2, 2 * size * self._e, self._full)
        total = replace(
            total,
            forward_bytes=3 * size * self._e,
            input_gradient_bytes=3 * size * self._e,
            gradient=size * self._e,
            reused=True,
            stored=~self._yes,
        )
        return self._dropout(size, self._full, self._yes), total

    def _transfer(self, size: Numbers, side: Side, again: Flags) -> BlockLayer:
        """Its operations and bytes belong to the transfer, whose time they are part of."""
        shared = self._t > 1
        size = np.where(shared, size, 0.0)
        added = size * (self._t - 1) / self._t
        before = side is Side.BEFORE
        moved = 2 * size * self._e
        own = np.where(self._split, moved, 0.0)
        part = size * self._e / self._t
        one_way = np.where(self._split, part, size * self._e)
        none = np.where(self._split, part, 0.0)
        return BlockLayer(
            forward=self._zero if before else added,
            input_gradient=added if before else self._zero,
            weight_gradient=self._zero,
            forward_bytes=own if before else moved,
            input_gradient_bytes=moved if before else own,
            weight_gradient_bytes=self._zero,
            kept=none if before else one_way,
            gradient=one_way if before else none,
            output=size * self._e,
            again=~self._yes,
            stored=self._yes if before else ~self._yes,
            output_stored=self._yes,
            side=side,
            transferred_again=again & shared,
        )
