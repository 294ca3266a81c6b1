"""`topoopt collective job`: schedules for the gradients of a plan, beside its rings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from topoopt.console.output import JsonOption, Output
from topoopt.console.tables import TerminalTable


def job(
    instance: Annotated[Path, typer.Argument(help="Instance of kind co-optimisation.")],
    solution: Annotated[Path, typer.Argument(help="Its solution.json.")],
    time_limit: Annotated[float | None, typer.Option(min=0.0, help="Seconds.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Time of every gradient's AllReduce alone on the topology of a plan: on its rings, and by the best schedule."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.collective.job import answer, job_collectives
        from topoopt.console.attended import attended
        from topoopt.core.errors import InputError, Problem
        from topoopt.core.job import CoOptimisation
        from topoopt.drawing.format import byte_size, server_set
        from topoopt.kinds.files import read_instance, read_solution

        problem = read_instance(instance)
        if not isinstance(problem, CoOptimisation):
            raise InputError([Problem("not an instance of a job", str(instance), None, "kind", problem.kind)])
        plan = read_solution(solution, ["co-optimisation"])
        with attended(output, time_limit) as run:
            run.doing = "schedules"
            found = run.patient(lambda: job_collectives(problem, plan, run.timing.stop))

        def show(console: Console) -> None:
            for group in found.groups:
                table = TerminalTable("gradients", "bytes", "rings", "best", "schedule")
                table.title = f"servers {server_set(group.members, problem.cluster.servers)}"
                for one in group.gradients:
                    how = f"{one.schedule}, {one.steps} steps"
                    row = (str(one.count), byte_size(one.bytes), f"{one.ring_us:.6g} us", f"{one.best_us:.6g} us", how)
                    table.add_row(*row)
                console.print(table)
                totals = f"{group.total_us('ring_us'):.6g} us on rings, {group.total_us('best_us'):.6g} us at best"
                console.print(f"one after the other: {totals}", highlight=False)
            if not found.groups:
                console.print("no gradients over the network")
            if found.left_out:
                console.print(f"{found.left_out} groups left out: too large, or with fewer bytes", highlight=False)

        output.result(found.document(), show, answer(found))
        return 0

    output.run(command)
