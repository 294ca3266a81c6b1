"""What the order of the passes of a strategy does not go below, again: ways through passes that wait for each other.

Of rank r of p, with F, I, W of its passes and Q their sum, D those behind r, c a hop: all its work between what passes
the ranks before it, there and back; and what returns from the ranks behind it, as w = p-1-r others on their way wait.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.verify.llm_training.stage_rows import StageRows

WAITING = 2.125
"""Gradients of weights for each rank of a pipeline that ZB-2P may put off: 2 x 34 over 32 (arXiv:2401.10241)."""


class OrderBounds:
    """Of strategies of one schedule and as many stages.

    Args:
        m: float64[R], micro-batches.
        zero3: bool[R], weights are gathered in every pass.
    """

    def __init__(
        self, problem: LlmTrainingProblem, schedule: S, p: int, rows: StageRows, m: Floats, zero3: np.ndarray
    ) -> None:
        self.p, self.v, self.m, self.rows, self.zero3 = p, len(rows.forward) // p, m, rows, zero3
        self.schedule, self.hides = schedule, problem.overlap.data
        self.c = rows.hop if p > 1 else 0.0 * rows.hop
        self.wait = 0.0 * self.c if problem.overlap.pipeline else self.c
        self.split = schedule not in (S.GPIPE, S.ONE_F_ONE_B, S.INTERLEAVED)
        nothing = np.zeros((1, len(m)))
        self.before_f, self.before_i, self.before_b = (
            np.concatenate([nothing, np.cumsum(table, axis=0)]) for table in (rows.forward, rows.inputs, rows.back)
        )
        self.late = self._late()
        self.tail = self._tail()

    def _late(self) -> Floats:
        """How much later than behind those before it each stage begins, for its weights and theirs."""
        rows, found, begun = self.rows, np.zeros_like(self.rows.forward), np.zeros_like(self.m)
        for s in range(len(found)):
            n = rows.layers[s]
            own = np.maximum(rows.gathered[s] / n, rows.gathered[s] - (n - 1.0) / n * rows.forward[s])
            own = own if self.hides else rows.gathered[s]
            begun = np.maximum(begun, np.where(self.zero3, 0.0, own))
            found[s] = begun - self.before_f[s] - s * self.c
            begun = begun + rows.forward[s] + self.c
        return found

    def _tail(self) -> Floats:
        """What is reduced of each stage behind its last pass."""
        rows = self.rows
        if not self.hides:
            return np.where(self.zero3, 0.0, rows.reduced)
        back, n = rows.weights if self.split else rows.back, rows.layers
        return np.where(self.zero3, 0.0, np.maximum(rows.reduced / n, rows.reduced - (n - 1.0) / n * back))

    def seconds(self) -> Floats:
        """Of an iteration, but for what each costs anyway."""
        if self.p == 1:
            work = self.rows.forward[0] + self.rows.back[0]
            return np.asarray(self.late[0] + self.m * work + self.tail[0] + self.around())
        rules = {
            S.GPIPE: self._gpipe, S.ONE_F_ONE_B: self._one_f_one_b, S.INTERLEAVED: self._interleaved,
            S.ZB_H1: self._zb_h1, S.ZB_2P: self._zb_2p, S.DUALPIPE: self._two_way, S.DUALPIPE_V: self._two_way,
        }  # fmt: skip
        return rules[self.schedule]() + self.around()

    def around(self) -> Floats:
        """The step, and what ZeRO 3 exposes: rounds of a rank hide behind its passes, but for the first layer.

        Half of the gathering is for the forward passes, half goes with reducing in the backward ones.
        """
        rows, step, shown = self.rows, np.zeros_like(self.m), np.zeros_like(self.m)
        for own in self.held():
            step = np.maximum(step, rows.step[own].sum(axis=0))
            n, sums = rows.layers[own].sum(axis=0), []
            m = self.m / 2.0 if self.schedule is S.DUALPIPE else self.m  # that a stage meets on a rank
            half = rows.gathered[own].sum(axis=0) / 2.0
            for moved, hiding in ((rows.reduced[own].sum(axis=0) + half, rows.back), (half, rows.forward)):
                whole, busy = m * moved, m * hiding[own].sum(axis=0)
                sums.append(np.maximum(whole / n / m, whole - (1.0 - 1.0 / n) * busy) if self.hides else whole)
            shown = np.maximum(shown, sums[0] + sums[1])
        return step + np.where(self.zero3, shown, 0.0)

    def held(self) -> list[list[int]]:
        """Stages of every rank; of DualPipe, where two ranks hold the same two, of every pair."""
        stages = self.p * self.v
        if self.schedule in (S.DUALPIPE, S.DUALPIPE_V):
            return [[s, stages - 1 - s] for s in range(stages // 2)]
        return [list(range(rank, stages, self.p)) for rank in range(self.p)]

    def _sends(self, rank: int) -> Floats:
        """Seconds for which a rank waits for what it sends of a micro-batch in one chunk, there and back."""
        return self.wait * float((rank < self.p - 1) + (rank > 0))

    def _gpipe(self) -> Floats:
        rows, p, m = self.rows, self.p, self.m
        ahead = np.maximum.reduce([rows.forward[r] + (self.wait if r < p - 1 else 0.0) for r in range(p)])
        back = np.maximum.reduce([rows.back[r] + (self.wait if r > 0 else 0.0) for r in range(p)])
        whole = self.before_f[p] + self.before_b[p] + 2.0 * self.c * (p - 1)
        return np.asarray(self.late[0] + whole + (m - 1.0) * (ahead + back) + self.tail[0])

    def _one_f_one_b(self) -> Floats:
        rows, p, m, best = self.rows, self.p, self.m, np.zeros_like(self.m)
        whole = self.before_f[p] + self.before_b[p] + 2.0 * self.c * (p - 1)
        for r in range(p):
            f, b = rows.forward[r], rows.back[r]
            turn, w = f + b + self._sends(r), p - 1 - r
            value = whole + (m - 1.0) * turn - np.minimum(w, m - 1.0) * (np.minimum(f, b) + self.wait)
            gain = whole - 2.0 * self.c * r - self.before_f[r] - self.before_b[r] - (w + 1) * turn
            times = np.floor((m - 1.0) / (w + 1))
            returns = whole + (m - 1.0) * turn + np.where(gain > 0, times, 1.0) * gain
            value = self.late[r] + np.where(times >= 1, np.maximum(value, returns), value)
            there = self.before_b[r] + self.c * r
            best = np.maximum(best, np.maximum(value + self.tail[0], value - there + self.tail[r]))
        return best

    def _passes(self, r: int, count: Floats, *, ahead: bool) -> Floats:
        """So many turns of a rank: p of each chunk, from chunk 0 on."""
        p, stages = self.p, self.p * self.v
        chunk = np.arange(self.v)[:, None]
        sent = chunk * p + r != (stages - 1 if ahead else 0)
        own = (self.rows.forward if ahead else self.rows.back)[r::p] + sent * self.wait
        times = np.floor(count / stages) * p + np.clip(count % stages - chunk * p, 0, p)
        return np.asarray((own * times).sum(axis=0))

    def _interleaved(self) -> Floats:
        p, v, m, best = self.p, self.v, self.m, np.zeros_like(self.m)
        end, f, b = p * v, self.before_f, self.before_b
        for r in range(p):
            w, z = 2.0 * (p - r - 1) + (v - 1) * p, (v - 1) * p + r
            work = self._passes(r, m * v, ahead=True) + self._passes(r, m * v, ahead=False) - 2.0 * self.wait
            hops = self.c * (2 * end - 2 - r - z)
            ahead = np.full_like(m, w + 1)
            first = f[end] - f[r] + b[end] - b[z + 1] + hops - self._passes(r, ahead, ahead=True)
            last = f[end] - f[z + 1] + b[end] - b[r] + hops - self._passes(r, ahead, ahead=False)
            first, last = np.maximum(0.0, first), np.maximum(0.0, last)
            idle = np.where(w + 2 <= m * v, first + last, np.where(w + 1 <= m * v, np.maximum(first, last), 0.0))
            value = self.late[r] + f[r] + self.c * r + work + idle
            best = np.maximum(best, np.maximum(value + b[r] + self.c * r + self.tail[0], value + self.tail[r]))
        return best

    def _zb_h1(self) -> Floats:
        rows, p, m, best = self.rows, self.p, self.m, np.zeros_like(self.m)
        whole = self.before_f[p] + self.before_i[p] + 2.0 * self.c * (p - 1)
        for r in range(p):
            both, late, w = rows.forward[r] + rows.inputs[r], rows.weights[r], p - 1 - r
            turn = both + self._sends(r)
            come = self.before_f[r] + self.c * r
            value = come + both + (m - 1.0) * turn + m * late + self.tail[r]
            waited = come + self.before_i[r] + self.c * r + both + (m - 1.0) * turn
            waited = waited + np.maximum(0.0, m - 1.0 - r) * late
            through = whole - 2.0 * self.c * r - self.before_f[r] - self.before_i[r]
            times = np.floor((m - 1.0) / (w + 1))
            for a in (np.ones_like(m), times):
                returns = whole + (m - 1.0 - a * (w + 1)) * turn + a * through
                returns = returns + np.maximum(0.0, m - 1.0 - a * w - r) * late
                waited = np.where(times >= 1, np.maximum(waited, returns), waited)
            best = np.maximum(best, self.late[r] + np.maximum(value, waited + rows.weights[0] + self.tail[0]))
        return best

    def _zb_2p(self) -> Floats:
        rows, p, m, best = self.rows, self.p, self.m, np.zeros_like(self.m)
        for r in range(p):
            both, late = rows.forward[r] + rows.inputs[r], rows.weights[r]
            value = self.before_f[r] + self.c * r + both + (m - 1.0) * (both + self._sends(r))
            waited = value + self.before_i[r] + self.c * r + np.maximum(0.0, m - 1.0 - int(WAITING * p)) * late
            waited = waited + rows.weights[0] + self.tail[0]
            best = np.maximum(best, self.late[r] + np.maximum(value + m * late + self.tail[r], waited))
        return best

    def _two_way(self) -> Floats:
        """Half of the micro-batches on each of two stages of a rank, or all of them in the V shape."""
        rows, folded, best = self.rows, self.schedule is S.DUALPIPE_V, np.zeros_like(self.m)
        end = len(rows.forward) - 1
        for r in range(self.p if folded else self.p // 2):
            work = sum(rows.forward[s] + rows.back[s] for s in (r, end - r))
            value = self.late[0] + self.before_f[r] + self.c * r + work * (self.m if folded else self.m / 2.0)
            waited = value - (r + 1) * np.maximum(rows.weights[r], rows.weights[end - r]) + self.before_i[r]
            waited = waited + self.c * r + np.minimum(rows.weights[0], rows.weights[end])
            waited = waited + np.minimum(self.tail[0], self.tail[end])
            best = np.maximum(best, np.maximum(value + np.minimum(self.tail[r], self.tail[end - r]), waited))
        return best
