"""Measured operator profiles of the FlexNet search as instances."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import Workload
from topoopt.files.job_document import read_profile
from topoopt.formats.flexnet.sizes import infer_sizes, missing_counts
from topoopt.formats.importer import (
    DegreeOption,
    Imported,
    Importer,
    LinkOption,
    LinksOption,
    NameOption,
    imported_job,
    name_of,
    require_positive,
)
from topoopt.workloads.models import ElementSizes, build_workload
from topoopt.workloads.profile_costs import Profile, ProfileCosts


def workload_from_profile(
    model: str,
    profile: Profile,
    *,
    gpus_per_server: int = 4,
    sizes: Mapping[str, int] | None = None,
    element_sizes: ElementSizes = "actual",
) -> Workload:
    """The model a profile was measured for, with the measured splits.

    Args:
        model: key of `topoopt.workloads.models.MODELS`.
        profile: measured times.
        gpus_per_server: g; the profile does not state it (4 in all of the artifact).
        sizes: sizes that are not in the profile or that shall override what is inferred from it.
        element_sizes: bytes per activation element on the network.

    Raises:
        InputError: layer counts that neither the profile nor `sizes` gives, operators the profile lacks.
    """
    found = {**infer_sizes(model, profile, gpus_per_server=gpus_per_server), **(sizes or {})}
    missing = missing_counts(model, found)
    if missing:
        raise InputError(
            [
                Problem(
                    f"a profile for {profile.servers} servers does not tell this count; state it",
                    file=profile.source or None,
                    path=f"sizes.{name}",
                )
                for name in missing
            ]
        )
    return build_workload(
        model,
        found,
        servers=profile.servers,
        gpus_per_server=gpus_per_server,
        costs=ProfileCosts(profile),
        element_sizes=element_sizes,
    )


def _sizes(texts: Sequence[str]) -> dict[str, int]:
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


def import_profile(
    file: Annotated[Path, typer.Argument(help="Measured operator profile (JSON) of the FlexNet search.")],
    model: Annotated[str, typer.Option(help="dlrm, candle, bert, vgg, resnet or ncf.")],
    size: Annotated[list[str] | None, typer.Option(help="Size of the model, NAME=VALUE; repeatable.")] = None,
    degree: DegreeOption = 4,
    link_gbps: LinkOption = 100.0,
    links: LinksOption = "bidirectional",
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
    name: NameOption = None,
) -> Imported:
    """A model with measured operator times; sizes the profile tells are taken from it."""
    if reference:
        element_sizes, local_allreduce, intra_server_gbps = "flexnet", "flexnet", 200.0
    if element_sizes not in ("actual", "flexnet"):
        raise InputError([Problem("unknown element sizes", value=element_sizes, allowed="actual, flexnet")])
    require_positive("--link-gbps", link_gbps)
    profile = read_profile(file)
    workload = workload_from_profile(
        model,
        profile,
        gpus_per_server=gpus_per_server,
        sizes=_sizes(size or []),
        element_sizes="flexnet" if element_sizes == "flexnet" else "actual",
    )
    cluster = {
        "servers": profile.servers,
        "gpus_per_server": gpus_per_server,
        "degree": degree,
        "link_gbps": link_gbps,
        "links": links,
        "intra_server_gbps": intra_server_gbps,
        "local_allreduce": local_allreduce,
        "gpu_memory_gib": gpu_memory_gib,
    }
    return imported_job(name or name_of(file), cluster, workload)


IMPORTER: Importer = import_profile
