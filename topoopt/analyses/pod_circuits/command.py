"""`topoopt pod-circuits`: circuits for one iteration of a plan, beside those that matrices of traffic choose."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.console.output import JsonOption, Output

MOST_PORTS, MOST_HOPS = 1 << 20, 4


def pod_circuits(
    instance: Annotated[Path, typer.Argument(help="Instance file, kind llm-training.")],
    pod_gpus: Annotated[int, typer.Option(min=1, max=MOST_PORTS, help="GPUs of a pod, all of one stage.")],
    pod_ports: Annotated[
        int | None, typer.Option(min=1, max=MOST_PORTS, help="Of a pod; default: the interfaces of its GPUs.")
    ] = None,
    circuit_gbps: Annotated[
        float | None, typer.Option(min=1e-6, max=1e9, help="Of a circuit; default: of an interface.")
    ] = None,
    max_hops: Annotated[
        int, typer.Option(min=1, max=MOST_HOPS, help="Circuits one after the other; above 1 pods forward.")
    ] = 1,
    time_limit: Annotated[float, typer.Option(min=0.0, help="Seconds of all searches together.")] = 120.0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Directory for circuits.json, solution.json and report.html; default: none."),
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Circuits for one iteration of a plan, beside those that matrices of traffic choose.

    The instance is solved, one iteration of its plan is written as a graph (`topoopt export --to dag`), and circuits
    are chosen by the graph and by every matrix; then as few as do the job as early as the best matrix. All are checked.
    Exit code 4 if the time limit cut something off.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.pod_circuits.answer import answer, document, table
        from topoopt.console.attended import attended

        with attended(output, time_limit) as run, output.remarks.status("pod-circuits") as status:

            def tell(what: str, done: int, total: int | None) -> None:
                run.doing = what if total is None else f"{what}: {done} of {total}"
                status.update(run.doing)

            problem = run.first(lambda: _training(instance))
            setting = (pod_gpus, pod_ports, circuit_gbps)
            run.doing = "plan"
            found, files = run.patient(lambda: _found(problem, setting, max_hops, run.timing.stop, tell, out))
            solutions = (found.best, found.early, *found.matrices.values())
            check = next((each.check for each in solutions if not each.check.ok), found.best.check)
            head = {"kind": "pod-circuits", "name": problem.name, "pod_gpus": pod_gpus}
            wall = {"wall_s": round(time.monotonic() - run.began.at_s, 3)}
            said = {**head, **document(found), "check": {"ok": check.ok}, **files, **wall}
            output.result(said, lambda console: _show(console, table(found), files), answer(found))
        return output.exit_code(check, found.stopped_by)

    output.run(command)


def _training(instance: Path) -> Any:
    """The problem.

    Raises:
        InputError: of another kind.
    """
    from topoopt.core.errors import InputError, Problem
    from topoopt.kinds.instance_file import read_instance

    problem = read_instance(instance)
    if problem.kind != "llm-training":
        text = "pods are those of a language model in training"
        raise InputError([Problem(text, str(instance), None, "kind", problem.kind, "llm-training")])
    return problem


def _found(
    problem: Any, setting: tuple[int, int | None, float | None], max_hops: int, stop: Any, tell: Any, out: Path | None
) -> tuple[Any, dict[str, str | None]]:
    """The circuits, and the files written."""
    import tempfile

    from topoopt.analyses.pod_circuits.run import pod_circuits as search
    from topoopt.files.atomic import make_directory, write_text_atomically
    from topoopt.kinds import kind_named
    from topoopt.simulate.llm_training.pod_graph import PodSetting

    names = ("graph", "solution", "report")
    if out is None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "circuits.json"
            return search(problem, PodSetting(*setting), max_hops, file, stop, tell), dict.fromkeys(names)
    make_directory(out)
    files = (out / "circuits.json", out / "solution.json", out / "report.html")
    found = search(problem, PodSetting(*setting), max_hops, files[0], stop, tell)
    kind = kind_named(found.best.kind)
    kind.files.solutions.write(found.best, files[1])
    write_text_atomically(files[2], kind.pages().report(found.best))
    return found, dict(zip(names, map(str, files), strict=True))


def _show(console: Any, table: Any, files: dict[str, str | None]) -> None:
    console.print(table)
    for file in files.values():
        if file is not None:
            console.print(f"written: {file}", markup=False, soft_wrap=True, highlight=False)
