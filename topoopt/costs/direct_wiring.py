"""Servers wired to each other without any switch: a NIC and a transceiver an interface, a fibre a link.

The topology is fixed when the fibres are laid. Counted for all interfaces the topology uses.
"""

from __future__ import annotations

from topoopt.core.price_book import PriceBook
from topoopt.costs.rule import Count, Counting, NetworkSize, fibres, impossible, interfaces, together


def _wired(size: NetworkSize, ports: int, notes: tuple[str, ...] = ()) -> Count:
    links = float(size.servers * ports // 2)
    return Count(ports, together(interfaces(size, ports), (fibres(links, "server to server"),)), notes)


def regular_graph(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """Random regular and generalized Kautz graphs: all d interfaces; a fibre pair for two interfaces.

    Where transmit and receive fibre go to different servers, a link is one fibre and counts as half a pair.
    """
    return _wired(size, size.degree)


def torus(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """floor(d/2) dimensions with two interfaces each."""
    dimensions = size.degree // 2
    if dimensions < 1:
        raise impossible("torus", f"degree {size.degree} is too small", "two interfaces for each dimension")
    unused = (f"one of {size.degree} interfaces is not used",) if size.degree % 2 else ()
    return _wired(size, 2 * dimensions, (f"{dimensions} dimensions", *unused))


def hypercube(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """log2 n interfaces."""
    dimensions = size.servers.bit_length() - 1
    if size.servers != 1 << dimensions or dimensions < 1:
        raise impossible("hypercube", f"{size.servers} servers", "a power of two")
    if dimensions > size.degree:
        why = f"{size.servers} servers take {dimensions} interfaces each, there are {size.degree}"
        raise impossible("hypercube", why, f"a degree of at least {dimensions}")
    return _wired(size, dimensions)
