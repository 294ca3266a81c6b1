"""Instance files of kind `collective` to domain objects: all checks, then the build."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path as FilePath

from topoopt.core.collective import CollectiveObjective, CollectiveOp, CollectiveProblem
from topoopt.core.rated_network import RatedNetwork
from topoopt.files.canonical import canonical_sha256
from topoopt.files.documents import Document
from topoopt.files.faults import Fault
from topoopt.files.fields import MAX_BYTES
from topoopt.files.findings import Findings, within
from topoopt.files.rated_sections import FileNetwork, network_of
from topoopt.kinds.collective.schema import CollectiveFile

ROOTED = ("broadcast", "reduce")
UNITS = {"B": 1, **{f"{letter}B": 1000 ** (power + 1) for power, letter in enumerate("kMGT")}, "KB": 1000}
UNITS |= {f"{letter}iB": 1024 ** (power + 1) for power, letter in enumerate("KMGT")} | {"kiB": 1024}


def size_bytes(value: int | str) -> int | None:
    """Bytes that a number or a text like `1.5 GiB` stands for; None if they are not whole, or none, or too many."""
    if isinstance(value, str):
        digits = value.rstrip("kKMGTiB ")
        exact = Fraction(digits) * UNITS.get(value[len(digits) :].strip(), 0)
        value = int(exact) if exact.denominator == 1 else 0
    return value if 1 <= value <= MAX_BYTES else None


def read_collective(document: Document) -> CollectiveProblem:
    """Check and build.

    Raises:
        InputError: everything wrong with the file, so far as one fault does not hide another.
    """
    findings = Findings()
    file = findings.shaped(CollectiveFile, document)
    folder = FilePath(document.file).parent
    size = size_bytes(file.bytes)
    if size is None:
        findings.add([Fault(("bytes",), "not a size", str(file.bytes), f"1 to {MAX_BYTES} whole bytes")])
    if file.root and file.collective not in ROOTED:
        findings.add(
            [Fault(("root",), f"plays no part for {file.collective}", str(file.root), "with broadcast, reduce")]
        )
    network = findings.attempt(
        lambda: within("topology", lambda: network_of(file.topology, folder, file.latency_us.link, findings.note)),
        ("topology",),
    )
    if network is not None and file.root >= len(network.ranks):
        findings.add([Fault(("root",), "no such rank", str(file.root), f"0 to {len(network.ranks) - 1}")])
    findings.refuse(document)
    assert network is not None
    assert size is not None
    return CollectiveProblem(
        name=file.name,
        network=network,
        collective=CollectiveOp(file.collective),
        vector_bytes=size,
        root=file.root,
        message_us=file.latency_us.message,
        multicast=file.switches.multicast,
        relaying=file.relaying,
        objective=CollectiveObjective(file.objective),
        trees_per_root=file.limits.trees_per_root,
        steps=file.limits.steps,
        search=file.search.build(),
        sha256=_identity(file, network),
        notes=tuple(findings.notes),
    )


def _identity(file: CollectiveFile, network: RatedNetwork) -> str:
    """Hash of the instance with defaults written out; files count by their content, not by their names."""
    document = file.model_dump(mode="json")
    if isinstance(file.topology, FileNetwork):
        rows = [[*arc, units] for arc, units in zip(network.arcs.tolist(), network.units.tolist(), strict=True)]
        document["topology"] = {
            "links": rows,
            "unit": str(network.unit_gbytes_per_s),
            "switches": network.is_switch.tolist(),
            "names": list(network.names),
        }
        if (network.latency_us != file.latency_us.link).any():  # those of the file
            document["topology"]["latency_us"] = network.latency_us.tolist()
    return canonical_sha256(document)
