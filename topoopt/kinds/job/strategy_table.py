"""The strategy in words: runs of operators with the same choice, and layers that repeat, folded into rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from topoopt.core.job_solution import JobSolution, OperatorChoice
from topoopt.drawing.format import byte_size, milliseconds, server_set, shortened

LONGEST_LAYER = 40
"""Rows of a layer that is looked for again behind itself."""
FEW_ROWS = 40
"""With more rows than this, runs of different kinds on the same servers, or of one kind on any, are folded too."""
MAX_NAME = 48


@dataclass(frozen=True)
class EqualChoices:
    """Operators with the same choice: consecutive ones, or the same one of each layer."""

    operators: tuple[OperatorChoice, ...]

    @property
    def same_servers(self) -> bool:
        """Whether all stand on the same servers."""
        return len({operator.servers for operator in self.operators}) == 1


def _alike(run: list[OperatorChoice], operator: OperatorChoice) -> bool:
    # Unsplit operators of one kind (embedding tables) belong together wherever they stand.
    last = run[-1]
    same = operator.kind == last.kind and operator.split == last.split
    return same and (operator.servers == last.servers or len(operator.servers) == len(last.servers) == 1)


def _roughly_alike(run: list[OperatorChoice], operator: OperatorChoice) -> bool:
    if operator.split != run[-1].split:
        return False
    one_kind = {member.kind for member in run} == {operator.kind}
    return one_kind or {member.servers for member in run} == {operator.servers}


def _fold(
    operators: tuple[OperatorChoice, ...], joins: Callable[[list[OperatorChoice], OperatorChoice], bool]
) -> list[EqualChoices]:
    runs: list[list[OperatorChoice]] = []
    for operator in operators:
        if runs and joins(runs[-1], operator):
            runs[-1].append(operator)
        else:
            runs.append([operator])
    return [EqualChoices(tuple(run)) for run in runs]


def _repeated(runs: list[EqualChoices]) -> list[EqualChoices]:
    """Layers that follow each other, alike in kinds, splits and places, as one layer: a row for each of its rows."""
    choices = [tuple((one.kind, one.split, one.servers) for one in run.operators) for run in runs]
    folded: list[EqualChoices] = []
    at = 0
    while at < len(runs):
        height, count = _layer(choices, at)
        for row in range(at, at + height):
            same = runs[row : at + height * count : height]
            folded.append(EqualChoices(tuple(operator for run in same for operator in run.operators)))
        at += height * count
    return folded


def _layer(choices: list[tuple[tuple[str, str, tuple[int, ...]], ...]], at: int) -> tuple[int, int]:
    """Rows of the layer that begins here and how often it follows itself: what folds most, of those the lowest."""
    best = 1, 1
    for height in range(1, min(LONGEST_LAYER, (len(choices) - at) // 2) + 1):
        count, layer = 1, choices[at : at + height]
        while choices[at + height * count : at + height * (count + 1)] == layer:
            count += 1
        if height * (count - 1) > best[0] * (best[1] - 1):
            best = height, count
    return best


def strategy_runs(solution: JobSolution) -> list[EqualChoices]:
    """Operators in workload order, neighbours of one kind, split and place folded, then layers that repeat; more
    boldly if many rows remain.
    """
    runs = _repeated(_fold(solution.operators, _alike))
    return runs if len(runs) <= FEW_ROWS else _fold(solution.operators, _roughly_alike)


@dataclass(frozen=True)
class StrategyRow:
    """A row of the table; `members` are the rows of the single operators of a run."""

    name: str
    count: int
    kind: str
    split: str
    servers: str
    forward: str
    backward: str
    weights: str
    members: tuple[StrategyRow, ...] = ()


def _row(operator: OperatorChoice, n: int) -> StrategyRow:
    return StrategyRow(
        name=shortened(operator.name, MAX_NAME),
        count=1,
        kind=shortened(operator.kind, MAX_NAME),
        split=operator.split,
        servers=server_set(operator.servers, n),
        forward=milliseconds(operator.forward_ms),
        backward=milliseconds(operator.backward_ms),
        weights=byte_size(operator.weight_bytes) if operator.weight_bytes else "–",
    )


def _kinds(run: EqualChoices) -> str:
    counts = Counter(operator.kind for operator in run.operators)
    if len(counts) == 1:
        return shortened(run.operators[0].kind, MAX_NAME)
    common = [f"{shortened(kind, 16)} {count}" for kind, count in counts.most_common(4)]
    return ", ".join(common) + (", …" if len(counts) > 4 else "")


def run_servers(run: EqualChoices, n: int) -> str:
    """Servers of a run: one set, or how many each and where in all."""
    if run.same_servers:
        return server_set(run.operators[0].servers, n)
    each = {len(operator.servers) for operator in run.operators}
    union = {server for operator in run.operators for server in operator.servers}
    size = f"{next(iter(each))} each" if len(each) == 1 else "various"
    return f"{size}, over {server_set(sorted(union), n)}"


def run_name(run: EqualChoices) -> str:
    """`first … last`."""
    first, last = run.operators[0].name, run.operators[-1].name
    return shortened(first, MAX_NAME) if first == last else f"{shortened(first, 28)} … {shortened(last, 28)}"


def _busiest_ms(run: EqualChoices, field: str) -> float:
    """The sum over one server, which has more of the run than any other: servers work side by side."""
    total: dict[int, float] = defaultdict(float)
    for operator in run.operators:
        for server in operator.servers:
            total[server] += getattr(operator, field)
    return max(total.values(), default=0.0)


def strategy_rows(solution: JobSolution) -> tuple[StrategyRow, ...]:
    """Rows in workload order; times of a run are those of the server that has most of it, weights are sums."""
    n = solution.cluster.servers
    rows = []
    for run in strategy_runs(solution):
        if len(run.operators) == 1:
            rows.append(_row(run.operators[0], n))
            continue
        weights = sum(operator.weight_bytes for operator in run.operators)
        rows.append(
            StrategyRow(
                name=run_name(run),
                count=len(run.operators),
                kind=_kinds(run),
                split=run.operators[0].split,
                servers=run_servers(run, n),
                forward=milliseconds(_busiest_ms(run, "forward_ms")),
                backward=milliseconds(_busiest_ms(run, "backward_ms")),
                weights=byte_size(weights) if weights else "–",
                members=tuple(_row(operator, n) for operator in run.operators),
            )
        )
    return tuple(rows)
