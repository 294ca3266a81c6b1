"""`topoopt collective audit`: a verdict on a schedule in a file of another tool."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from topoopt.analyses.collective.collection import collection_halted
from topoopt.analyses.collective.early_end import early_end
from topoopt.console.output import EXIT_OF_STOP, JsonOption, Output
from topoopt.core.collective import DeclaredFigures
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.proofs import StopReason
from topoopt.drawing.format import counted

_CLAIM = re.compile(r"([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?) ?(GB/s|MB/s|us|ms|s)")
_SCALE = {"GB/s": 1.0, "MB/s": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}


def claim_figures(text: str | None) -> DeclaredFigures:
    """What `--claim` says: a rate or a time.

    Raises:
        InputError: neither.
    """
    if text is None:
        return DeclaredFigures()
    found = _CLAIM.fullmatch(text.strip())
    value = 0.0 if found is None else float(found[1]) * _SCALE[found[2]]
    if found is None or not 0 < value < 1e15:
        raise InputError([Problem("not a rate or time", path="--claim", value=text, allowed="like 3.5GB/s, 10.75us")])
    if found[2].endswith("/s"):
        return DeclaredFigures(algbw_gbytes_per_s=value)
    return DeclaredFigures(time_us=value)


def size_of(text: str | None) -> float | None:
    """Bytes that `--bytes` says.

    Raises:
        InputError: no size.
    """
    from topoopt.kinds.collective.read import size_bytes

    if text is None:
        return None
    size = size_bytes(text) if re.fullmatch(r"[0-9]{1,20}(\.[0-9]{1,9})? ?(B|[kKMGT]i?B)", text.strip()) else None
    if size is None:
        raise InputError([Problem("not a size", path="--bytes", value=text, allowed="like 1GiB or 16 MB")])
    return float(size)


RateAttributeOption = Annotated[
    str | None,
    typer.Option(help="Attribute or column of links in a network file that is their rate; default: by its name."),
]


def audit(
    schedule: Annotated[Path, typer.Argument(help="File of the schedule; chakra: a folder or prefix of .et files.")],
    form: Annotated[str, typer.Option("--format", help="msccl, mscclpp, teccl, forestcoll, sccl or chakra.")],
    topology: Annotated[str | None, typer.Option(help="As for `bound`; without it semantics alone.")] = None,
    rate_attribute: RateAttributeOption = None,
    collective: Annotated[str | None, typer.Option(help="Where the file does not say, or says something else.")] = None,
    root: Annotated[int, typer.Option(min=0, help="Rank of a broadcast or reduction.")] = 0,
    claim: Annotated[str | None, typer.Option(help="What is claimed: 3.5GB/s, or a time: 10.75us.")] = None,
    vector: Annotated[
        str | None, typer.Option("--bytes", help="The whole vector, where the file does not say.")
    ] = None,
    message_us: Annotated[float, typer.Option(min=0.0, max=1e6, help="Time of a message besides its bytes.")] = 0.0,
    multicast: Annotated[bool, typer.Option("--multicast", help="Switches copy.")] = False,
    relaying: Annotated[bool, typer.Option("--relaying", help="Ranks pass on what is not for them.")] = False,
    time_limit: Annotated[float | None, typer.Option(min=0.0, help="Seconds, for the bound.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Execute a schedule of anyone, and say whether it is right, how fast it is, and how fast any could be."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.collective.audit import Audit
        from topoopt.analyses.collective.audit import audit as examined
        from topoopt.analyses.collective.audit_answer import audit_answer
        from topoopt.analyses.collective.audit_speed import AuditSettings
        from topoopt.analyses.collective.networks import network_argument
        from topoopt.console.attended import attended
        from topoopt.files.faults import nearest_text, value_text
        from topoopt.formats.schedules import NAMES, SCHEDULES, ScheduleOptions, collective_named

        if form not in SCHEDULES:
            raise InputError(
                [Problem("no such format", None, None, "--format", value_text(form), nearest_text(form, SCHEDULES))]
            )
        wanted = None if collective is None else collective_named(collective)
        if collective is not None and wanted is None:
            allowed = ", ".join(one.value for one in NAMES.values())
            raise InputError(
                [Problem("no such collective", None, None, "--collective", value_text(collective), allowed)]
            )
        said = claim_figures(claim)
        stated = DeclaredFigures(size_of(vector), said.time_us, said.algbw_gbytes_per_s)
        notes: list[str] = []
        network = None if topology is None else network_argument(topology, notes.append, rate_attribute)
        settings = AuditSettings(multicast, relaying, message_us, stated, root)
        with attended(output, time_limit) as run, collection_halted():
            run.doing, stop = "audit", run.timing.stop

            def judged() -> Audit:
                program = SCHEDULES[form](schedule, ScheduleOptions(wanted, root))
                if root >= len(program.ranks) or (network is not None and root >= len(network.ranks)):
                    raise InputError([Problem("no such rank", path="--root", value=str(root))])
                return examined(program, network, replace(settings, notes=tuple(notes)), stop)

            found = run.patient(judged)
            reason = stop.reason() or StopReason.CONVERGED

        def show(console: Console) -> None:
            for line in (*lines_of(found.document), *early_end(reason)):
                console.print(line, markup=False, highlight=False, soft_wrap=True)

        head = {"schedule": str(schedule), "format": form, "stopped_by": reason.value}
        output.result({**head, **found.document}, show, audit_answer(found.document))
        return CheckError.exit_code if found.verdict == "invalid" else EXIT_OF_STOP.get(reason, 0)

    output.run(command)


def lines_of(document: object) -> list[str]:
    """The audit for people."""
    assert isinstance(document, dict)
    one, bound, claimed = document["recomputed"], document["bound"], document["claimed"]
    lines = [f"verdict: {document['verdict']}", *(f"- {reason}" for reason in document["reasons"])]
    lines.append(
        f"{document['collective']} of {counted(document['ranks'], 'rank')}, {counted(document['messages'], 'message')}"
        + (f", {document['relayed_messages']} of them passed on" if document["relayed_messages"] else "")
    )
    if claimed["algbw_gbytes_per_s"]:
        time = f" ({claimed['time_us']:.6g} us)" if claimed["time_us"] else ""
        lines.append(f"claimed: {claimed['algbw_gbytes_per_s']:.6g} GB/s{time}")
    if one:
        rate = f"{one['algbw_gbytes_per_s']:.6g} GB/s, " if one["algbw_gbytes_per_s"] is not None else ""
        lines.append(
            f"recomputed: {rate}{one['time_us']:.6g} us, {counted(one['steps'], 'step')}; "
            f"busiest link {one['busiest_link_us']:.6g} us, "
            f"{one['busiest_link_us_with_multicast']:.6g} us if switches copy"
        )
    if bound:
        lines.append(f"no schedule exceeds {bound['algbw_gbytes_per_s']:.6g} GB/s: {bound['cut_in_words']}")
    for link in document["busiest_links"]:
        lines.append(f"link {link['tail']} → {link['head']}: busy {link['busy_us']:.6g} us")
    return [*lines, *(f"note: {note}" for note in document["notes"])]
