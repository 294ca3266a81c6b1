"""`topoopt topology`: topologies on their own."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from topoopt.analyses.topologies.metrics import metrics
from topoopt.analyses.traffic.command import traffic
from topoopt.console.output import JsonOption, Output

app = typer.Typer(help="Topologies on their own.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Topologies on their own."""


@app.command("totient")
def totient(
    servers: Annotated[int, typer.Option(min=2, max=10_000_000, help="Number of servers n.")],
    degree: Annotated[int, typer.Option(min=1, max=64, help="Interfaces per server d.")],
    links: Annotated[str, typer.Option(help="bidirectional or unidirectional.")] = "bidirectional",
    selection: Annotated[str, typer.Option(help="paper, flexnet or best.")] = "paper",
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Ring distances of TotientPerms, and the diameter they give."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.drawing.format import counted
        from topoopt.library.topologies import totient

        result = totient(servers, degree, links, selection)
        document = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(result).items()}

        def show(console: Console) -> None:
            console.print(
                f"offsets {list(result.offsets)}: diameter {result.diameter} (bound {result.diameter_bound:.3f}), "
                f"mean hops {result.mean_hops:.4f}",
                soft_wrap=True,
            )

        both = links == "bidirectional"
        once = sorted({min(each, servers - each) if both else each for each in result.offsets})
        *some, last = map(str, once)
        rings = f"rings of distances {', '.join(some)} and {last}" if some else f"a ring of distance {last}"
        answer = (
            f"TotientPerms joins {servers:,} servers by {rings}: every server reaches every other in "
            f"at most {counted(result.diameter, 'hop')}, {result.mean_hops:.3g} on average."
        )
        output.result(document, show, answer)
        return 0

    output.run(command)


app.command("metrics")(metrics)
app.command("traffic")(traffic)
