"""`topoopt reconfigure`: a job or a trace is timed over the reconfiguration delay of switches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from annotated_types import Ge, Le
from rich.console import Console

from topoopt.core.errors import InputError, Problem, raise_any, raise_rejected
from topoopt.core.job import CoOptimisation
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.outcomes import ReconfigurationSweep
from topoopt.core.switching import RailStudy, delay_text, parse_delay
from topoopt.page import options
from topoopt.page.options import memory_bytes
from topoopt.page.output import EXIT_OF_STOP, Output, say
from topoopt.page.render import TerminalTable

if TYPE_CHECKING:
    from solvers.stop import Stop
    from solvers.timing import Timing


DELAYS = "1us,10us,50us,200us,1ms,10ms,100ms,1s,60s"


SETTINGS = {
    "period": str,
    "iterations": Annotated[int, Ge(1), Le(10_000)],
    "break_even": bool,
    "straggler": Annotated[float, Ge(1.0), Le(100.0)],
    "failed": Annotated[int, Ge(0), Le(100_000)],
}


def reconfigure(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="INSTANCE|SOLUTION",
            help="Of kind co-optimisation or llm-training, or of topology or routing with step_ms; an instance is "
            "solved first.",
        ),
    ],
    delays: options.Delays = None,
    fabrics: options.Fabrics = None,
    budget: options.Budget = None,
    seed: options.Seed = None,
    time_limit: options.TimeLimit = None,
    memory_limit: options.MemoryLimit = None,
    settings: options.Settings = None,
    output_files: options.OutputOption = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Time of a job, or of a trace of demands, over the reconfiguration delay: one network, and links set anew.

    Delays are 1 us to 60 s unless given. Schemes beside one-shot (--fabrics; all unless given): per-phase, sip-ml,
    ocs-reconfig; of a trace of demands rerouted, every-step, best-sequence; of llm-training on-demand, provisioned.
    Exit code 4 if the time limit cut something off. --output writes a table (.csv) and a plot (.html, .svg).

    Settings of jobs: `period`, how long demand-driven circuits stay (4 times the dark time, 10us at least);
    `iterations` simulated in a row there (1); `break_even` (true), whether the delay that no longer pays is looked
    for. Of llm-training: `straggler`, also with each stage so many times as slow (1); `failed`, also with so many
    interfaces of a server dead (0).
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.reconfiguration.report import answer
        from topoopt.files.atomic import PLOTS, targets
        from topoopt.kinds.files import problem_and_solution
        from topoopt.page.options import attended

        csv_file, plot = targets(output_files, force, (".csv",), PLOTS)
        given = options.typed_settings(options.settings_of(settings, SETTINGS), SETTINGS)
        delays_ms, period_ms = _durations(delays or DELAYS, given.pop("period", None))
        schemes = None if fabrics is None else [name.strip() for name in fabrics.split(",") if name.strip()]
        memory = memory_bytes(memory_limit)
        with attended(output, time_limit, memory) as run, output.remarks.status("reconfigure") as status:

            def tell(scheme: str, delay_ms: float) -> None:
                run.doing = f"{scheme} at {delay_text(delay_ms)}"
                status.update(run.doing)

            problem, solution = run.first(lambda: problem_and_solution(file))
            question = _SweepOptions(delays_ms, solution, budget, seed, schemes, period_ms, **given)
            _refuse_options(problem, question)
            run.doing = "reconfigure"
            sweep, study = run.part(lambda: _sweep(file, problem, question, run.timing, tell))
            run.doing = "files"
            written = _written(sweep, study, csv_file, plot)
            wall_s = round(time.monotonic() - run.began.at_s, 3)
            document = {**_document(sweep), **_rails(study), **written, "wall_s": wall_s}
            output.result(document, lambda console: _show(console, sweep, study, (csv_file, plot)), answer(sweep))
        return EXIT_OF_STOP.get(sweep.stopped_by, 0)

    output.run(command)


@dataclass(frozen=True)
class _SweepOptions:
    """The options that concern one sweep."""

    delays_ms: list[float]
    solution: Any
    budget: int | None
    seed: int | None
    schemes: list[str] | None
    period_ms: float | None
    iterations: int = 1
    break_even: bool = True
    straggler: float = 1.0
    failed: int = 0


def _sweep(
    instance: Path, problem: Any, settings: _SweepOptions, timing: Timing, tell: Callable[[str, float], None]
) -> tuple[ReconfigurationSweep, RailStudy | None]:
    """The sweep of a job, of the rails of a training job, or of a trace of demands.

    Raises:
        InputError: neither.
    """
    from topoopt.analyses.reconfiguration.run import SCHEMES, TRACE_SCHEMES, reconfiguration_sweep, trace_sweep

    delays_ms, seed = settings.delays_ms, problem.search.seed if settings.seed is None else settings.seed
    if isinstance(problem, CoOptimisation):
        swept = reconfiguration_sweep(
            problem,
            _solution(problem, settings, timing).plan,
            delays_ms=delays_ms,
            seed=seed,
            stop=timing.stop,
            schemes=SCHEMES if settings.schemes is None else settings.schemes,
            period_ms=settings.period_ms,
            iterations=settings.iterations,
            judged=settings.break_even,
            progress=tell,
        )
        return swept, None
    if isinstance(problem, LlmTrainingProblem):
        from topoopt.analyses.reconfiguration.rails import rails_of

        strategy = _solution(problem, settings, timing).plan.strategy
        slow, failed = settings.straggler, settings.failed
        return rails_of(instance, problem, strategy, settings.schemes, delays_ms, slow, failed, timing.stop, tell)
    if isinstance(problem, RoutingProblem | TopologyProblem):
        solved = _solution(problem, settings, timing)
        names = TRACE_SCHEMES if settings.schemes is None else settings.schemes
        return trace_sweep(problem, solved, schemes=names, delays_ms=delays_ms, seed=seed, stop=timing.stop), None
    text, allowed = "no job and no trace of demands", "co-optimisation, llm-training, topology, routing"
    raise InputError([Problem(text, file=str(instance), path="kind", value=problem.kind, allowed=allowed)])


def _durations(delays: str, period: str | None) -> tuple[list[float], float | None]:
    """Milliseconds; every bad one is told."""
    problems: list[Problem] = []

    def parsed(option: str, text: str) -> float:
        try:
            return parse_delay(text)
        except InputError as error:
            problem = error.problems[0]
            problems.append(Problem(problem.message, path=option, value=problem.value, allowed=problem.allowed))
            return 0.0

    wanted = [parsed("--delays", word) for word in delays.split(",") if word.strip()]
    period_ms = None if period is None else parsed("--set period", period)
    raise_any(problems)
    return wanted, period_ms


def _solution(problem: Any, settings: _SweepOptions, timing: Timing) -> Any:
    """The solution that was given, or that of a solve, checked."""
    from topoopt.kinds.kind import SolveOptions
    from topoopt.kinds.pipeline import solve

    if settings.solution is not None:
        return settings.solution
    own = replace(timing, left_out=[])
    solved = solve(problem, SolveOptions(settings.seed, None, settings.budget, objective_only=True, timing=own))
    _refuse_rejected(solved.check.violations, timing.stop)
    return solved


def _refuse_rejected(violations: tuple[str, ...], stop: Stop) -> None:
    raise_rejected(violations)
    if stop.interrupted.is_set():
        raise KeyboardInterrupt


def _refuse_options(problem: Any, settings: _SweepOptions) -> None:
    """Options that are of other sweeps."""
    training = {"--set straggler": settings.straggler != 1.0, "--set failed": settings.failed != 0}
    jobs = {
        "--set period": settings.period_ms is not None,
        "--set iterations": settings.iterations != 1,
        "--budget": settings.budget is not None,
        "--set break_even": not settings.break_even,
    }
    foreign = training if not isinstance(problem, LlmTrainingProblem) else {}
    refused = [("for training jobs only", name) for name, here in foreign.items() if here]
    if not isinstance(problem, CoOptimisation):
        refused += [("for jobs only", name) for name, here in jobs.items() if here]
    if refused:
        raise InputError([Problem(text, path=name, allowed="left out") for text, name in refused])


def _document(sweep: ReconfigurationSweep) -> dict[str, Any]:
    return {"kind": "reconfiguration", **asdict(sweep), "versions": dict(sweep.versions), "notes": list(sweep.notes)}


def _rails(study: RailStudy | None) -> dict[str, Any]:
    from topoopt.analyses.reconfiguration.report import rails_document

    return {} if study is None else {"rails": rails_document(study)}


def _written(
    sweep: ReconfigurationSweep, study: RailStudy | None, csv_file: Path | None, plot: Path | None
) -> dict[str, str | None]:
    from topoopt.analyses.reconfiguration.report import sweep_html, sweep_svg
    from topoopt.files.atomic import csv_text, write_targets

    columns = ("scheme", "delay_ms", "iteration_time_ms", "choice", "reconfigurations", "dark_ms")
    rows = ([scheme.name, *asdict(point).values()] for scheme in sweep.schemes for point in scheme.points)
    return write_targets(
        csv_file,
        plot,
        text=lambda: csv_text(columns, rows),
        svg=lambda: sweep_svg(sweep),
        html=lambda: sweep_html(sweep, study),
    )


def _show(
    console: Console, sweep: ReconfigurationSweep, study: RailStudy | None, files: tuple[Path | None, ...]
) -> None:
    from topoopt.analyses.reconfiguration.report import boundary_lines, sweep_title, time_name, verdict_text

    table = TerminalTable(title=f"{sweep.name}: {sweep_title(sweep)}, {time_name(sweep)} in ms")
    table.add_column("delay", justify="right")
    for scheme in sweep.schemes:
        table.add_column(scheme.name, justify="right")
    for point in sweep.schemes[0].points:
        cells = []
        for scheme in sweep.schemes:
            there = next((candidate for candidate in scheme.points if candidate.delay_ms == point.delay_ms), None)
            cells.append("-" if there is None else f"{there.iteration_time_ms:.4f}")
        table.add_row(delay_text(point.delay_ms), *cells)
    console.print(table)
    if any(scheme.break_even is not None for scheme in sweep.schemes):
        console.print("When does reconfiguring pay? Faster than one-shot:", highlight=False)
    for scheme in sweep.schemes:
        if scheme.break_even is not None:
            text = f"  {scheme.name}: {verdict_text(scheme.break_even)}"
            if scheme.break_even_rerouted is not None:
                text += f"; than new routes alone: {verdict_text(scheme.break_even_rerouted)}"
            console.print(text, soft_wrap=True, highlight=False)
    say(console, *(() if study is None else boundary_lines(study)), notes=sweep.notes, written=files)
