"""`topoopt pods`: the strategy of a language model and the circuits between its pods, chosen together."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.console.output import JsonOption, Output

MOST_PORTS, MOST_STRATEGIES = 1 << 20, 1000


def pods(
    instance: Annotated[Path, typer.Argument(help="Instance file, kind llm-training.")],
    pod_gpus: Annotated[int, typer.Option(min=1, max=MOST_PORTS, help="GPUs of a pod, all of one stage.")],
    pod_ports: Annotated[
        int | None, typer.Option(min=1, max=MOST_PORTS, help="Of a pod; default: the interfaces of its GPUs.")
    ] = None,
    circuit_gbps: Annotated[
        float | None, typer.Option(min=1e-6, max=1e9, help="Of a circuit; default: of an interface.")
    ] = None,
    strategies: Annotated[
        int, typer.Option(min=1, max=MOST_STRATEGIES, help="That are tried, of those that are fast on an ideal switch.")
    ] = 16,
    time_limit: Annotated[float, typer.Option(min=0.0, help="Seconds of the search.")] = 60.0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Directory for circuits.json, solution.json and report.html; default: none."),
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """The strategy of a language model and the circuits between its pods, chosen together.

    One iteration of each of the fastest strategies is written as a graph of computation and transfers (`topoopt export
    --to dag`), and circuits are chosen by it. The best one is checked and written as an instance and a solution of kind
    dag-topology. Exit code 4 if the time limit cut something off.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.pods.answer import answer, document, table
        from topoopt.analyses.pods.run import joint_circuits
        from topoopt.console.attended import attended
        from topoopt.kinds.instance_file import read_instance
        from topoopt.simulate.llm_training.pod_graph import PodSetting

        setting = PodSetting(pod_gpus, pod_ports, circuit_gbps)
        with attended(output, time_limit) as run, output.remarks.status("pods") as status:

            def tell(what: str, done: int, total: int | None) -> None:
                run.doing = f"{what}: {done} of {total}"
                status.update(run.doing)

            problem = run.first(lambda: _training(read_instance(instance), instance))
            run.doing = "strategies"
            joint = run.patient(lambda: joint_circuits(problem, setting, strategies, run.timing.stop, tell))
            run.doing = "files"
            solution, files = _written(joint, out)
            head = {
                "kind": "pods",
                "name": problem.name,
                "pod_gpus": pod_gpus,
                "pod_ports": joint.rows[0].graph.ports[0],
            }
            found = {
                **head,
                **document(joint),
                **files,
                "wall_s": round(time.monotonic() - run.began.at_s, 3),
            }
            output.result(found, lambda console: _show(console, table(joint), files), answer(joint))
        return output.exit_code(solution.check, joint.stopped_by)

    output.run(command)


def _training(problem: Any, instance: Path) -> Any:
    """The problem.

    Raises:
        InputError: of another kind.
    """
    from topoopt.core.errors import InputError, Problem

    if problem.kind != "llm-training":
        text = "strategies of language models alone are told pass by pass"
        raise InputError([Problem(text, str(instance), None, "kind", problem.kind, "llm-training")])
    return problem


def _written(joint: Any, out: Path | None) -> tuple[Any, dict[str, str | None]]:
    """The checked solution of the best strategy's circuits, and the files written."""
    import tempfile

    from topoopt.analyses.pods.run import checked_solution
    from topoopt.files.atomic import make_directory, write_text_atomically
    from topoopt.kinds import kind_named

    names = ("circuits", "solution", "report")
    if out is None:
        with tempfile.TemporaryDirectory() as folder:
            return checked_solution(joint, Path(folder) / "circuits.json"), dict.fromkeys(names)
    make_directory(out)
    files = (out / "circuits.json", out / "solution.json", out / "report.html")
    solution = checked_solution(joint, files[0])
    kind = kind_named(solution.kind)
    kind.files.solutions.write(solution, files[1])
    write_text_atomically(files[2], kind.pages().report(solution))
    return solution, dict(zip(names, map(str, files), strict=True))


def _show(console: Any, table: Any, files: dict[str, str | None]) -> None:
    console.print(table)
    for file in files.values():
        if file is not None:
            console.print(f"written: {file}", markup=False, soft_wrap=True, highlight=False)
