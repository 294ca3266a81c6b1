"""Servers wired to each other without any switch: a NIC and a transceiver an interface, a fibre a link.

The topology is fixed when the fibres are laid. Counted for all interfaces the topology uses.
"""

from __future__ import annotations

from functools import partial

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


def torus(size: NetworkSize, book: PriceBook, counting: Counting, *, axes: int) -> Count:
    """Two interfaces an axis, more of them for parallel links two at a time; one left over stays dark."""
    if size.degree < 2 * axes:
        why = f"{axes} axes take two interfaces each, there are {size.degree}"
        raise impossible(f"torus-{axes}d", why, f"a degree of at least {2 * axes}")
    if _prime_factors(size.servers) < axes:
        raise impossible(f"torus-{axes}d", f"{size.servers} servers", f"a product of {axes} sides of at least 2")
    unused = (f"one of {size.degree} interfaces is not used",) if size.degree % 2 else ()
    return _wired(size, size.degree // 2 * 2, unused)


torus_2d = partial(torus, axes=2)
torus_3d = partial(torus, axes=3)


def _prime_factors(number: int) -> int:
    """How many there are, repeated ones counted."""
    count, factor = 0, 2
    while factor * factor <= number:
        if number % factor:
            factor += 1
        else:
            number //= factor
            count += 1
    return count + (number > 1)


def hypercube(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """log2 n interfaces, more of them for parallel links."""
    dimensions = size.servers.bit_length() - 1
    if size.servers != 1 << dimensions or dimensions < 1:
        raise impossible("hypercube", f"{size.servers} servers", "a power of two")
    if dimensions > size.degree:
        why = f"{size.servers} servers take {dimensions} interfaces each, there are {size.degree}"
        raise impossible("hypercube", why, f"a degree of at least {dimensions}")
    return _wired(size, size.degree)
