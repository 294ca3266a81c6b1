"""The options that several commands have: one type, one unit and one text for each name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.core.errors import InputError, Problem

MAX_SEED = 2**63 - 1


def complete_from(words: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """A completion of the shell: the words that begin with what is typed so far."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words() if word.startswith(incomplete)]

    return complete


Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, all else on standard error.")
]
Output = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="File or folder to write; where there are several sorts, the ending says which. May be repeated.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Listed = Annotated[bool, typer.Option("--list", help="List what can be named here.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, or several parted by commas. May be repeated."),
]
TimeLimit = Annotated[
    float | None, typer.Option(min=0.0, help="Seconds of a run from its start; what is there by then is kept.")
]
MemoryLimit = Annotated[
    str | None, typer.Option(help="Resident memory of a run and its solvers together, such as 4GiB or 500MB.")
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, max=MAX_SEED, help="Seed of everything random; default: of the instance, or 0."),
]
Budget = Annotated[
    int | None, typer.Option(min=0, max=10**12, help="Proposals of the search in all; results are reproducible then.")
]
Method = Annotated[str | None, typer.Option(help="Name of a method: `topoopt describe INSTANCE` lists them.")]
Jobs = Annotated[
    int | None, typer.Option(min=1, max=4096, help="Parts or runs at the same time; results stay the same.")
]
Executor = Annotated[
    str | None,
    typer.Option(
        help="Who does the parts or runs: local, slurm, dask, or MODULE:CALLABLE for a concurrent.futures.Executor."
    ),
]
ExecutorSettings = Annotated[
    list[str] | None, typer.Option("--executor-option", help="KEY=VALUE for the executor. May be repeated.")
]
Prices = Annotated[Path | None, typer.Option(help="Price book (YAML or JSON); 2023 (default) and h200 are shipped.")]
Fabrics = Annotated[str | None, typer.Option(help="Networks or schemes by name, parted by commas.")]
Fabric = Annotated[str | None, typer.Option(help="Of llm-training: the plan on this fabric.")]
Delays = Annotated[
    str | None,
    typer.Option(
        help="Durations to set circuits, parted by commas, or devices: tunable-lasers, silicon-photonics, rotornet, "
        "2d-mems, 3d-mems, patch-panel."
    ),
]
Servers = Annotated[int | None, typer.Option(min=1, max=10_000_000, help="Number of servers n.")]
Degree = Annotated[int | None, typer.Option(min=1, max=64, help="Interfaces per server d.")]
Links = Annotated[str, typer.Option(help="bidirectional or unidirectional.")]
LinkGbps = Annotated[float | None, typer.Option(min=1e-6, max=1e6, help="Rate of a link or interface, Gbit/s.")]
Bytes = Annotated[
    str | None,
    typer.Option(
        "--bytes",
        help="Size of the whole vector with its unit, like 1MB. A table takes several, parted by commas, and ranges: "
        "1MB:8GB doubles up to the last, 1MB:8GB:4 takes four times the one before.",
    ),
]
Collective = Annotated[str | None, typer.Option(help="Name of a collective, like allreduce or all-to-all.")]


def settings_of(
    words: Sequence[str] | None, allowed: Iterable[str] | None = None, *, option: str = "--set"
) -> dict[str, str]:
    """Settings by their keys, whose words are joined by underscores.

    Parameters
    ----------
    words : of the option.
    allowed : keys; None: any.
    option : its name.

    Raises
    ------
    InputError
        Every word that is no setting, every unknown key, every key that is given twice.
    """
    keys = None if allowed is None else tuple(allowed)
    settings: dict[str, str] = {}
    problems: list[Problem] = []
    for word in (part for text in words or () for part in re.split(r",(?=[\w.-]+=)", text)):
        name, sign, value = word.partition("=")
        key = name.strip().replace("-", "_")
        if not sign or not key or not value.strip():
            problems.append(Problem("not a setting", path=option, value=word, allowed="KEY=VALUE"))
        elif key in settings:
            problems.append(Problem("set twice", path=f"{option} {key}", value=value.strip()))
        elif keys is not None and key not in keys:
            message = ", ".join(keys) or "no settings"
            problems.append(Problem("no such setting", path=option, value=name.strip(), allowed=message))
        settings.setdefault(key, value.strip())
    if problems:
        raise InputError(problems)
    return settings


def typed_settings(settings: Mapping[str, str], types: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as values of the types of their keys.

    Raises
    ------
    InputError
        Every value that its type refuses.
    """
    from pydantic import TypeAdapter, ValidationError

    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, text in settings.items():
        try:
            values[key] = TypeAdapter(types[key]).validate_python(text)
        except ValidationError as error:
            message = error.errors()[0]["msg"]
            problems.append(Problem("wrong value", path=f"--set {key}", value=text, allowed=message))
    if problems:
        raise InputError(problems)
    return values


def size_of(text: str, option: str = "--bytes") -> int:
    """Bytes of a size with its unit.

    Raises
    ------
    InputError
        It is no size, or not of whole bytes.
    """
    from topoopt.core.arrays import SIZES, bytes_of

    size = bytes_of(text)
    if size is None:
        allowed = f"a number and one of {', '.join(filter(None, SIZES))}"
        raise InputError([Problem("not a size", path=option, value=text, allowed=allowed)])
    return size


MOST_SIZES = 64
"""Sizes that a range may have."""


def sizes_of(text: str, option: str = "--bytes") -> tuple[int, ...]:
    """Bytes of sizes and of ranges of sizes, ascending and each once.

    Parameters
    ----------
    text : `1MB`, `1MB,64MB`, `1MB:8GB` (each twice the one before) or `1MB:8GB:4` (four times).

    Raises
    ------
    InputError
        No size, a range that falls or has more than `MOST_SIZES` sizes, a factor that is no whole number above 1.
    """
    sizes: set[int] = set()
    for part in text.split(","):
        ends = part.strip().split(":")
        bounds = [size_of(end, option) for end in ends[:2]]
        factor = int(ends[2]) if len(ends) == 3 and ends[2].isdecimal() else 2 * (len(ends) < 3)
        if len(ends) > 3 or factor < 2 or bounds[0] > bounds[-1] or bounds[-1] > bounds[0] * factor**MOST_SIZES:
            allowed = f"FIRST:LAST or FIRST:LAST:FACTOR, at most {MOST_SIZES} sizes that rise by a whole factor above 1"
            raise InputError([Problem("not a range of sizes", path=option, value=part.strip(), allowed=allowed)])
        size = bounds[0]
        while size < bounds[-1]:
            sizes.add(size)
            size *= factor
        sizes.add(bounds[-1])
    return tuple(sorted(sizes))
