"""A job on other fabrics: what an instance asks for, and the checked search on each (`topoopt fabrics`)."""

from __future__ import annotations

from dataclasses import replace

from solvers.job.baselines import FabricSearch
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.job import CoOptimisation, FabricChoice
from topoopt.core.price_book import PriceBook
from topoopt.core.strategy import strided_groups
from topoopt.core.units import bytes_per_ms
from topoopt.files.documents import parse_document
from topoopt.files.faults import Path, path_text
from topoopt.simulate.fabrics import FABRICS, FabricOptions
from topoopt.simulate.fabrics.chosen import choice_problems, options_of
from topoopt.simulate.network import Network
from topoopt.verify.laws.fabric import check_network

LIST: Path = ("baselines", "fabrics")


def fabric_problems(instance: CoOptimisation) -> list[Problem]:
    """What is wrong with the fabrics an instance names, with lines where it was read from a file."""
    found = choice_problems(instance.baselines.fabrics)
    return [
        replace(
            problem,
            file=instance.source or None,
            line=_line_of(instance.source, (*LIST, *where)),
            path=path_text((*LIST, *where)),
        )
        for where, problem in found
    ]


def _line_of(source: str, path: Path) -> int | None:
    if not source:
        return None
    try:
        return parse_document(source).line(path)
    except InputError:  # the file has changed since
        return None


def fabric_search(instance: CoOptimisation, proposals: int, seed: int, book: PriceBook | None = None) -> FabricSearch:
    """The comparison an instance asks for, every network checked; prices of the book, None: those shipped.

    Raises:
        InputError: an unknown fabric, or a setting it does not have.
    """
    problems = fabric_problems(instance)
    if problems:
        raise InputError(problems)
    chosen = [(each, options_of(each, instance.baselines, seed, book)) for each in instance.baselines.fabrics]

    def inspect(choice: FabricChoice, options: FabricOptions, network: Network) -> None:
        require_lawful(instance.cluster, choice, options, network)

    return FabricSearch(proposals, seed, tuple(chosen), inspect)


def require_lawful(cluster: Cluster, choice: FabricChoice, options: FabricOptions, network: Network) -> None:
    """Hold the network of a fabric against the independent checker.

    Raises:
        CheckError: it breaks a law.
    """
    fabric = FABRICS[choice.fabric]
    direct = fabric.kind == "direct"
    violations = check_network(
        network,
        servers=cluster.servers,
        groups=strided_groups(cluster.servers),
        server_bytes_per_ms=bytes_per_ms(fabric.server_gbps(cluster, options)),
        interface_bytes_per_ms=cluster.link_bytes_per_ms if direct else None,
        both_ways=not direct or cluster.links is LinkDirection.BIDIRECTIONAL,
    )
    if violations:
        raise CheckError("\n".join(f"{choice.name}: {violation}" for violation in violations))
