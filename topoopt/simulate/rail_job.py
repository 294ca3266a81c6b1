"""A strategy becomes a job on rails; the ports of each stage become circuits in phases."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import itemgetter

from topoopt.core.arrays import NS_PER_S, Floats
from topoopt.core.errors import Problem, raise_any
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import ParallelStrategy, PipelineSchedule
from topoopt.core.switching import (
    CircuitGroup,
    PortSplit,
    PortUse,
    RailCircuit,
    RailExchange,
    RailJob,
    RailPhase,
    RailTimetable,
    StagePorts,
    SwitchedStep,
    SwitchSettings,
)
from topoopt.simulate.llm_training.costs import (
    WHOLE,
    GroupRates,
    layer_traffic,
    ranks_beside,
)
from topoopt.simulate.llm_training.links import rank_coordinates
from topoopt.simulate.llm_training.step import StagePasses, layer_sync, optimizer_s, pipeline_shape, stage_times
from topoopt.simulate.llm_training.strategies import LayerTimes, StrategyColumns, columns_of

BIDIRECTIONAL_SCHEDULES = (PipelineSchedule.DUALPIPE, PipelineSchedule.DUALPIPE_V)


def rail_job(problem: LlmTrainingProblem, strategy: ParallelStrategy, settings: SwitchSettings) -> RailJob:
    """One iteration as its rails see it.

    Raises:
        InputError: the strategy cannot stand on rails, or its circuits need more ports than there are.
    """
    columns = columns_of([strategy], problem.model.layers)
    beside, expert_beside = ranks_beside(problem, columns)
    raise_any(list(_problems(problem, strategy, beside, float(expert_beside[0]))))
    rates = GroupRates.of(problem, columns)
    stages = stage_times(problem, strategy, rates)
    slow, shape = problem.cluster.slowdown, pipeline_shape(problem, strategy)
    groups = strategy.data * strategy.context / float(beside[D.DATA][0] * beside[D.CONTEXT][0])
    experts = strategy.expert * strategy.expert_tensor / float(expert_beside[0])
    inside = _inside(strategy, stages, groups, experts)
    exchange = None
    if inside is PortUse.EXPERT:
        exchange = _tokens(problem, columns, stages, rates)
    elif inside is PortUse.DATA:
        exchange = _weights(problem, strategy, stages, rates)
    own = 0.0 if inside is PortUse.EXPERT else 1.0
    reduced, gathered, layers = layer_sync(problem, strategy, stages, rates)
    ends = 0.0 if strategy.zero >= 3 else slow
    cluster, several = problem.cluster, strategy.pipeline > 1
    start = (cluster.message_latency_us + rates.hops[3] * cluster.hop_latency_us) * 1e-6 if several else 0.0
    there, back = (stages.tensor[i] + stages.context[i] + own * stages.expert for i in range(2))
    forward, inputs, weights, again = stages.passes
    rate = settings.port_gbps or cluster.gpu_gbps
    job = RailJob(
        schedule=strategy.schedule,
        ranks=strategy.pipeline,
        chunks=strategy.chunks,
        micro_batches=shape.micro_batches,
        forward_s=tuple((slow * (forward + there)).tolist()),
        inputs_s=tuple((slow * (inputs + again + back)).tolist()),
        weights_s=tuple((slow * weights).tolist()),
        exchange=exchange,
        inside=inside,
        hop_s=(slow * start, slow * (stages.hop_s - start)),
        layers=tuple(int(n) for n in layers.tolist()),
        reduced_s=tuple((ends * reduced).tolist()),
        gathered_s=tuple((ends * gathered).tolist()),
        optimizer_s=slow * optimizer_s(problem, strategy, stages),
        blocking=several and not problem.overlap.pipeline,
        overlapped=problem.overlap.data,
        data_servers=round(groups),
        expert_servers=round(experts) if inside is PortUse.EXPERT else 1,
        ports=settings.ports,
        circuit_share=rate / cluster.gpu_gbps,
    )
    raise_any(list(_short(job)))
    return job


def _inside(strategy: ParallelStrategy, stages: StagePasses, groups: float, experts: float) -> PortUse | None:
    if experts > 1 and stages.expert_weights.any():
        return PortUse.EXPERT
    return PortUse.DATA if strategy.zero >= 3 and groups > 1 else None


def _problems(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, beside: dict[D, Floats], expert_beside: float
) -> Iterator[Problem]:
    """Why a strategy cannot stand on rails."""
    cluster, g = problem.cluster, problem.cluster.gpus_per_server
    for name in ("tensor", "context"):
        ranks = getattr(strategy, name)
        if float(beside[D(name)][0]) < WHOLE * ranks:
            text = f"pods split a {name} group: rails join GPUs of the same place in their servers, and carry no {name}"
            yield Problem(text, path=name, value=str(ranks), allowed=f"groups inside servers of {g} GPUs")
    if float(beside[D.PIPELINE][0]) > 1:
        text = "a server holds ranks of several stages: their circuits cannot be set apart"
        yield Problem(text, path="pipeline", value=str(strategy.pipeline), allowed="servers of one stage each")
    if strategy.schedule in BIDIRECTIONAL_SCHEDULES:
        text = "switching follows schedules whose ranks hold the model once"
        yield Problem(text, path="schedule", value=strategy.schedule.value, allowed="1f1b, interleaved, gpipe, zb-*")
    if cluster.degree % g:
        text = "a GPU has no interface of its own on its rail"
        yield Problem(text, path="cluster.degree", value=str(cluster.degree), allowed=f"multiples of {g}")
    if strategy.zero >= 3 and expert_beside < WHOLE * strategy.expert * strategy.expert_tensor:
        text = "weights and tokens cross the rail inside the same pass"
        yield Problem(text, path="zero", value="3", allowed="0 to 2, or experts inside servers")


def _short(job: RailJob) -> Iterator[Problem]:
    for use in job.uses:
        most = max(job.needs(rank, use) for rank in range(job.ranks))
        if most > job.ports:
            text = f"circuits for {use.value} exceed the ports of a GPU"
            yield Problem(text, path="switching.ports", value=str(job.ports), allowed=f"at least {most}")


def _tokens(
    problem: LlmTrainingProblem, columns: StrategyColumns, stages: StagePasses, rates: GroupRates
) -> tuple[RailExchange, ...]:
    cluster, slow, kinds = problem.cluster, problem.cluster.slowdown, problem.model.kinds
    shown = slow * (1.0 - problem.overlap.expert)
    with_experts = [index for index, kind in enumerate(kinds) if kind.experts is not None]
    layers = {index: layer_traffic(problem, columns, kinds[index]) for index in with_experts}
    fixed = shown * 2.0 * (cluster.message_latency_us + rates.hops[2] * cluster.hop_latency_us) * 1e-6
    before, behind = LayerTimes(problem, columns).attention(kinds[with_experts[-1]])

    def exchange(counts: list[int]) -> RailExchange:
        n = sum(counts[index] for index in with_experts)
        crossing = sum(
            counts[index] * shown * float(own.expert_crossing[0] / rates.expert[0]) for index, own in layers.items()
        )
        within = sum(counts[index] * shown * float(own.expert[0]) / rates.inside for index, own in layers.items())
        ahead, back = slow * float(before[0]) if n else 0.0, slow * float(behind[0]) if n else 0.0
        return RailExchange((crossing, crossing), within, n * fixed, ahead, back)

    return tuple(exchange(counts) for counts in stages.kinds.T.tolist())


def _weights(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, stages: StagePasses, rates: GroupRates
) -> tuple[RailExchange, ...]:
    """Half of the gathers stand in either pass, and gradients in the backward one."""
    back, both, layers = layer_sync(problem, strategy, stages, rates)
    slow, hidden = problem.cluster.slowdown * layers, problem.overlap.data
    return tuple(
        RailExchange((gathered / 2.0, gathered / 2.0 + reduced), 0.0, 0.0, 0.0, 0.0, hidden)
        for gathered, reduced in zip((slow * both).tolist(), (slow * back).tolist(), strict=True)
    )


Lane = tuple[PortUse, int]
Layout = dict[Lane, tuple[int, ...]]
"""Ports of a lane: one, or the one to the next server or stage and the one from the last."""

Wanted = list[tuple[int, frozenset[PortSplit]]]
"""Stages of a group, and splits of their ports in which they want it."""


def layout(job: RailJob, rank: int, split: PortSplit, before: Sequence[Layout]) -> Layout:
    """Ports of a GPU by lane; a lane stands where it stood before, if it can."""
    ports_of: Layout = {}
    free, lanes = set(range(job.ports)), []
    for use in PortUse:
        if unit := job.needs(rank, use) if split.of(use) else 0:
            lanes += [((use, lane), unit) for lane in range(split.of(use) // unit)]
    for lane, _ in lanes:
        stood = next(
            (earlier[lane] for earlier in reversed(before) if lane in earlier and free.issuperset(earlier[lane])), None
        )
        if stood is not None:
            ports_of[lane] = stood
            free.difference_update(stood)
    for lane, unit in lanes:
        if lane not in ports_of:
            ports_of[lane] = tuple(sorted(free)[:unit])
            free.difference_update(ports_of[lane])
    return ports_of


def layouts(job: RailJob, rank: int, ports: StagePorts) -> dict[PortSplit, Layout]:
    layout_of: dict[PortSplit, Layout] = {}
    for split in (ports.pipeline, ports.inside, ports.data):
        if split not in layout_of:
            layout_of[split] = layout(job, rank, split, list(layout_of.values()))
    return layout_of


class RailServers:
    """Servers of the groups of a strategy, rail by rail."""

    def __init__(self, strategy: ParallelStrategy, gpus_per_server: int) -> None:
        self.g, self.servers = gpus_per_server, strategy.gpus // gpus_per_server
        at, s = rank_coordinates(strategy), strategy
        t, c, d, p = (at[dimension].tolist() for dimension in (D.TENSOR, D.CONTEXT, D.DATA, D.PIPELINE))
        self.rings: dict[tuple[PortUse, int], dict[tuple[int, int], list[int]]] = defaultdict(lambda: defaultdict(list))
        self.rows: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        for rank in range(s.gpus):
            server, rail = divmod(rank, gpus_per_server)
            position = t[rank] + s.tensor * (c[rank] + s.context * d[rank])
            self.rings[PortUse.DATA, p[rank]][rail, t[rank]].append(server)
            self.rings[PortUse.EXPERT, p[rank]][rail, position // (s.expert * s.expert_tensor)].append(server)
            self.rows[rail, position][p[rank]] = server

    def ring(self, use: PortUse, stage: int, ports: Sequence[int], count: int) -> Iterator[RailCircuit]:
        """Round the servers of each group of a stage, or between two by one port each.

        Args:
            count: ports of a GPU.
        """
        for (rail, _), servers in self.rings[use, stage].items():
            if len(servers) == 2:
                yield _circuit(rail, servers[0] * count + ports[0], servers[1] * count + ports[0])
            elif len(servers) > 2:
                for here, there in zip(servers, servers[1:] + servers[:1], strict=True):
                    yield _circuit(rail, here * count + ports[0], there * count + ports[-1])

    def between(self, stages: tuple[int, int], ports: tuple[int, int], count: int) -> Iterator[RailCircuit]:
        """From the servers of a stage to those of the next in the same replica."""
        for (rail, _), row in self.rows.items():
            here, there = (row[stage] * count + port for stage, port in zip(stages, ports, strict=True))
            yield _circuit(rail, here, there)


def _circuit(rail: int, port: int, peer: int) -> RailCircuit:
    return rail, min(port, peer), max(port, peer)


def rail_timetable(job: RailJob, strategy: ParallelStrategy, gpus_per_server: int, step: SwitchedStep) -> RailTimetable:
    """Phases of a step with its events."""
    ports_by_rank = [layouts(job, rank, row) for rank, row in enumerate(step.plan)]
    wanted = _wanted(job, ports_by_rank, RailServers(strategy, gpus_per_server))
    step_ns, delay_ns = round(step.step_s * NS_PER_S), round(step.delay_s * NS_PER_S)
    times = [_times(step, rank, step_ns) for rank in range(job.ranks)]
    begins = {0, *(at for row in times for at, _ in row)}
    begins |= {(at + delay_ns) % step_ns for at in begins}
    cuts = sorted(begins)
    served = [
        [row[bisect_right(row, at, key=itemgetter(0)) - 1][1] if row else only.pipeline for at in cuts]
        for row, only in zip(times, step.plan, strict=True)
    ]
    states = []
    for want in wanted.values():
        both = [all(served[rank][k] in splits for rank, splits in want) for k in range(len(cuts))]
        states.append(_states(both, cuts, step_ns, delay_ns))
    kept = [k for k, row in enumerate(states) if "lit" in row]
    groups, ends = list(wanted), [*cuts[1:], step_ns]
    phases = (
        RailPhase(
            begin,
            end,
            tuple(number for number, k in enumerate(kept) if states[k][index] == "lit"),
            tuple(number for number, k in enumerate(kept) if states[k][index] == "dark"),
        )
        for index, (begin, end) in enumerate(zip(cuts, ends, strict=True))
    )
    chosen = tuple(groups[k] for k in kept)
    servers = strategy.gpus // gpus_per_server
    return RailTimetable(gpus_per_server, servers, job.ports, step_ns, delay_ns, chosen, tuple(_joined(phases)))


def _wanted(
    job: RailJob, by_rank: Sequence[dict[PortSplit, Layout]], servers: RailServers
) -> dict[CircuitGroup, Wanted]:
    """Groups of circuits with the splits in which their ends want them."""
    wants: dict[CircuitGroup, dict[int, set[PortSplit]]] = defaultdict(lambda: defaultdict(set))

    def want(group: CircuitGroup, splits: dict[int, PortSplit]) -> None:
        for rank, split in splits.items():
            wants[group][rank].add(split)

    for rank, states in enumerate(by_rank):
        for split, lanes in states.items():
            for (use, _), ports in lanes.items():
                if use is not PortUse.PIPELINE and (made := tuple(sorted(servers.ring(use, rank, ports, job.ports)))):
                    want(CircuitGroup(use, (rank,), made), {rank: split})
    for here, there in _pairs(job):
        for split, lanes in by_rank[here].items():
            for other, two in by_rank[there].items():
                for lane in sorted(set(lanes) & set(two)):
                    if lane[0] is PortUse.PIPELINE:
                        ends = lanes[lane][0], two[lane][-1]
                        made = tuple(sorted(servers.between((here, there), ends, job.ports)))
                        want(CircuitGroup(PortUse.PIPELINE, (here, there), made), {here: split, there: other})
    return {
        group: [(rank, frozenset(splits)) for rank, splits in ranks.items()] for group, ranks in sorted(wants.items())
    }


def _pairs(job: RailJob) -> list[tuple[int, int]]:
    pairs = [(rank, rank + 1) for rank in range(job.ranks - 1)]
    return [*pairs, (job.ranks - 1, 0)] if job.chunks > 1 and job.ranks > 2 else pairs


def _times(step: SwitchedStep, rank: int, step_ns: int) -> list[tuple[int, PortSplit]]:
    """When ports of a stage are set anew, and what they serve then; those of the step before stand at the end."""
    times = []
    for event in step.events:
        if event.rank == rank and event.what == "switch":
            assert event.after is not None
            times.append((round(event.begin_s * NS_PER_S) % step_ns, event.after))
    return sorted(times, key=lambda row: row[0])


def _states(want: list[bool], cuts: list[int], step_ns: int, delay_ns: int) -> list[str]:
    """Of a group in each phase: lit, dark while it is set, or cut; the phases stand in a circle."""
    if all(want):
        return ["lit"] * len(want)
    states, since = ["cut"] * len(want), 0
    for index in (*range(len(want)), *range(len(want))):
        if want[index]:
            since = since if want[index - 1] else cuts[index]
            states[index] = "lit" if (cuts[index] - since) % step_ns >= delay_ns else "dark"
    return states


def _joined(phases: Iterator[RailPhase]) -> Iterator[RailPhase]:
    last: RailPhase | None = None
    for phase in phases:
        if last is not None and (last.lit, last.dark) == (phase.lit, phase.dark):
            last = RailPhase(last.begin_ns, phase.end_ns, phase.lit, phase.dark)
            continue
        if last is not None:
            yield last
        last = phase
    if last is not None:
        yield last
