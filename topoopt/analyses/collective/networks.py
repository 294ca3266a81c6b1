"""A network as an argument of a command: an instance, a network file, or a section `topology` as text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import Field

from topoopt.core.errors import InputError, Problem
from topoopt.core.rated_network import RatedNetwork
from topoopt.files.documents import Document, parse_yaml
from topoopt.files.fields import FileModel
from topoopt.files.findings import Findings, within
from topoopt.files.rated_sections import FileNetwork, RatedSection, network_of

Note = Callable[[str], None]

NETWORK_FILES = (".graphml", ".csv", ".txt")


class InlineNetwork(FileModel):
    """A section `topology` alone."""

    topology: RatedSection = Field()


def network_argument(text: str, note: Note, rate_attribute: str | None = None) -> RatedNetwork:
    """The network that an argument names.

    Args:
        text: an instance file of kind collective, a GraphML file, a table of links, or a section as in instance files:
            `{preset: dgx-a100, boxes: 2}`, `family: torus, dims: [4, 4]`.
        note: takes what is worth telling of how a file was read.
        rate_attribute: of links in a network file.

    Raises:
        InputError: neither, or everything wrong with it.
    """
    path = Path(text)
    inline = ":" in text and not _is_file(text)
    if not inline and path.suffix.lower() in NETWORK_FILES:
        section = FileNetwork(file=path.name, rate_attribute=rate_attribute)
        return within("topology", lambda: network_of(section, path.parent, note=note))
    if rate_attribute is not None:
        allowed = f"beside a network file ({', '.join(NETWORK_FILES)})"
        raise InputError([Problem("plays no part", path="--rate-attribute", value=rate_attribute, allowed=allowed)])
    if inline:
        return _inline(text, note)
    from topoopt.kinds.files import read_instance

    problem = read_instance(path)
    network = getattr(problem, "network", None)
    if not isinstance(network, RatedNetwork):
        raise InputError([Problem("not an instance of kind collective", file=text)])
    for line in getattr(problem, "notes", ()):
        note(line)
    return network


def _is_file(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # longer than any name, or with characters of none
        return False


def _inline(text: str, note: Note) -> RatedNetwork:
    section = text if text.lstrip().startswith("{") else "{" + text + "}"
    parsed = parse_yaml(f"topology: {section}", 100_000)
    document = Document("TOPOLOGY", parsed.data, parsed.locate, parsed.faults)
    findings = Findings()
    file = findings.shaped(InlineNetwork, document)
    network = findings.attempt(
        lambda: within("topology", lambda: network_of(file.topology, Path(), note=note)), ("topology",)
    )
    findings.refuse(document)
    assert network is not None
    return network
