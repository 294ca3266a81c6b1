"""`topoopt import dnn-partitioning` and `topoopt import job`: placement instances from graphs of others and of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.console.output import JsonOption, Output
from topoopt.core.errors import InputError, Problem
from topoopt.formats.instance_output import NameOption, OutOption, finish, one_of

ObjectiveOption = Annotated[str, typer.Option(help="throughput or latency.")]
SharingOption = Annotated[
    str, typer.Option(help="Objective latency, how transfers of a server share its links: none, fair, fifo or static.")
]

OBJECTIVES = ("throughput", "latency")
SHARING = ("none", "fair", "fifo", "static")


def _finish(document: dict[str, Any], out: Path, output: Output) -> int:
    counts = {
        "operators": len(document["operators"]),
        "tensors": len(document["tensors"]),
        "devices": sum(len(server["devices"]) for server in document["servers"]),
        "servers": len(document["servers"]),
    }
    line = ", ".join(f"{count} {what}" for what, count in counts.items())
    return finish(document, out, output, {"objective": document["objective"], **counts}, line, [])


def dnn_partitioning(
    file: Annotated[Path, typer.Argument(help="Graph (JSON) of msr-fiddle/dnn-partitioning.")],
    objective: ObjectiveOption,
    out: OutOption,
    comm_scale: Annotated[float, typer.Option(help="Factor on all transfer times.")] = 1.0,
    devices: Annotated[int | None, typer.Option(min=1, max=1024, help="Accelerators; default: of the file.")] = None,
    no_cpu: Annotated[bool, typer.Option("--no-cpu", help="Leave the CPU pool of the file out.")] = False,
    sharing: SharingOption = "none",
    name: NameOption = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """An operator graph of Tarnawski et al. (NeurIPS 2020), to be placed."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.formats.dnn_partitioning.read import placement_document
        from topoopt.formats.importers import name_of, positive

        one_of("--objective", objective, OBJECTIVES)
        one_of("--sharing", sharing, SHARING)
        positive("--comm-scale", comm_scale)
        document = placement_document(
            file,
            objective=objective,
            name=name or name_of(file),
            comm_scale=comm_scale,
            devices=devices,
            cpu=not no_cpu,
            sharing=sharing,
        )
        return _finish(document, out, output)

    output.run(command)


def job(
    file: Annotated[Path, typer.Argument(help="Instance of kind co-optimisation.")],
    objective: ObjectiveOption,
    out: OutOption,
    inference: Annotated[bool, typer.Option("--inference", help="Forward operators only.")] = False,
    name: NameOption = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """The job of a co-optimisation instance, every operator whole on one server of its cluster, to be placed."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.files.instance_file import read_instance
        from topoopt.formats.importers import name_of
        from topoopt.kinds.placement.job import job_document

        one_of("--objective", objective, OBJECTIVES)
        problem: Any = read_instance(file)
        if problem.kind != "co-optimisation":
            allowed = "co-optimisation"
            raise InputError([Problem("no job in this kind", file=str(file), value=problem.kind, allowed=allowed)])
        return _finish(
            job_document(problem, objective=objective, name=name or name_of(file), training=not inference), out, output
        )

    output.run(command)


def expert_split(
    instance: Annotated[Path, typer.Argument(help="Instance of kind placement, from `import dnn-partitioning`.")],
    file: Annotated[Path, typer.Argument(help="Split (JSON) of msr-fiddle/dnn-partitioning, by a human expert.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Solution file to write.")],
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """A split made by hand, evaluated and checked: a solution file; exit code 6 if it breaks a rule."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.files.instance_file import read_instance
        from topoopt.formats.dnn_partitioning.read import read_expert_split
        from topoopt.kinds.kind import exit_code
        from topoopt.kinds.placement.given import evaluate_given
        from topoopt.kinds.placement.solution_file import SOLUTION_FILE

        problem: Any = read_instance(instance)
        if problem.kind != "placement":
            raise InputError([Problem("no placement", file=str(instance), value=problem.kind, allowed="placement")])
        solution = evaluate_given(problem, read_expert_split(file), "expert-split")
        SOLUTION_FILE.write(solution, out)
        summary = {
            "solution": str(out),
            "max_load_ms": solution.objective.value,
            "check": {"ok": solution.check.ok, "violations": list(solution.check.violations)},
        }
        text = f"written: {out} (max load {solution.objective.value:.6f} ms)"
        output.result(summary, lambda console: console.print(text, soft_wrap=True, highlight=False, markup=False))
        return exit_code(output, solution.check, solution.stopped_by)

    output.run(command)
