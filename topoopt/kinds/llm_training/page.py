"""The page of a language model in training: strategy, pipeline, time, memory, traffic, the next best, all fabrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from topoopt.core.arrays import GIB
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import (
    LlmTrainingPlan,
    PodClaims,
    ShapeOutcome,
    StrategyFigures,
    pod_claims,
    rail_bounds_s,
    shape_outcomes,
)
from topoopt.core.result import Result
from topoopt.kinds.llm_training.figures import LlmTrainingFigures, PodFigures, fabric_bounds_s
from topoopt.kinds.llm_training.words import (
    NAMES,
    PARTS,
    TRANSFERS,
    aside,
    candidate_rows,
    differences,
    exposed,
    fabric_name,
    gain_words,
    gib,
    interval_of,
    link_rows,
    memory_plot,
    note_words,
    pass_kinds,
    pods_figures,
    pods_plot,
    pods_rows,
    pods_words,
    proof_words,
    rails_rows,
    reduction_words,
    schedule_plot,
    seconds,
    strategy_words,
    switching_s,
    time_colours,
    time_plot,
    traffic_plot,
    traffic_rows,
    why_slower,
)
from topoopt.page.charts import utilisation_legend
from topoopt.page.render import Block, Column, Fact, Page, Plot, Section, Side, Swatch, Table
from topoopt.page.text import byte_size, counted, number, percent, possible_improvement, rejection, shortened
from topoopt.page.timelines import ports_legend, ports_picture

Solved = Result[LlmTrainingProblem, LlmTrainingPlan]

POD_ROWS = 40


def page(result: Solved) -> Page:
    """Return the page of a result that has its problem."""
    figures: LlmTrainingFigures = result.figures
    problem, shapes, claims = figures.problem, shape_outcomes(result.certificates), claims_of(result)
    commands = [("topoopt explain", "what limits it, and what more memory, links or servers would gain")]
    if figures.fabrics[0].rails is not None:
        commands.append(("topoopt reconfigure", "how long a delay each boundary hides"))
    elif figures.fabrics[0].loads:
        commands.append(("topoopt resilience", "what an iteration takes after failures of links and servers"))
    return Page(
        subtitle=f"{problem.model.name} · {counted(problem.cluster.servers, 'server')} of "
        f"{problem.cluster.gpus_per_server} {problem.cluster.device} · "
        f"{problem.batch.sequences:,} sequences of {problem.batch.length:,} tokens · {figures.plan.network.fabric}",
        answer=answer(result),
        cause=cause(figures),
        facts=facts(result, figures, shapes, claims),
        sections=sections(result, figures, claims),
        provenance=(("certificate", proof_words(shapes)),),
        next_commands=commands,
    )


def claims_of(result: Solved) -> PodClaims | None:
    """Return what is claimed of strategies in pods; None on other fabrics."""
    return pod_claims(result.certificates) if any(fabric.pods for fabric in result.plan.fabrics) else None


def answer(result: Solved) -> str:
    """Return strategy, time of an iteration and use of the peak, and how much faster another strategy could be."""
    figures: LlmTrainingFigures = result.figures
    fabric, claims, problem = figures.fabrics[0], claims_of(result), figures.problem
    over = f"on {fabric_name(fabric.fabric)}"
    if fabric.pods is not None and claims is not None:
        over = f"over {pods_words(fabric.pods, claims)}; {gain_words(fabric.pods)}"
    return rejection(result.check) or (
        f"Train {problem.model.name} on {counted(problem.cluster.gpus, 'GPU')} with {strategy_words(fabric.strategy)}: "
        f"{seconds(result.objective.value)} an iteration {over}, {percent(figures.mfu)} of the peak; "
        f"{possible_improvement(result, 'strategy of the space', 'faster')}."
    )


def cause(figures: LlmTrainingFigures) -> str:
    """Return the two largest parts of the time, and the transfers that cost most."""
    parts, total = asdict(figures.breakdown), figures.breakdown.total
    if total <= 0:
        return ""
    first, second = sorted(parts, key=lambda key: -parts[key])[:2]
    most = f"{percent(parts[first] / total)} of it{aside(figures)} is {NAMES[first]}"
    most += f", {percent(parts[second] / total)} {NAMES[second]}" if parts[second] > 0 else ""
    return f"{most}." if {first, second} & {*TRANSFERS} else f"{most}; most exposed transfers: {exposed(figures)}."


def facts(
    result: Solved, figures: LlmTrainingFigures, shapes: Sequence[ShapeOutcome], claims: PodClaims | None
) -> tuple[Fact, ...]:
    """Return the figures by key; those without a name are for programs alone."""
    problem, best, memory = figures.problem, figures.best[0], figures.memory
    interval = interval_of(problem, figures.plan.strategy, result.objective.value)
    usable, searched = problem.usable_bytes, [line for line in shapes if line.records]
    limit = "not checked against a limit" if usable is None else f"of {gib(usable)} that training may take"
    rows = (*rails_rows(figures), *pods_rows(figures, claims), *network_rows(figures))
    return (
        Fact("iteration_time_s", "time of an iteration", result.objective.value, seconds, interval.text),
        Fact("interval", "", {**asdict(interval), "software": problem.software}),
        Fact("mfu", "of the peak", figures.mfu, percent, card=False),
        Fact("memory_gib", "memory of the fullest GPU",
             {**{name: value / GIB for name, value in asdict(memory).items()}, "total": memory.total / GIB},
             lambda sizes: gib(sizes["total"] * GIB), limit),
        Fact("tokens_per_s_per_gpu", "tokens a second and GPU", figures.tokens_per_s_per_gpu, number,
             f"{problem.batch.tokens:,} a step"),
        *(Fact("", f"  {NAMES[name]}", value, seconds, card=False)
          for name, value in asdict(figures.breakdown).items() if value > 0),
        *(Fact("", name, text, card=False) for name, text in rows),
        Fact("passes_s", "passes in their order", figures.stages.makespan_s, seconds, card=False),
        Fact("tflops_per_gpu", "TFLOP/s a GPU", figures.flops_per_gpu / 1e12, number, "attention causal"),
        Fact("", "proof", proof_words(shapes), card=False),
        Fact("fabric", "", figures.plan.network.fabric),
        Fact("strategy", "", asdict(figures.plan.strategy)),
        Fact("breakdown_s", "", {**asdict(figures.breakdown), **switching_s(figures)}),
        *rails_facts(figures, result),
        *(Fact(name, "", value) for name, value in pods_figures(figures, claims).items()),
        Fact("sent_bytes", "", dict(figures.sent_bytes)),
        Fact("degree_split", "", {family.value: count for family, count in figures.plan.network.degree_split}),
        Fact("exposed", "", [asdict(load) for load in figures.fabrics[0].loads]),
        Fact("records", "", sum(line.records for line in searched)),
        Fact("fitting", "", sum(line.fitting for line in searched)),
        Fact("shapes", "", {verdict: sum(line.verdict is verdict for line in shapes)
                            for verdict in sorted({line.verdict for line in shapes})}),
        Fact("next", "", [
            {
                "iteration_time_s": row.iteration_time_s,
                "memory_gib": row.memory.total / GIB,
                "slower_percent": slower_percent(best, row),
                "differs": differences(best.strategy, row.strategy),
                "slower_by": why_slower(best, row),
            }
            for row in figures.best[1:]
        ]),
        Fact("fabrics", "", [
            {
                "fabric": row.fabric,
                "iteration_time_s": row.iteration_time_s,
                "memory_gib": row.memory.total / GIB,
                "strategy": strategy_words(row.strategy),
                "bound_s": bound_s,
                "allreduce": {load.dimension.value: load.method for load in row.loads if load.method},
                "note": row.note,
            }
            for row, bound_s in zip(figures.fabrics, fabric_bounds_s(result), strict=True)
        ]),
    )  # fmt: skip


def slower_percent(best: StrategyFigures, other: StrategyFigures) -> float:
    return 100.0 * (other.iteration_time_s / best.iteration_time_s - 1.0)


def rails_facts(figures: LlmTrainingFigures, result: Solved) -> list[Fact]:
    """Return the figures of a plan on rails; none on other fabrics."""
    rails = figures.fabrics[0].rails
    if rails is None:
        return []
    document = {
        "mode": rails.mode,
        "delay_s": rails.delay_s,
        "electrical_s": figures.breakdown.total,
        "one_shot_s": rails.one_shot_s,
        "stall_s": rails.stall_s,
        "ports": [asdict(stage) for stage in rails.stages],
        "strategies_tried": len(rail_bounds_s(result.certificates)),
    }
    return [Fact("switching", "", document)]


def network_rows(figures: LlmTrainingFigures) -> tuple[tuple[str, str], ...]:
    """Return the network of the plan: interfaces, positions of ranks, what its dimensions wait for."""
    first = figures.fabrics[0]
    if not first.loads:
        return ()
    split = ", ".join(f"{family.value} {count}" for family, count in first.network.degree_split if count)
    places = first.network.places or tuple(range(figures.problem.cluster.servers))
    moved = places != tuple(range(len(places)))
    waits = ", ".join(f"{load.dimension.value} {seconds(load.exposed_s)}" for load in first.loads if load.exposed_s > 0)
    rows = {
        "network": ", ".join(filter(None, (first.fabric, note_words(first)))),
        "interfaces of a server": split,
        "places of ranks": f"moved: {shortened(' '.join(map(str, places)), 60)}" if moved else "servers in order",
        "waits for": waits or "nothing between servers",
        "AllReduces": reduction_words(first),
    }
    return tuple((name, value) for name, value in rows.items() if value)


def strategy_table(figures: LlmTrainingFigures, claims: PodClaims | None) -> Table:
    """Return the parts of the strategy, and what its network is like."""
    s = figures.plan.strategy
    layers = " ".join(map(str, s.stage_layers)) if len(s.stage_layers) <= 64 else f"{len(s.stage_layers)} chunks"
    rows = {
        "tensor": f"{s.tensor}, sequence {'split too' if s.sequence else 'whole'}",
        "context": str(s.context),
        "pipeline": f"{s.pipeline} stages of {counted(s.chunks, 'chunk')}, {s.schedule}",
        "layers of each chunk": layers,
        "data": f"{counted(s.data, 'replica')}, ZeRO {s.zero}",
        "expert": f"{s.expert} × {s.expert_tensor}",
        "micro-batches": f"{figures.micro_batches} of {counted(s.micro_batch, 'sequence')}",
        "recomputed": str(s.recompute),
        "ranks count fastest along": ", ".join(map(str, s.order)),
    }
    columns = (Column("part", ""), Column("value", ""))
    others = (*rails_rows(figures), *pods_rows(figures, claims), *network_rows(figures))
    return Table("strategy_parts", columns, [*rows.items(), *others], terminal_rows=0)


def sections(result: Solved, figures: LlmTrainingFigures, claims: PodClaims | None) -> list[Section]:
    """Return all sections; those without blocks are left out of the page."""
    best, usable = figures.best, figures.problem.usable_bytes
    sent = traffic_rows(figures)
    colours = {f"f-{css}": NAMES[name] for name, css in time_colours(best).items()}
    compared = figures.fabrics if len(figures.fabrics) > 1 else ()
    return [
        Section("Strategy", [strategy_table(figures, claims)]),
        pipeline_section(figures),
        ports_section(figures),
        pods_section(figures, claims),
        Section(
            "Where the time goes",
            [
                Plot(
                    lambda: time_plot(best), f"An iteration{aside(figures)} on the busiest rank, exposed: parts add up."
                )
            ],
            legend=_boxes(colours),
        ),
        Section(
            "Memory of the fullest GPU",
            [
                Plot(
                    lambda: memory_plot(best, usable),
                    "" if usable is None else "The dashed line is what training may take.",
                )
            ],
            legend=_boxes({f"f-{css}": name for name, css in PARTS.items()}),
        ),
        Section(
            "Bytes that a GPU sends in an iteration",
            [Plot(lambda: traffic_plot(sent), "Of a GPU of an average stage, without embedding and head.")]
            if sent
            else [],
        ),
        Section("The next best strategies", [next_table(figures)] if len(best) > 1 else []),
        Section("Time by fabric", [fabrics_table(result, figures)] if compared else []),
    ]


def _boxes(colours: dict[str, str]) -> list[Swatch]:
    return [Swatch(css, text, "box") for css, text in colours.items()]


def pipeline_section(figures: LlmTrainingFigures) -> Section:
    """Return the passes of the pipeline in their order; nothing with one stage."""
    title = "Schedule of the pipeline"
    if figures.plan.strategy.pipeline == 1:
        return Section(title, [])
    took = seconds(figures.stages.makespan_s)
    text = (
        f"All micro-batches in this order take {took}, exposed transfers of tensor, context and expert parallelism "
        f"within their passes{aside(figures)}."
    )
    drawing, notes = schedule_plot(figures)
    caption = " ".join([text, *notes])
    return Section(title, [Plot(lambda: drawing, caption)], legend=_boxes(dict(pass_kinds(figures.stages))))


def ports_section(figures: LlmTrainingFigures) -> Section:
    """Return what the ports of rails serve over a step; nothing on other fabrics."""
    rails = figures.fabrics[0].rails
    if rails is None:
        return Section("Ports over time", [])
    drawing, notes = ports_picture(rails.stages, rails.step_s, rails.delay_s, rails.changes)
    caption = ["What the ports of a GPU of each stage serve in one step, delays counted.", *notes]
    legend = [Swatch(css, text, "box") for css, text in ports_legend(rails.stages, sent=False)]
    return Section("Ports over time", [Plot(lambda: drawing, " ".join(caption))], legend=legend)


def pods_section(figures: LlmTrainingFigures, claims: PodClaims | None) -> Section:
    """Return the circuits between pods, their ports, and the candidates; nothing on other fabrics."""
    pods = figures.fabrics[0].pods
    if pods is None or claims is None:
        return Section("Circuits between pods", [])
    plot = Plot(
        lambda: pods_plot(pods),
        "A line for each circuit (of more than eight, eight), by the part of the time that its busier direction needs "
        "for what it carries.",
    )
    blocks: list[Block] = [
        f"Chosen together with the strategy: {gain_words(pods)}.",
        Side([plot, links_table(pods)]),
        ports_table(pods),
        candidates_table(pods, claims),
    ]
    return Section("Circuits between pods", blocks, legend=[Swatch(*row) for row in utilisation_legend()])


def links_table(pods: PodFigures) -> Table:
    columns = (
        Column("pods", "pods"),
        Column("circuits", "circuits", number=True),
        Column("there_bytes", "there", byte_size, number=True),
        Column("back_bytes", "back", byte_size, number=True),
        Column("in_use", "in use", percent, number=True),
    )
    return Table("pod_links", columns, link_rows(pods), max_rows=POD_ROWS, terminal_rows=0)


def ports_table(pods: PodFigures) -> Table:
    columns = (
        Column("pod", "pod"),
        Column("used", "in use", number=True),
        Column("saved", "saved", number=True),
    )
    rows = list(zip(range(pods.pods), pods.ports_used, pods.ports_saved, strict=True))
    return Table("pod_ports", columns, rows, title="Ports by pod", max_rows=POD_ROWS, terminal_rows=0)


def candidates_table(pods: PodFigures, claims: PodClaims) -> Table:
    def took(value: float | None) -> str:
        return "" if value is None else seconds(value)

    columns = (
        Column("strategy", "strategies in pods"),
        Column("iteration_time_s", "iteration", took, number=True),
        Column("bound_s", "bound", took, number=True),
        Column("verdict", ""),
    )
    return Table("pod_strategies", columns, candidate_rows(pods, claims), max_rows=POD_ROWS, terminal_rows=0)


def next_table(figures: LlmTrainingFigures) -> Table:
    best = figures.best[0]
    columns = (
        Column("iteration_time_s", "iteration", seconds, number=True),
        Column("slower_percent", "slower", lambda value: f"{number(value)} %", number=True),
        Column("memory_bytes", "memory", gib, number=True),
        Column("differs", "differs in"),
        Column("slower_by", "slower by"),
    )
    rows: list[tuple[Any, ...]] = [
        (
            row.iteration_time_s,
            slower_percent(best, row),
            row.memory.total,
            differences(best.strategy, row.strategy),
            why_slower(best, row),
        )
        for row in figures.best[1:]
    ]
    return Table("next_best", columns, rows)


def fabrics_table(result: Solved, figures: LlmTrainingFigures) -> Table:
    """Return a row for each fabric, with the strategy that is best on it."""
    columns = [
        Column("fabric", "fabric"),
        Column("iteration_time_s", "iteration", seconds, number=True),
        Column("over_plan", "over the plan", lambda value: f"{value:.3f}", number=True),
        Column("bound_s", "bound", seconds, number=True),
        Column("memory_bytes", "memory", gib, number=True),
        Column("strategy", "strategy"),
        Column("form", "form"),
        Column("allreduces", "AllReduces"),
    ]
    rows: list[list[Any]] = [
        [
            row.fabric,
            row.iteration_time_s,
            row.iteration_time_s / result.objective.value,
            bound_s,
            row.memory.total,
            strategy_words(row.strategy),
            note_words(row),
            reduction_words(row),
        ]
        for row, bound_s in zip(figures.fabrics, fabric_bounds_s(result), strict=True)
    ]
    used = [k for k in range(len(columns)) if any(row[k] != "" for row in rows)]
    return Table("fabric_times", [columns[k] for k in used], [[row[k] for k in used] for row in rows])
