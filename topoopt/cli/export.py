"""`topoopt export`: solutions are checked and written in the formats of other tools, with what an exporter needs
beside them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from topoopt.cli.app import complete_target
from topoopt.cli.files import ForceOption
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.regional_circuits import SwitchedSteps
from topoopt.formats.exporter import Export
from topoopt.formats.importer import QueuesOption, require_positive
from topoopt.kinds import kind_named
from topoopt.page.output import JsonOption, Output
from topoopt.page.render import TerminalTable
from topoopt.page.text import counted
from topoopt.verify.regional_circuits import check_switched_steps

if TYPE_CHECKING:
    from topoopt.core.cluster import HostSetting
    from topoopt.core.topology import Topology
    from topoopt.formats.exporter import Exporter


def _named(hosts: Path | None) -> tuple[HostSetting, ...]:
    from topoopt.formats.hosts import read_hosts

    return () if hosts is None else read_hosts(hosts)


def _list(output: Output) -> int:
    from topoopt.formats.table import EXPORTERS

    def show(console: Console) -> None:
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

    targets = {
        name: {
            "kinds": list(exporter.kinds),
            "makes": exporter.makes,
            "limits": list(exporter.limits),
            "folder": exporter.folder,
        }
        for name, exporter in EXPORTERS.items()
    }
    output.result({"targets": targets}, show)
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


def _chosen(solution: Path | None, to: str | None) -> tuple[Path, str, Exporter]:
    """The solution, its kind, and the target for it.

    Raises:
        InputError: one of them missing, no such target, or one that does not take the kind.
    """
    from topoopt.files.issues import nearest_text, value_text
    from topoopt.files.results import solution_kind
    from topoopt.formats.table import EXPORTERS

    given = {"SOLUTION": solution, "--to": to}
    missing = [Problem("missing", path=key) for key, value in given.items() if value is None]
    if to is not None and to not in EXPORTERS:
        missing.append(Problem("no such target", None, None, "--to", value_text(to), nearest_text(to, EXPORTERS)))
    if solution is None or to is None or missing:
        raise InputError(missing)
    kind = solution_kind(solution, sorted({kind for exporter in EXPORTERS.values() for kind in exporter.kinds}))
    if kind not in EXPORTERS[to].kinds:
        able = ", ".join(name for name, exporter in EXPORTERS.items() if kind in exporter.kinds)
        message = f"{to} does not take solutions of kind {kind}"
        raise InputError([Problem(message, str(solution), None, "--to", to, able)])
    return solution, kind, EXPORTERS[to]


def export(
    solution: Annotated[Path | None, typer.Argument(help="solution.json of `topoopt solve`.")] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Target; --list names them.", autocompletion=complete_target)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder to make, or file, as the target has it; default: beside SOLUTION."),
    ] = None,
    force: Annotated[bool, ForceOption] = False,
    listed: Annotated[bool, typer.Option("--list", help="Name the targets and what they cannot express.")] = False,
    link_gbps: Annotated[float | None, typer.Option(help="Rate of a link, where the solution has none.")] = None,
    hop_latency_us: Annotated[float | None, typer.Option(min=0, max=1e6, help="Latency of a link.")] = None,
    ring_queues: QueuesOption = 1,
    hosts: Annotated[
        Path | None, typer.Option("--hosts", help="Names, interfaces and addresses of real hosts (YAML or JSON).")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Shares of bandwidth are also limits.")] = False,
    previous: Annotated[
        Path | None, typer.Option("--previous", help="Earlier solution, patched now: changes only (patch-list).")
    ] = None,
    fused: Annotated[
        bool, typer.Option("--fused", help="Steps that receive and send on at once: rcs, rrs, rrcs (msccl).")
    ] = False,
    instance: Annotated[
        Path | None,
        typer.Option("--instance", help="The solved instance, where the solution carries none (dag, chakra, ...)."),
    ] = None,
    fabric: Annotated[str | None, typer.Option(help="Training: the fabric whose plan is written.")] = None,
    ranks: Annotated[
        str, typer.Option(help="Training: ranks that get traces: stages (one of each), all, or 0,8-15.")
    ] = "stages",
    pod_gpus: Annotated[int | None, typer.Option(min=1, help="Training, dag: GPUs of a pod.")] = None,
    pod_ports: Annotated[int | None, typer.Option(min=1, max=4096, help="Ports of a pod; else its interfaces.")] = None,
    circuit_gbps: Annotated[float | None, typer.Option(help="Rate of a circuit; else of an interface.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Write a solution for another tool, with notes of what that tool cannot express."""
    output = Output.choose(as_json)

    def command() -> int:
        if listed:
            return _list(output)
        from topoopt.formats.exporter import ExportOptions

        require_positive("--link-gbps", link_gbps)
        require_positive("--circuit-gbps", circuit_gbps)
        if hop_latency_us:
            require_positive("--hop-latency-us", hop_latency_us)
        solved, kind, exporter = _chosen(solution, to)
        result = kind_named(kind).files.solutions.read(solved)
        options = ExportOptions(
            link_gbps,
            hop_latency_us,
            ring_queues,
            _named(hosts),
            strict,
            previous=None if previous is None else previous_topology(previous, fabric),
            fused=fused,
            fabric=fabric,
            ranks=ranks,
            **circuits_of(str(to), result, solved, instance, fabric),
            **from_instance(
                str(to), exporter.for_instances, instance, result, solved, fabric, pod_gpus, pod_ports, circuit_gbps
            ),
        )
        made = exporter.build(result, options)
        check_choices(made, result)
        target = out or solved.with_name(str(to) if exporter.folder else made.files[0][0])  # beside the solution
        files = _write(exporter.folder, made, target, force)

        def show(console: Console) -> None:
            written = f"written: {target} ({counted(len(files), 'file')})"
            for line in (written, *(f"note: {note}" for note in made.notes)):
                console.print(line, soft_wrap=True, highlight=False, markup=False)

        output.result({"target": to, "kind": kind, "out": str(target), "files": files, "notes": list(made.notes)}, show)
        return 0

    output.run(command)


LINKED = ("graphml", "patch-list")
"""Targets that write the circuits of a language model."""


def from_instance(
    to: str,
    kinds_of_instance: tuple[str, ...],
    instance: Path | None,
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
        instance: None: for these kinds the one that stands in the solution, if one does.
        file: of the solution.
        fabric: of a language model, whose plan; None: that of the solution's own plan.
        pod_gpus, pod_ports, circuit_gbps: of a pod of a language model, and of a circuit.

    Raises:
        InputError: the instance cannot be read, is not the one that was solved, or its groups do not fit into pods.
    """
    if to == "patch-list" or (
        instance is None and (solution.kind not in kinds_of_instance or solution.instance is None)
    ):
        return {}
    problem = _solved(instance, solution, file)
    if to == "dag":
        from topoopt.library.training_exports import graph_of_job
        from topoopt.simulate.llm_training.ranks import PodSetting

        pods = None if pod_gpus is None else PodSetting(pod_gpus, pod_ports, circuit_gbps)
        return {"job_graph": graph_of_job(problem, solution, pods, fabric)}
    if solution.kind == "llm-training":
        from topoopt.library.training_exports import training_program

        return {"program": training_program(problem, solution, fabric)}
    if solution.kind == "co-optimisation":
        from topoopt.simulate.lower import build_task_graph

        return {"task_graph": build_task_graph(problem.cluster, problem.workload, solution.plan.strategy)}
    return {}


def _solved(instance: Path | None, solution: Any, file: Path) -> Any:
    """The instance of a solution; None: the one that stands in its file.

    Raises:
        InputError: there is none, it cannot be read, or is not the one that was solved.
    """
    from topoopt.kinds.files import embedded_problem, read_instance

    problem = embedded_problem(solution, file) if instance is None else read_instance(instance)
    source, path = (str(file), "instance") if instance is None else (str(instance), "--instance")
    if problem.kind != solution.kind:
        message = "this target needs a job"
        raise InputError([Problem(message, source, None, "kind", problem.kind, solution.kind)])
    if problem.sha256 != solution.instance_sha256:
        message = "not the instance that was solved"
        raise InputError([Problem(message, source, None, path, problem.sha256, solution.instance_sha256)])
    return problem


def circuits_of(to: str, solution: Any, file: Path, instance: Path | None, fabric: str | None) -> dict[str, Any]:
    """The circuits of a language model's plan, of rails over a step, of pods or of servers: fields of `ExportOptions`.

    Args:
        file: of the solution.
        instance: None: the one that stands in the solution.

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
    return {"timetable": circuits_of_rails(_solved(instance, solution, file), solution, fabric)}


def links_of(solution: Any, fabric: str | None) -> Topology:
    """The links of a solution.

    Args:
        fabric: of a language model, whose plan; None: that of the solution's own plan.

    Raises:
        InputError: no links join its servers to each other.
    """
    from topoopt.formats.exporter import topology_of
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
