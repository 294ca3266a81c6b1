"""A time that the order of the passes of a strategy does not go below, for many strategies a second.

Each is the longest of some ways through the passes, where each waits for the one before. With F, I and W of a rank's
passes of a micro-batch (both gradients together B, all three Q), c a hop, m micro-batches, v chunks, for rank r of p:

    all        what passes the ranks before r, all work of r, what goes back through the ranks before it
    1F1B       a micro-batch that goes from r to the end and comes back keeps r waiting, as r has w = p-1-r others on
               their way: F(i) to B(i) takes Q_r + D_r + 2cw, D_r the passes behind r; then F(i+w+1) follows. Such ways
               and single steps of F_r + B_r one after the other, the last way at the end
    interleaved   the first way to the end and back before the first backward pass of r, and the last one
    ZB-H1      the same ways with I in place of B and W between; those W that r puts off come behind
    ZB-2P      all forward passes and I, and W as far as the memory of 2p micro-batches lets none be put off
    DualPipe   all work of r but for the last W that its order puts off, then the way back to the end of the ranks

The weights of the first stage are gathered before, the gradients of the last layer reduced behind. One stage has no
other way: the bound is the time.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.llm_training.stage_parts import FORWARD, GATHERED, INPUTS, REDUCED, STEP, WEIGHTS, StageParts
from topoopt.simulate.llm_training.stage_table import (
    LAYERS,
    SPANS,
    fill_stages,
    late_weights,
    layer_kinds,
    reduced_at,
    stages_of,
)
from topoopt.simulate.llm_training.strategies import SCHEDULE_CODES, Column, StrategyColumns

GPIPE, PLAIN, INTERLEAVED, H1, TWO_P, DUAL, FOLDED = (SCHEDULE_CODES[one] for one in S)

PUT_OFF = 68.0 / 32.0
"""Gradients of weights of so many times p micro-batches wait at most under ZB-2P (arXiv:2401.10241, table 2)."""


def order_bounds(problem: LlmTrainingProblem, columns: StrategyColumns, parts: StageParts) -> Column:
    """Seconds, one value a strategy; layers as `columns` has them."""
    m = problem.batch.sequences / columns.data / columns.micro_batch
    shape = np.stack([columns.schedule, columns.pipeline, columns.chunks, m, columns.zero], axis=1).astype(np.int64)
    overlap = np.array([problem.overlap.data, not problem.overlap.pipeline])
    found: Column = _bounds(
        shape,
        parts.seconds,
        parts.exchange,
        parts.hidden,
        parts.hop,
        layer_kinds(problem),
        stages_of(problem, columns),
        overlap,
    )
    return found + parts.iteration


@kernel
def _bounds(
    shape: Ints,
    seconds: Floats,
    exchange: Floats,
    hidden: Bools,
    hop: Floats,
    kinds: Ints,
    layers: Ints,
    overlap: Bools,
) -> Floats:  # pragma: no cover - compiled
    found, most = np.empty(len(shape)), layers.shape[1]
    t, ways = np.empty((SPANS, most)), np.empty((5, most + 1))
    for one in range(len(shape)):
        schedule, p, v, m, zero = shape[one]
        fill_stages(seconds[one], exchange[one], hidden[one], kinds, layers[one], p * v, t)
        c = hop[one] if p > 1 else 0.0
        _ways(t, ways, p, v, c, zero, overlap[0], schedule >= H1)
        if p == 1:
            value = ways[4, 0] + m * (t[FORWARD, 0] + t[INPUTS, 0] + t[WEIGHTS, 0]) + ways[3, 0]
        elif schedule == GPIPE:
            value = _gpipe(t, ways, p, m, c, overlap[1])
        elif schedule == PLAIN:
            value = _plain(t, ways, p, m, c, overlap[1])
        elif schedule == INTERLEAVED:
            value = _interleaved(t, ways, p, v, m, c, overlap[1])
        elif schedule == H1:
            value = _zb_h1(t, ways, p, m, c, overlap[1])
        elif schedule == TWO_P:
            value = _zb_2p(t, ways, p, m, c, overlap[1])
        else:
            value = _both_ends(t, ways, p, m, c, schedule == FOLDED)
        found[one] = value + rank_costs(t, p, v, m, zero, overlap[0], schedule >= DUAL)
    return found


@piece
def _ways(
    t: Floats, ways: Floats, p: int, v: int, c: float, zero: int, hiding: bool, split: bool
) -> None:  # pragma: no cover - compiled
    """For each stage: passes before it by kind (rows 0 to 2), what its reduction is exposed at least (3), and how much
    later than behind all passes and hops before it its first pass begins (4)."""
    ways[0, 0] = ways[1, 0] = ways[2, 0] = 0.0
    begun = 0.0
    for s in range(p * v):
        for kind in (FORWARD, INPUTS, WEIGHTS):
            ways[kind, s + 1] = ways[kind, s] + t[kind, s]
        late = shown = 0.0
        if zero < 3:
            back = t[WEIGHTS, s] + (0.0 if split else t[INPUTS, s])
            shown = reduced_at(0.0, back, t[REDUCED, s], t[LAYERS, s], back, hiding) - back
            late = late_weights(t[GATHERED, s], t[LAYERS, s], t[FORWARD, s], 0.0, hiding)
        begun = max(begun, late)
        ways[3, s], ways[4, s] = shown, begun - ways[0, s] - s * c
        begun += t[FORWARD, s] + c


@piece
def rank_costs(
    t: Floats, p: int, v: int, m: int, zero: int, hiding: bool, paired: bool
) -> float:  # pragma: no cover - compiled
    """The step of the optimizer on the fullest rank, and with ZeRO 3 what passes do not hide of gathering and reducing;
    `paired` ranks hold a stage of either half, of DualPipe two of them the same ones.

    Rounds of ZeRO 3 have a pass each to hide in: weights are gathered for the forward pass, and once more for the
    backward one, which also reduces gradients over the same interfaces (arXiv:2304.11277). Of the first layer
    that is gathered or the last one that is reduced nothing is hidden.
    """
    step, shown, stages = 0.0, 0.0, p * v
    met = m / 2 if paired and v == 1 else float(m)  # micro-batches of a stage on a rank
    for rank in range(stages // 2 if paired else p):
        own = reduced = gathered = forward = back = layers = 0.0
        for chunk in range(2 if paired else v):
            s = stages - 1 - rank if paired and chunk == 1 else chunk * p + rank
            own += t[STEP, s]
            reduced += met * t[REDUCED, s]
            gathered += met * t[GATHERED, s]
            forward += met * t[FORWARD, s]
            back += met * (t[INPUTS, s] + t[WEIGHTS, s])
            layers += t[LAYERS, s]
        step = max(step, own)
        if zero >= 3:
            if hiding:
                ahead, behind = gathered / 2.0, gathered / 2.0 + reduced
                gathered = max(ahead / (layers * met), ahead - (1.0 - 1.0 / layers) * forward)
                reduced = max(behind / (layers * met), behind - (1.0 - 1.0 / layers) * back)
            shown = max(shown, reduced + gathered)
    return float(step + shown)


@piece
def _gpipe(t: Floats, ways: Floats, p: int, m: int, c: float, blocking: bool) -> float:  # pragma: no cover - compiled
    longest = back = 0.0
    sent = c if blocking else 0.0
    for r in range(p):
        longest = max(longest, t[FORWARD, r] + (sent if r < p - 1 else 0.0))
        back = max(back, t[INPUTS, r] + t[WEIGHTS, r] + (sent if r > 0 else 0.0))
    whole = ways[0, p] + ways[1, p] + ways[2, p] + 2.0 * c * (p - 1)
    return float(ways[4, 0] + whole + (m - 1) * (longest + back) + ways[3, 0])


@piece
def _plain(t: Floats, ways: Floats, p: int, m: int, c: float, blocking: bool) -> float:  # pragma: no cover - compiled
    found = 0.0
    sent = c if blocking else 0.0
    whole = ways[0, p] + ways[1, p] + ways[2, p] + 2.0 * c * (p - 1)
    for r in range(p):
        forward, back = t[FORWARD, r], t[INPUTS, r] + t[WEIGHTS, r]
        own = forward + back + (sent if r < p - 1 else 0.0) + (sent if r > 0 else 0.0)
        w = min(p - 1 - r, m - 1)
        value = whole + (m - 1) * own - w * (min(forward, back) + sent)
        if m - 1 >= p - r:
            behind = whole - 2.0 * c * r - (ways[0, r] + ways[1, r] + ways[2, r])
            gain = behind - (p - r) * own
            value = max(value, whole + (m - 1) * own + gain * ((m - 1) // (p - r) if gain > 0.0 else 1))
        value += ways[4, r]
        before = ways[1, r] + ways[2, r] + c * r
        found = max(found, value + ways[3, 0], value - before + ways[3, r])
    return found


@piece
def _turns(t: Floats, r: int, p: int, v: int, count: int, ahead: bool, sent: float) -> float:  # pragma: no cover
    """The first forward passes of rank r, or its last backward passes: so many."""
    found, stages = 0.0, p * v
    for chunk in range(v):
        s = chunk * p + r
        own = t[FORWARD, s] if ahead else t[INPUTS, s] + t[WEIGHTS, s]
        if (s < stages - 1) if ahead else (s > 0):
            own += sent
        times = count // stages * p + min(max(count % stages - chunk * p, 0), p)
        found += times * own
    return found


@piece
def _interleaved(
    t: Floats, ways: Floats, p: int, v: int, m: int, c: float, blocking: bool
) -> float:  # pragma: no cover - compiled
    found, stages = 0.0, p * v
    sent = c if blocking else 0.0
    forward, back = ways[0], ways[1] + ways[2]
    for r in range(p):
        w, z = 2 * (p - r - 1) + (v - 1) * p, (v - 1) * p + r
        own = _turns(t, r, p, v, m * v, True, sent) + _turns(t, r, p, v, m * v, False, sent)
        own -= 2.0 * sent  # the last pass that is sent each way may be the last one of the way
        idle = 0.0
        if w + 1 <= m * v:
            hops = c * (2 * stages - 2 - r - z)
            there = forward[stages] - forward[r] + back[stages] - back[z + 1] + hops
            here = forward[stages] - forward[z + 1] + back[stages] - back[r] + hops
            one = max(0.0, there - _turns(t, r, p, v, w + 1, True, sent))
            other = max(0.0, here - _turns(t, r, p, v, w + 1, False, sent))
            idle = one + other if w + 2 <= m * v else max(one, other)
        value = ways[4, r] + forward[r] + c * r + own + idle
        found = max(found, value + back[r] + c * r + ways[3, 0], value + ways[3, r])
    return found


@piece
def _zb_h1(t: Floats, ways: Floats, p: int, m: int, c: float, blocking: bool) -> float:  # pragma: no cover - compiled
    found = 0.0
    sent = c if blocking else 0.0
    whole = ways[0, p] + ways[1, p] + 2.0 * c * (p - 1)
    for r in range(p):
        both, later = t[FORWARD, r] + t[INPUTS, r], t[WEIGHTS, r]
        own = both + (sent if r < p - 1 else 0.0) + (sent if r > 0 else 0.0)
        value = ways[0, r] + c * r + m * (both + later) + (m - 1) * (own - both) + ways[3, r]
        waited = ways[0, r] + ways[1, r] + 2.0 * c * r + both + (m - 1) * own + max(0, m - 1 - r) * later
        w = p - 1 - r
        if m - 1 >= w + 1:
            behind = whole - 2.0 * c * r - ways[0, r] - ways[1, r]
            for a in (1, (m - 1) // (w + 1)):
                put_off = max(0, m - 1 - a * w - r) * later
                waited = max(waited, whole + (m - 1 - a * (w + 1)) * own + a * behind + put_off)
        found = max(found, ways[4, r] + max(value, waited + t[WEIGHTS, 0] + ways[3, 0]))
    return found


@piece
def _zb_2p(t: Floats, ways: Floats, p: int, m: int, c: float, blocking: bool) -> float:  # pragma: no cover - compiled
    found = 0.0
    sent = c if blocking else 0.0
    for r in range(p):
        both, later = t[FORWARD, r] + t[INPUTS, r], t[WEIGHTS, r]
        own = both + (sent if r < p - 1 else 0.0) + (sent if r > 0 else 0.0)
        value = ways[0, r] + c * r + both + (m - 1) * own
        waited = value + ways[1, r] + c * r + max(0, m - 1 - int(PUT_OFF * p)) * later + t[WEIGHTS, 0] + ways[3, 0]
        found = max(found, ways[4, r] + max(value + m * later + ways[3, r], waited))
    return found


@piece
def _both_ends(t: Floats, ways: Floats, p: int, m: int, c: float, folded: bool) -> float:  # pragma: no cover - compiled
    found, stages = 0.0, 2 * p if folded else p
    shown = min(ways[3, 0], ways[3, stages - 1])
    for r in range(p if folded else p // 2):
        far = stages - 1 - r
        later = max(t[WEIGHTS, r], t[WEIGHTS, far])
        work = t[FORWARD, r] + t[INPUTS, r] + t[WEIGHTS, r] + t[FORWARD, far] + t[INPUTS, far] + t[WEIGHTS, far]
        value = ways[4, 0] + ways[0, r] + c * r + work * (m if folded else m / 2)
        waited = value - (r + 1) * later + ways[1, r] + c * r + min(t[WEIGHTS, 0], t[WEIGHTS, stages - 1])
        found = max(found, value + min(ways[3, r], ways[3, far]), waited + shown)
    return found
