"""`topoopt import`: foreign formats to instance files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.console.output import JsonOption, Output
from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import Workload
from topoopt.formats.astrasim import command as import_astrasim
from topoopt.formats.chakra import command as import_chakra
from topoopt.formats.dnn_partitioning import command as import_placement
from topoopt.formats.libra import command as import_libra

app = typer.Typer(help="Turn files of other tools into instance files.", no_args_is_help=True)

OutOption = Annotated[Path, typer.Option("--out", "-o", help="Instance file to write.")]
DegreeOption = Annotated[int, typer.Option(min=1, max=64, help="Optical interfaces per server.")]
LinkOption = Annotated[float, typer.Option(help="Gbit/s of one interface.")]


@app.callback()
def group() -> None:
    """Turn files of other tools into instance files."""


def _sizes(texts: list[str]) -> dict[str, int]:
    """`name=value` options."""
    sizes: dict[str, int] = {}
    problems = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[0-9]{1,18}", value.strip()):
            allowed = "NAME=WHOLE NUMBER of at most 18 digits"
            problems.append(Problem("not a size", path="--size", value=text[:80], allowed=allowed))
        elif name.strip() in sizes:
            problems.append(Problem("size given twice", path="--size", value=name.strip()))
        else:
            sizes[name.strip()] = int(value)
    if problems:
        raise InputError(problems)
    return sizes


def positive(name: str, value: float | None) -> None:
    """Refuse an option that is no positive finite number; None is not given."""
    if value is not None and not 0 < value < float("inf"):
        raise InputError([Problem("must be a positive finite number", path=name, value=str(value))])


def name_of(file: Path) -> str:
    """Name of an instance after a file, without what names may not hold."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", file.stem).lstrip("._+-")[:100] or "imported"


def workload_instance(name: str, cluster: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """Document of a `co-optimisation` instance."""
    from topoopt.kinds.job.document import workload_document

    return {
        "schema_version": 1,
        "kind": "co-optimisation",
        "name": name,
        "cluster": cluster,
        "workload": workload_document(workload),
    }


def _write(path: Path, name: str, cluster: dict[str, Any], workload: Workload, output: Output) -> int:
    from topoopt.files.instance_file import write_instance

    document = workload_instance(name, cluster, workload)
    write_instance(document, path)
    summary = {
        "instance": str(path),
        "servers": cluster["servers"],
        "operators": len(workload.operators),
        "samples": workload.samples,
        "weight_bytes": workload.weight_bytes,
    }
    output.result(
        summary,
        lambda console: console.print(
            f"written: {path} ({summary['operators']} operators, {summary['servers']} servers, "
            f"batch {summary['samples']}, {workload.weight_bytes / 1e9:.4g} GB of weights)",
            soft_wrap=True,
            highlight=False,
            markup=False,
        ),
    )
    return 0


@app.command("flexnet-profile")
def flexnet_profile(
    file: Annotated[Path, typer.Argument(help="Measured operator profile (JSON) of the FlexNet search.")],
    model: Annotated[str, typer.Option(help="dlrm, candle, bert, vgg, resnet or ncf.")],
    out: OutOption,
    size: Annotated[list[str] | None, typer.Option(help="Size of the model, NAME=VALUE; repeatable.")] = None,
    degree: DegreeOption = 4,
    link_gbps: LinkOption = 100.0,
    links: Annotated[str, typer.Option(help="bidirectional or unidirectional.")] = "bidirectional",
    gpus_per_server: Annotated[int, typer.Option(min=1, max=64, help="GPUs per server.")] = 4,
    gpu_memory_gib: Annotated[float | None, typer.Option(help="Memory of a GPU; default: not checked.")] = None,
    intra_server_gbps: Annotated[float, typer.Option(help="Gbit/s between the GPUs of a server.")] = 2400.0,
    element_sizes: Annotated[str, typer.Option(help="actual, or flexnet (8-byte embedding outputs).")] = "actual",
    local_allreduce: Annotated[str, typer.Option(help="ring, or flexnet (the reference's formula).")] = "ring",
    reference: Annotated[
        bool,
        typer.Option(
            "--reference",
            help="As the reference search counts: --element-sizes flexnet --local-allreduce flexnet "
            "--intra-server-gbps 200.",
        ),
    ] = False,
    name: Annotated[str | None, typer.Option(help="Name of the instance; default: of the file.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """A model with measured operator times; sizes the profile tells are taken from it."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.formats.flexnet.profile import read_profile, workload_from_profile

        element, local, intra = element_sizes, local_allreduce, intra_server_gbps
        if reference:
            element, local, intra = "flexnet", "flexnet", 200.0
        if element not in ("actual", "flexnet"):
            raise InputError([Problem("unknown element sizes", value=element, allowed="actual, flexnet")])
        positive("--link-gbps", link_gbps)
        profile = read_profile(file)
        workload = workload_from_profile(
            model,
            profile,
            gpus_per_server=gpus_per_server,
            sizes=_sizes(size or []),
            element_sizes="flexnet" if element == "flexnet" else "actual",
        )
        cluster = {
            "servers": profile.servers,
            "gpus_per_server": gpus_per_server,
            "degree": degree,
            "link_gbps": link_gbps,
            "links": links,
            "intra_server_gbps": intra,
            "local_allreduce": local,
            "gpu_memory_gib": gpu_memory_gib,
        }
        return _write(out, name or name_of(file), cluster, workload, output)

    output.run(command)


@app.command("flexnet-taskgraph")
def flexnet_taskgraph(
    file: Annotated[Path, typer.Argument(help="Task graph (.fbuf) of the FlexNet search.")],
    out: OutOption,
    degree: DegreeOption = 4,
    link_gbps: LinkOption = 100.0,
    links: Annotated[str, typer.Option(help="bidirectional or unidirectional.")] = "bidirectional",
    name: Annotated[str | None, typer.Option(help="Name of the instance; default: of the file.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """A job whose strategy is already chosen: every operator keeps its split and servers, the network is searched."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.formats.flexnet.read_taskgraph import read_flexnet_taskgraph
        from topoopt.formats.flexnet.workload import local_allreduce_gbps, workload_of_taskgraph

        positive("--link-gbps", link_gbps)
        content = read_flexnet_taskgraph(file)
        workload = workload_of_taskgraph(content)
        local_gbps = local_allreduce_gbps(content.graph)
        inside = {"intra_server_gbps": local_gbps, "local_allreduce": "flexnet"} if local_gbps else {}
        cluster = {
            "servers": content.servers,
            "gpus_per_server": 2 if local_gbps else 1,
            **inside,
            "degree": degree,
            "link_gbps": link_gbps,
            "links": links,
            "gpu_memory_gib": None,
        }
        return _write(out, name or name_of(file), cluster, workload, output)

    output.run(command)


app.command("chakra")(import_chakra.chakra)
app.command("astrasim-network")(import_astrasim.astrasim_network)
app.command("libra")(import_libra.libra)
app.command("dnn-partitioning")(import_placement.dnn_partitioning)
app.command("expert-split")(import_placement.expert_split)
app.command("job")(import_placement.job)
