"""In which order the ranks of a pipeline do their passes, as the checker writes it down.

Orders: arXiv:1811.06965 (GPipe), arXiv:2104.04473 (1F1B, interleaved), arXiv:2401.10241 (ZB-H1: gradients of weights of
a micro-batch behind the backward pass r later ones on rank r; ZB-2P: greedy rounds, `greedy_rounds`), arXiv:2412.19437
(DualPipe: the model is held twice, stages p to 2p-1 are the copy that runs down the ranks).
"""

from __future__ import annotations

from topoopt.core.pipeline import PipelineSchedule as S

Pass = tuple[str, int, int]
"""F, J (F together with the B behind it), B (both gradients), I (of inputs), W (of weights); micro-batch; stage."""


def rank_order(schedule: S, rank: int, p: int, v: int, m: int) -> list[Pass]:
    """Passes of a rank, of a schedule whose order is a rule."""
    if schedule in (S.DUALPIPE, S.DUALPIPE_V):
        return _two_way(rank, p, m, folded=schedule is S.DUALPIPE_V)
    if schedule is S.GPIPE:
        return [("F", i, rank) for i in range(m)] + [("B", m - 1 - i, rank) for i in range(m)]
    turns = [(i, 0) for i in range(m)]
    ahead = min(p - 1 - rank, m)
    if schedule is S.INTERLEAVED:
        turns = [(i, chunk) for group in range(0, m, p) for chunk in range(v) for i in range(group, group + p)]
        ahead = min(2 * (p - rank - 1) + (v - 1) * p, m * v)
    forward: list[Pass] = [("F", i, chunk * p + rank) for i, chunk in turns]
    found = forward[:ahead]
    for place, (i, chunk) in enumerate(turns):
        found += forward[ahead + place : ahead + place + 1]
        stage = (v - 1 - chunk) * p + rank
        if schedule is not S.ZB_H1:
            found.append(("B", i, stage))
            continue
        found.append(("I", i, stage))
        if i >= rank:
            found.append(("W", i - rank, stage))
    if schedule is S.ZB_H1:
        found += [("W", i, rank) for i in range(max(0, m - rank), m)]
    return found


def _two_way(rank: int, p: int, m: int, *, folded: bool) -> list[Pass]:
    """Eight steps: a rank has a stream of micro-batches from the nearer end, and one from the other."""
    half, depth = (p, rank) if folded else (p // 2, min(rank, p - 1 - rank))
    rest, count = half - depth - 1, m if folded else m // 2
    near, far = (rank, 0), (2 * p - 1 - rank, 0)
    if not folded:
        streams = ((rank, 0), (2 * p - 1 - rank, count))
        near, far = streams if rank < half else streams[::-1]
    begun, back = {near: 0, far: 0}, {near: 0, far: 0}
    put_off: list[tuple[int, int]] = []
    found: list[Pass] = []

    def ahead(stream: tuple[int, int], kind: str = "F") -> None:
        found.append((kind, stream[1] + begun[stream], stream[0]))
        begun[stream] += 1

    def behind(stream: tuple[int, int], kind: str = "B") -> None:
        found.append((kind, stream[1] + back[stream], stream[0]))
        if kind == "I":
            put_off.append((stream[1] + back[stream], stream[0]))
        back[stream] += 1

    def weights() -> None:
        found.append(("W", *put_off.pop(0)))

    for _ in range(2 * rest):
        ahead(near)
    for _ in range(depth + 1):
        ahead(near)
        ahead(far)
    for _ in range(rest):
        behind(far, "I")
        weights()
        ahead(far)
    for turn in range(count - 2 * half + depth + 1):
        ahead(near, "J" if turn or rest else "F")
        behind(far)
        ahead(far, "J")
        behind(near)
    for _ in range(rest):
        behind(far)
        ahead(far, "J")
        behind(near)
    for turn in range(2 * (depth + 1)):
        behind(near if turn % 2 else far, "I" if turn > depth else "B")
    for _ in range(rest):
        weights()
        behind(near, "I")
    while put_off:
        weights()
    return found
