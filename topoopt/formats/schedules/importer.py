"""Schedules in files of other tools as instances: the same collective over the links that they use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.core.collective import ChunkProgram, CollectiveOp
from topoopt.files.issues import value_text
from topoopt.files.untrusted import refusal
from topoopt.formats.importer import Imported, Importer, NameOption, name_of, require_positive
from topoopt.formats.schedules import SCHEDULES, ScheduleOptions, collective_named

FileArgument = Annotated[Path, typer.Argument(help="File of the schedule; a folder or prefix of .et files.")]
RateOption = Annotated[float, typer.Option(help="Gbit/s of every link, which the file does not say.")]
BytesOption = Annotated[int, typer.Option("--bytes", min=1, help="The whole vector, which the file does not say.")]
CollectiveOption = Annotated[str | None, typer.Option(help="Where the file does not say.")]
RootOption = Annotated[int, typer.Option(min=0, help="Rank of a broadcast or reduction.")]


def collective_document(
    name: str, topology: dict[str, Any], collective: CollectiveOp, vector_bytes: int, **more: Any
) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kind": "collective",
        "name": name,
        "topology": topology,
        "collective": collective.value,
        "bytes": vector_bytes,
        **more,
    }


def _importer(reader: str, what: str) -> Importer:
    def run(
        file: FileArgument,
        link_gbps: RateOption = 8.0,
        vector_bytes: BytesOption = 1 << 30,
        collective: CollectiveOption = None,
        root: RootOption = 0,
        name: NameOption = None,
    ) -> Imported:
        require_positive("--link-gbps", link_gbps)
        wanted = None if collective is None else collective_named(collective)
        if collective is not None and wanted is None:
            raise refusal("no such collective", "--collective", value=value_text(collective))
        program = SCHEDULES[reader](file, ScheduleOptions(wanted, root))
        return _imported(program, name or name_of(file), link_gbps / 8, vector_bytes, root, str(file))

    run.__doc__ = f"{what} as an instance: the same collective over the links that it uses."
    return run


def _imported(
    program: ChunkProgram, name: str, link_gbytes_per_s: float, vector_bytes: int, root: int, file: str
) -> Imported:
    pairs = sorted(set(zip(program.messages.tail.tolist(), program.messages.head.tolist(), strict=True)))
    if not pairs:
        raise refusal("a schedule that sends nothing", file)
    ranks = len(program.ranks)
    topology = {"links": [[*pair, link_gbytes_per_s] for pair in pairs], "nodes": ranks}
    single = program.collective in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE)
    more = {"root": root} if single else {}
    size = int(program.declared.vector_bytes or vector_bytes)
    document = collective_document(name, topology, program.collective, size, **more)
    notes = ["the file states no network: every pair of ranks that it uses is a link", *program.notes]
    if program.defects:
        notes.append(f"the schedule is wrong ({program.defects[0].message}): see collective audit")
    figures = {"collective": program.collective.value, "ranks": ranks, "links": len(pairs)}
    line = f"{program.collective.value} of {ranks} ranks over {len(pairs)} links"
    return Imported(document, line, figures, tuple(notes))


MSCCL: Importer = _importer("msccl", "An MSCCL algorithm (XML)")
MSCCLPP: Importer = _importer("mscclpp", "An MSCCL++ execution plan (JSON)")
ASTRASIM: Importer = _importer("chakra", "A custom collective of ASTRA-sim (Chakra traces)")
