"""`topoopt export`: solutions in the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from topoopt.cli.completions import complete_target
from topoopt.cli.examples import ForceOption
from topoopt.cli.export_inputs import circuits_of, from_instance, previous_topology
from topoopt.console.output import JsonOption, Output
from topoopt.console.tables import TerminalTable
from topoopt.core.errors import InputError, Problem
from topoopt.drawing.format import counted
from topoopt.formats.importer import QueuesOption, require_positive
from topoopt.kinds import kind_named

if TYPE_CHECKING:
    from topoopt.core.cluster import HostSetting
    from topoopt.formats.exporter import Export, Exporter


def _named(hosts: Path | None) -> tuple[HostSetting, ...]:
    from topoopt.formats.hosts import read_hosts

    return () if hosts is None else read_hosts(hosts)


def _list(output: Output) -> int:
    from topoopt.formats.table import EXPORTERS

    def show(console: Console) -> None:
        for name, one in EXPORTERS.items():
            table = TerminalTable(title=name, show_header=False)
            rows = (("takes", ", ".join(one.kinds)), ("writes", one.makes), *(("limit", text) for text in one.limits))
            for key, text in rows:
                table.add_row(key, escape(text))
            console.print(table)

    targets = {
        name: {"kinds": list(one.kinds), "makes": one.makes, "limits": list(one.limits), "folder": one.folder}
        for name, one in EXPORTERS.items()
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
    from topoopt.files.faults import nearest_text, value_text
    from topoopt.files.results import solution_kind
    from topoopt.formats.table import EXPORTERS

    given = {"SOLUTION": solution, "--to": to}
    missing = [Problem("missing", path=key) for key, value in given.items() if value is None]
    if to is not None and to not in EXPORTERS:
        missing.append(Problem("no such target", None, None, "--to", value_text(to), nearest_text(to, EXPORTERS)))
    if solution is None or to is None or missing:
        raise InputError(missing)
    kind = solution_kind(solution, sorted({kind for one in EXPORTERS.values() for kind in one.kinds}))
    if kind not in EXPORTERS[to].kinds:
        able = ", ".join(name for name, one in EXPORTERS.items() if kind in one.kinds)
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
        from topoopt.library.exports import check_choices

        require_positive("--link-gbps", link_gbps)
        require_positive("--circuit-gbps", circuit_gbps)
        if hop_latency_us:
            require_positive("--hop-latency-us", hop_latency_us)
        solved, kind, exporter = _chosen(solution, to)
        found = kind_named(kind).files.solutions.read(solved)
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
            **circuits_of(str(to), found, solved, instance, fabric),
            **from_instance(str(to), exporter.told, instance, found, solved, fabric, pod_gpus, pod_ports, circuit_gbps),
        )
        made = exporter.build(found, options)
        check_choices(made, found)
        place = out or solved.with_name(str(to) if exporter.folder else made.files[0][0])  # beside the solution
        files = _write(exporter.folder, made, place, force)

        def show(console: Console) -> None:
            written = f"written: {place} ({counted(len(files), 'file')})"
            for line in (written, *(f"note: {note}" for note in made.notes)):
                console.print(line, soft_wrap=True, highlight=False, markup=False)

        output.result({"target": to, "kind": kind, "out": str(place), "files": files, "notes": list(made.notes)}, show)
        return 0

    output.run(command)
