"""`topoopt export`: solutions are checked and written in the formats of other tools, with what an exporter needs
beside them; models of instances as LP or MPS.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from annotated_types import Ge, Gt, Le, Lt
from rich.console import Console
from rich.markup import escape

from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.process import verbose
from topoopt.core.regional_circuits import SwitchedSteps
from topoopt.files.atomic import require_new, sole_target
from topoopt.formats.table import Export
from topoopt.kinds import kind_named
from topoopt.page import options
from topoopt.page.output import Output, say
from topoopt.page.render import TerminalTable
from topoopt.page.text import counted
from topoopt.verify.regional_circuits import check_switched_steps

if TYPE_CHECKING:
    from topoopt.core.cluster import HostSetting
    from topoopt.core.topology import Topology
    from topoopt.formats.table import Exporter


def _named(hosts: Path | None) -> tuple[HostSetting, ...]:
    from topoopt.formats.hosts import read_hosts

    return () if hosts is None else read_hosts(hosts)


def _list(output: Output) -> int:
    """The targets and what they cannot express; the formulations whose models are written, and their options."""
    from formulations.table import FORMULATIONS
    from topoopt.formats.table import EXPORTERS

    def brief(console: Console) -> None:
        for name, exporter in EXPORTERS.items():
            text = f"{name:20} of {', '.join(exporter.kinds)}"
            console.print(text, markup=False, highlight=False, no_wrap=True, overflow="ellipsis")
        console.print(f"lp, mps take an instance; --set formulation names its model: {', '.join(FORMULATIONS)}")
        console.print("`topoopt export --list --verbose` says what a target writes and what it cannot express.")

    def show(console: Console) -> None:
        if not verbose():
            brief(console)
            return
        for name, exporter in EXPORTERS.items():
            table = TerminalTable(title=name, show_header=False)
            rows = (
                ("takes", ", ".join(exporter.kinds)),
                ("writes", exporter.makes),
                *(("limit", text) for text in exporter.limits),
            )
            for key, text in rows:
                table.add_row(key, escape(text))
            console.print(table)
        table = TerminalTable("formulation", "kinds", "decides", "options", title="lp, mps")
        for name, line in FORMULATIONS.items():
            texts = "\n".join(f"{key}={option.default:g}: {option.summary}" for key, option in line.options.items())
            table.add_row(name, ", ".join(line.kinds), line.summary, texts)
        console.print(table)

    targets = {
        name: {
            "kinds": list(exporter.kinds),
            "makes": exporter.makes,
            "limits": list(exporter.limits),
            "folder": exporter.folder,
        }
        for name, exporter in EXPORTERS.items()
    }
    formulations = {
        name: {
            "summary": line.summary,
            "kinds": list(line.kinds),
            "options": {
                key: {"summary": option.summary, "default": option.default} for key, option in line.options.items()
            },
        }
        for name, line in FORMULATIONS.items()
    }
    output.result({"targets": targets, "formulations": formulations}, show)
    return 0


def _write(folder: bool, export: Export, out: Path, force: bool) -> list[str]:
    """Files that were written; nothing is replaced without `force`."""
    from topoopt.files.atomic import WriteError, write_bytes_atomically, write_folder_atomically

    if folder:
        write_folder_atomically(out, dict(export.files), replace=force)
        return [str(out / name) for name, _ in export.files]
    if out.exists() and not force:
        raise WriteError(f"{out}: exists already; --force replaces it")
    ((_, data),) = export.files
    write_bytes_atomically(out, data)
    return [str(out)]


MODELS: dict[str, Literal["lp", "mps"]] = {"lp": "lp", "mps": "mps"}
"""Targets that take an instance: its model, variables and constraints named."""


def _targets() -> list[str]:
    from topoopt.formats.table import EXPORTERS

    return [*EXPORTERS, *MODELS]


def _exporter_for(solution: Path, to: str) -> tuple[str, Exporter]:
    """The kind of a solution, and the target for it.

    Raises:
        InputError: no such target, or one that does not take the kind.
    """
    from topoopt.files.results import solution_kind
    from topoopt.formats.table import EXPORTERS

    kind = solution_kind(solution, sorted({kind for exporter in EXPORTERS.values() for kind in exporter.kinds}))
    if kind not in EXPORTERS[to].kinds:
        able = ", ".join(name for name, exporter in EXPORTERS.items() if kind in exporter.kinds)
        message = f"{to} does not take solutions of kind {kind}"
        raise InputError([Problem(message, str(solution), None, "--to", to, able)])
    return kind, EXPORTERS[to]


Rate = Annotated[float, Gt(0), Lt(float("inf"))]
SETTINGS = {
    "link_gbps": Rate,
    "hop_latency_us": Annotated[float, Ge(0), Le(1e6)],
    "ring_queues": Annotated[int, Ge(1), Le(2)],
    "hosts": Path,
    "strict": bool,
    "previous": Path,
    "fused": bool,
    "ranks": str,
    "pod_gpus": Annotated[int, Ge(1)],
    "pod_ports": Annotated[int, Ge(1), Le(4096)],
    "circuit_gbps": Rate,
    "gpus_per_server": Annotated[int, Ge(1), Le(1024)],
    "channels": Annotated[int, Ge(1), Le(64)],
}


def export(
    solution_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="SOLUTION|INSTANCE",
            help="solution.json; for lp and mps an instance; for tuner tables measurements (.csv) as well.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--to", help="Target; --list names them.", autocompletion=options.complete_from(_targets)),
    ] = None,
    fabric: options.Fabric = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="What is built: cables or LLDP neighbours (.csv), or cross-connects (.json)."),
    ] = None,
    settings: options.Settings = None,
    listed: options.Listed = False,
    output_files: options.OutputOption = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write a solution for another tool, with notes of what that tool cannot express, or the model of an instance.

    --output is the folder to make, or the file, as the target has it; default: beside SOLUTION. A folder is replaced
    only where files of the same sorts stand in it, and nothing else.

    Settings: `link_gbps`, the rate of a link where the solution has none; `hop_latency_us` of a link; `ring_queues`
    per dimension of ASTRA-sim, a ring runs one way with 1 (default), both with 2; `hosts`, names, interfaces and
    addresses of real hosts (YAML or JSON); `strict`, shares of bandwidth are also limits; `previous`, an earlier
    solution that is patched now, of which changes alone are written (patch-list); `fused`, steps that receive and send
    on at once (msccl). Of llm-training: `ranks` that get traces, stages (one of each), all, or 0,8-15; `pod_gpus` and
    `pod_ports` of a pod; `circuit_gbps` of a circuit. Of collectives: `gpus_per_server`, ranks of a host (slurm,
    kubernetes, netbox-cables, tuner tables); `channels` of the lines of tuner tables.

    Targets lp and mps, default file INSTANCE-FORMULATION.lp: `formulation` by name, and its own options, numbers.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.formats.table import ExportOptions

        if listed:
            return _list(output)
        file, to = _given(solution_file, target)
        if to in MODELS:
            return _write_model(output, file, MODELS[to], options.settings_of(settings), output_files, force)
        given = options.typed_settings(options.settings_of(settings, SETTINGS), SETTINGS)
        _refuse_against(to, against)
        table = _table_exporter(file, to)
        if table is not None:
            made = table.of_table(file, ExportOptions(**given))  # type: ignore[misc]
            return _finish(output, to, "measurements", table.folder, made, file, output_files, force)
        kind, exporter = _exporter_for(file, to)
        result = kind_named(kind).files.solutions.read(file)
        hosts, previous = given.pop("hosts", None), given.pop("previous", None)
        pods = {key: given.pop(key, None) for key in ("pod_gpus", "pod_ports", "circuit_gbps")}
        made = exporter.build(
            result,
            ExportOptions(
                hosts=_named(hosts),
                previous=None if previous is None else previous_topology(previous, fabric),
                fabric=fabric,
                against=against,
                **given,
                **circuits_of(to, result, file, fabric),
                **from_instance(to, exporter.for_instances, result, file, fabric, **pods),
            ),
        )
        check_choices(made, result)
        return _finish(output, to, kind, exporter.folder, made, file, output_files, force)

    output.run(command)


def _given(file: Path | None, to: str | None) -> tuple[Path, str]:
    """The file and the target.

    Raises:
        InputError: either is missing, or there is no such target.
    """
    from topoopt.files.issues import nearest_text, value_text

    problems = [
        Problem("missing", path=name, allowed="--list needs none")
        for name, value in (("SOLUTION|INSTANCE", file), ("--to", to))
        if value is None
    ]
    if to is not None and to not in _targets():
        allowed = nearest_text(to, tuple(_targets()))
        problems.append(Problem("no such target", None, None, "--to", value_text(to), allowed))
    if problems or file is None or to is None:
        raise InputError(problems)
    return file, to


def _refuse_against(to: str, against: Path | None) -> None:
    """Raise InputError where a target compares nothing with what is built."""
    from topoopt.formats.table import EXPORTERS

    if against is not None and not EXPORTERS[to].compares:
        able = ", ".join(name for name, exporter in EXPORTERS.items() if exporter.compares)
        raise InputError([Problem(f"{to} compares nothing", path="--against", value=str(against), allowed=able)])


def _table_exporter(file: Path, to: str) -> Exporter | None:
    """The exporter that takes a table of measurements; None where the file is a solution."""
    from topoopt.formats.table import EXPORTERS

    takes = file.suffix.lower() == ".csv" and EXPORTERS[to].of_table is not None
    return EXPORTERS[to] if takes else None


def _finish(
    output: Output,
    to: str,
    kind: str,
    folder: bool,
    made: Export,
    file: Path,
    output_files: list[Path] | None,
    force: bool,
) -> int:
    """Write the files of an export, and say so."""
    target = sole_target(output_files, file.with_name(to if folder else made.files[0][0]))
    files = _write(folder, made, target, force)

    def show(console: Console) -> None:
        say(console, f"written: {target} ({counted(len(files), 'file')})", notes=made.notes)

    document = {"target": to, "kind": kind, "out": str(target), "files": files, "notes": list(made.notes)}
    output.result({**document, **made.figures}, show)
    return 0


def _write_model(
    output: Output,
    instance: Path,
    form: Literal["lp", "mps"],
    settings: dict[str, str],
    files: list[Path] | None,
    force: bool,
) -> int:
    """Write the model of an instance in LP or MPS format."""
    from formulations.programs import model_text
    from formulations.table import build_named
    from topoopt.files.atomic import write_text_atomically
    from topoopt.kinds.files import read_instance

    formulation = settings.pop("formulation", None)
    if formulation is None:
        raise InputError([Problem("missing", path="--set formulation", allowed="--list names them")])
    numbers = dict.fromkeys(settings, Annotated[float, Gt(-float("inf")), Lt(float("inf"))])
    out = require_new(sole_target(files, Path(f"{instance.stem}-{formulation}.{form}")), force)
    problem = read_instance(instance)
    program = build_named(formulation, problem, options.typed_settings(settings, numbers))
    write_text_atomically(out, model_text(program, form, title=f"{problem.name}: {formulation}"))
    document = {
        "model": str(out),
        "format": form,
        "formulation": formulation,
        "kind": problem.kind,
        "name": problem.name,
        "instance_sha256": problem.sha256,
        "columns": program.columns,
        "integer_columns": int(program.is_integer.sum()),
        "rows": program.rows,
        "nonzeros": program.nonzeros,
    }

    def show(console: Console) -> None:
        text = f"{program.columns} columns ({document['integer_columns']} integer), {program.rows} rows"
        console.print(f"{formulation}: {text}, {program.nonzeros} coefficients", markup=False, highlight=False)
        say(console, written=[out])

    output.result(document, show)
    return 0


LINKED = ("graphml", "netbox-cables", "patch-list", "sonic-ocs")
"""Targets that write the circuits of a language model."""


def from_instance(
    to: str,
    kinds_of_instance: tuple[str, ...],
    solution: Any,
    file: Path,
    fabric: str | None,
    pod_gpus: int | None,
    pod_ports: int | None,
    circuit_gbps: float | None,
) -> dict[str, Any]:
    """What an exporter is told of the instance beside the solution: fields of `ExportOptions`.

    Args:
        kinds_of_instance: kinds whose instance the target is told of.
        file: of the solution.
        fabric: of a language model, whose plan; None: that of the solution's own plan.
        pod_gpus, pod_ports, circuit_gbps: of a pod of a language model, and of a circuit.

    Raises:
        InputError: the instance in the solution is not the one that was solved, or its groups do not fit into pods.
    """
    if to == "patch-list" or solution.kind not in kinds_of_instance or solution.instance is None:
        return {}
    problem = _solved(solution, file)
    if to == "dag":
        from topoopt.library.training_exports import graph_of_job
        from topoopt.simulate.llm_training.ranks import PodSetting

        pods = None if pod_gpus is None else PodSetting(pod_gpus, pod_ports, circuit_gbps)
        return {"job_graph": graph_of_job(problem, solution, pods, fabric)}
    if solution.kind == "llm-training":
        from topoopt.library.training_exports import training_program

        return {"program": training_program(problem, solution, fabric)}
    if solution.kind == "co-optimisation":
        from topoopt.simulate.network import build_task_graph

        return {"task_graph": build_task_graph(problem.cluster, problem.workload, solution.plan.strategy)}
    return {}


def _solved(solution: Any, file: Path) -> Any:
    """The instance that stands in the file of a solution.

    Raises:
        InputError: there is none, it cannot be read, or is not the one that was solved.
    """
    from topoopt.kinds.files import embedded_problem

    problem = embedded_problem(solution, file)
    if problem.sha256 != solution.instance_sha256:
        message, own = "not the instance that was solved", solution.instance_sha256
        raise InputError([Problem(message, str(file), None, "instance", problem.sha256, own)])
    return problem


def circuits_of(to: str, solution: Any, file: Path, fabric: str | None) -> dict[str, Any]:
    """The circuits of a language model's plan, of rails over a step, of pods or of servers: fields of `ExportOptions`.

    Args:
        file: of the solution.

    Raises:
        InputError: no links join its servers to each other, or no instance says what a step on rails does.
    """
    if solution.kind != "llm-training" or to not in LINKED:
        return {}
    from topoopt.library.training_exports import circuits_of_rails, pods_of_plan, rails_of_plan

    plan = pods_of_plan(solution, fabric)
    if plan is not None and to == "patch-list":
        return {"pods": plan}
    if to == "graphml" or not rails_of_plan(solution, fabric):
        return {"topology": links_of(solution, fabric)}
    return {"timetable": circuits_of_rails(_solved(solution, file), solution, fabric)}


def links_of(solution: Any, fabric: str | None) -> Topology:
    """The links of a solution.

    Args:
        fabric: of a language model, whose plan; None: that of the solution's own plan.

    Raises:
        InputError: no links join its servers to each other.
    """
    from topoopt.formats.table import topology_of
    from topoopt.library.training_exports import training_topology

    if solution.kind == "llm-training":
        return training_topology(solution, fabric)
    return topology_of(solution)


def previous_topology(file: Path, fabric: str | None) -> Topology:
    """The topology of an earlier solution.

    Args:
        fabric: of a language model, as for the solution that is written.

    Raises:
        InputError: not a solution with a topology.
    """
    from topoopt.files.results import solution_kind

    kind = solution_kind(file, ["co-optimisation", "llm-training", "routing", "topology"])
    return links_of(kind_named(kind).files.solutions.read(file), fabric)


def check_choices(export: Export, solution: Any) -> None:
    """Whether the ports of circuits that change from step to step fit the solution.

    Raises:
        CheckError: they do not.
    """
    if isinstance(export.content, SwitchedSteps) and (wrong := check_switched_steps(solution, export.content)):
        raise CheckError("the checker rejects circuits of the steps:\n" + "\n".join(map(str, wrong)))
