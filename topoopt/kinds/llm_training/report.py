"""The report of a language model in training: one HTML file that needs nothing else."""

from __future__ import annotations

from typing import Any

from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.verdict import Status
from topoopt.drawing.format import counted, number, percent, shortened
from topoopt.drawing.page import Card, closing_cards, render_page, run_rows, versions_row
from topoopt.drawing.rail_ports import ports_legend, ports_picture
from topoopt.drawing.sentences import bound_text
from topoopt.drawing.utilisation import utilisation_legend
from topoopt.kinds.llm_training.answer import answer
from topoopt.kinds.llm_training.pictures import PARTS, memory_picture, schedule_picture, time_picture, traffic_picture
from topoopt.kinds.llm_training.pods_words import (
    SHOWN_ROWS,
    gain_words,
    link_rows,
    pods_picture,
    pods_rows,
    tried_rows,
)
from topoopt.kinds.llm_training.words import (
    aside,
    differences,
    exposed,
    gib,
    note_words,
    proof_words,
    rails_rows,
    reduction_words,
    seconds,
    strategy_words,
    why_slower,
)

TEMPLATE = "kinds/llm_training/page.html.j2"


def headline(solution: LlmTrainingSolution) -> tuple[Card, ...]:
    """Time, use of the peak, memory."""
    usable, flops = solution.setting.usable_bytes, number(solution.flops_per_gpu / 1e12)
    limit = "not checked against a limit" if usable is None else f"of {gib(usable)} that training may take"
    text = "lower bound: " + seconds(solution.bound.value)
    return (
        Card("time of an iteration", seconds(solution.objective.value), text, "main"),
        Card("of the peak", percent(solution.mfu), f"{flops} TFLOP/s a GPU, attention causal", ""),
        Card("memory of the fullest GPU", gib(solution.memory.total), limit, ""),
    )


def comparisons(solution: LlmTrainingSolution) -> tuple[Card, ...]:
    """Gap, speed, what is exposed, verdict."""
    proven = solution.status is Status.OPTIMAL
    return (
        Card("gap to the lower bound", percent(solution.gap), solution.status.value, "good" if proven else ""),
        Card("tokens a second and GPU", number(solution.tokens_per_s_per_gpu), f"{solution.setting.tokens:,} a step"),
        Card(f"most exposed{aside(solution)}", exposed(solution).split(",")[0], exposed(solution)),
        *closing_cards(solution),
    )


def strategy_rows(solution: LlmTrainingSolution) -> tuple[tuple[str, str], ...]:
    """The parts of the strategy."""
    s = solution.plan.strategy
    layers = " ".join(map(str, s.stage_layers)) if len(s.stage_layers) <= 64 else f"{len(s.stage_layers)} chunks"
    rows = {
        "tensor": f"{s.tensor}, sequence {'split too' if s.sequence else 'whole'}",
        "context": str(s.context),
        "pipeline": f"{s.pipeline} stages of {counted(s.chunks, 'chunk')}, {s.schedule}",
        "layers of each chunk": layers,
        "data": f"{counted(s.data, 'replica')}, ZeRO {s.zero}",
        "expert": f"{s.expert} × {s.expert_tensor}",
        "micro-batches": f"{solution.micro_batches} of {counted(s.micro_batch, 'sequence')}",
        "recomputed": str(s.recompute),
        "ranks count fastest along": ", ".join(map(str, s.order)),
    }
    return (*rows.items(), *rails_rows(solution), *pods_rows(solution), *network_rows(solution))


def next_rows(solution: LlmTrainingSolution) -> tuple[tuple[str, ...], ...]:
    """Time, how much slower, memory, what differs, why."""
    best = solution.best[0]
    return tuple(
        (
            seconds(one.iteration_time_s),
            f"{number(100.0 * (one.iteration_time_s / best.iteration_time_s - 1.0))} %",
            gib(one.memory.total),
            differences(best.strategy, one.strategy),
            why_slower(best, one),
        )
        for one in solution.best[1:]
    )


def network_rows(solution: LlmTrainingSolution) -> tuple[tuple[str, str], ...]:
    """The network of the plan: interfaces, places of ranks, what its dimensions wait for; none on an ideal switch."""
    network, first = solution.plan.network, solution.fabrics[0]
    if not network.loads:
        return ()
    split = ", ".join(f"{family.value} {count}" for family, count in network.degree_split if count)
    places = network.places or tuple(range(solution.setting.servers))
    moved = places != tuple(range(len(places)))
    waits = ", ".join(f"{one.dimension.value} {seconds(one.exposed_s)}" for one in network.loads if one.exposed_s > 0)
    rows = {
        "network": ", ".join(filter(None, (first.fabric, note_words(first)))),
        "interfaces of a server": split,
        "places of ranks": f"moved: {shortened(' '.join(map(str, places)), 60)}" if moved else "servers in order",
        "waits for": waits or "nothing between servers",
    }
    return tuple((name, value) for name, value in rows.items() if value)


def fabric_rows(solution: LlmTrainingSolution) -> tuple[tuple[str, ...], ...]:
    """Name, form, time, over the plan, bound, memory, strategy, what its gradients reduce on if that is no ring."""
    return tuple(
        (
            one.fabric,
            note_words(one),
            seconds(one.iteration_time_s),
            f"{one.iteration_time_s / solution.objective.value:.3f}",
            seconds(bound_s),
            gib(one.memory.total),
            strategy_words(one.plan.strategy),
            reduction_words(one.plan.network),
        )
        for one, bound_s in zip(solution.fabrics, solution.fabric_bounds_s, strict=True)
    )


def provenance(solution: LlmTrainingSolution) -> tuple[tuple[str, str], ...]:
    """Where the figures come from."""
    return (
        *run_rows(solution),
        ("bound", bound_text(solution)),
        ("certificate", proof_words(solution)),
        ("check again, without a solver", "topoopt check solution.json"),
        versions_row(solution),
    )


def pods_parts(solution: LlmTrainingSolution) -> dict[str, Any] | None:
    """Circuits between pods; None on other fabrics."""
    plan = solution.fabrics[0].pods
    if plan is None:
        return None
    links, tried = link_rows(plan), tried_rows(plan)
    ports = list(zip(plan.ports_used, plan.ports_saved, strict=True))
    return {
        "picture": pods_picture(plan),
        "legend": utilisation_legend(),
        "gain": gain_words(solution, plan),
        "links": links[:SHOWN_ROWS],
        "more_links": max(0, len(links) - SHOWN_ROWS),
        "ports": ports[:SHOWN_ROWS],
        "more_ports": max(0, len(ports) - SHOWN_ROWS),
        "tried": tried[:SHOWN_ROWS],
        "more_tried": max(0, len(tried) - SHOWN_ROWS),
    }


def render_llm_training(solution: LlmTrainingSolution) -> str:
    """The whole report as one HTML page; names from the instance are escaped. Same solution, same bytes."""
    setting = solution.setting
    schedule, passes = schedule_picture(solution)
    times, parts = time_picture(solution)
    rails = solution.fabrics[0].rails
    return render_page(
        TEMPLATE,
        answer(solution),
        solution.check,
        solution=solution,
        subtitle=f"{setting.model} · {counted(setting.servers, 'server')} of {setting.gpus_per_server} "
        f"{setting.device} · "
        f"{setting.sequences:,} sequences of {setting.length:,} tokens · {solution.plan.network.fabric}",
        verdict=headline(solution),
        comparisons=comparisons(solution),
        strategy=strategy_rows(solution),
        schedule=schedule,
        passes=passes,
        makespan=seconds(solution.stages.makespan_s),
        ports=None if rails is None else ports_picture(rails.stages, rails.step_s, rails.delay_s, rails.changes),
        uses=() if rails is None else ports_legend(rails.stages, sent=False),
        pods=pods_parts(solution),
        memory=memory_picture(solution),
        held=tuple((f"f-{css}", name) for name, css in PARTS.items()),
        times=times,
        parts=parts,
        aside=aside(solution),
        traffic=traffic_picture(solution),
        next=next_rows(solution),
        fabrics=fabric_rows(solution),
        certificate=proof_words(solution),
        provenance=provenance(solution),
    )
