"""Networks of ranks behind switches, in the units of machines that are sold: rates in GB/s each way."""

from __future__ import annotations

import random
from fractions import Fraction

from topoopt.core.rated_network import RatedNetwork


class Builder:
    """Nodes and cables, which lead both ways; parallel ones add up."""

    def __init__(self) -> None:
        self.switch: list[bool] = []
        self.rates: dict[tuple[int, int], int] = {}

    def some(self, count: int, *, rank: bool = False) -> list[int]:
        first = len(self.switch)
        self.switch += [not rank] * count
        return list(range(first, first + count))

    def cable(self, first: int, second: int, rate: int) -> None:
        for arc in ((first, second), (second, first)):
            self.rates[arc] = self.rates.get(arc, 0) + rate

    def cut(self, first: int, second: int) -> None:
        self.rates[first, second] = self.rates[second, first] = 0

    def done(self) -> RatedNetwork:
        links = [(tail, head, Fraction(rate)) for (tail, head), rate in self.rates.items() if rate]
        return RatedNetwork.of_links(self.switch, links)


def two_tier(leaves: int = 8, hosts: int = 8, nics: int = 1, spines: int = 8, up: int = 50) -> RatedNetwork:
    """GPUs with a link of 50 to a leaf of each of `nics` planes; every leaf is joined to all spines of its plane."""
    b = Builder()
    gpus = b.some(leaves * hosts, rank=True)
    for _ in range(nics):
        own, top = b.some(leaves), b.some(spines)
        for index, gpu in enumerate(gpus):
            b.cable(gpu, own[index // hosts], 50)
        for leaf in own:
            for spine in top:
                b.cable(leaf, spine, up)
    return b.done()


def unequal_planes(seed: int = 1) -> RatedNetwork:
    """64 GPUs with four links of rates drawn at random to leaves, of which every second plane's are drawn too."""
    b, draw = Builder(), random.Random(seed)
    gpus = b.some(64, rank=True)
    for plane in range(4):
        own, top = b.some(8), b.some(8)
        for index, gpu in enumerate(gpus):
            rate = draw.choice([25, 50, 100])
            b.cable(gpu, own[index // 8 if plane % 2 == 0 else draw.randrange(8)], rate)
        for leaf in own:
            for spine in top:
                b.cable(leaf, spine, draw.choice([25, 50]))
    return b.done()


def fat_tree(ranks: int = 512, hosts: int = 32, spines: int = 32, *, failed: bool = False) -> RatedNetwork:
    """Leaves of `hosts` ranks at 50, each joined to all spines at 50."""
    b = Builder()
    gpus, leaves, top = b.some(ranks, rank=True), b.some(ranks // hosts), b.some(spines)
    for index, gpu in enumerate(gpus):
        b.cable(gpu, leaves[index // hosts], 50)
    for leaf in leaves:
        for spine in top:
            b.cable(leaf, spine, 50)
    if failed:
        b.cut(leaves[0], top[0])
    return b.done()


def rails(boxes: int, *, failed: str = "", nvswitches: tuple[int, ...] = (450,)) -> RatedNetwork:
    """Boxes of eight GPUs at NVSwitches, a NIC of 50 a GPU on the leaf of its rail, eight spines above the leaves."""
    b = Builder()
    ranks = b.some(boxes * 8, rank=True)
    for box in range(boxes):
        for rate in nvswitches:
            (switch,) = b.some(1)
            for gpu in range(8):
                b.cable(ranks[box * 8 + gpu], switch, rate)
    leaves = b.some(8)
    for index, rank in enumerate(ranks):
        b.cable(rank, leaves[index % 8], 50)
    top = b.some(8)
    for leaf in leaves:
        for spine in top:
            b.cable(leaf, spine, boxes * 50 // 8)
    if failed == "nic":
        b.cut(ranks[0], leaves[0])
    if failed == "uplink":
        b.cut(leaves[0], top[0])
    return b.done()


def mi300x(boxes: int = 8) -> RatedNetwork:
    """Eight GPUs in a full mesh of 50; a NIC of 50 each on the leaf of its rail."""
    b = Builder()
    ranks = b.some(boxes * 8, rank=True)
    for box in range(boxes):
        for i in range(8):
            for j in range(i):
                b.cable(ranks[box * 8 + i], ranks[box * 8 + j], 50)
    leaves, top = b.some(8), b.some(8)
    for index, rank in enumerate(ranks):
        b.cable(rank, leaves[index % 8], 50)
    for leaf in leaves:
        for spine in top:
            b.cable(leaf, spine, boxes * 50 // 8)
    return b.done()


def even(ranks: int = 64, switches: int = 40, seed: int = 1) -> RatedNetwork:
    """Nothing alike, every rank as tight: two links of 50 each to switches drawn at random, a random graph above."""
    b, draw = Builder(), random.Random(seed)
    nodes, tops = b.some(ranks, rank=True), b.some(switches)
    for index in range(switches):
        b.cable(tops[index], tops[(index + 1) % switches], 200)
    for _ in range(2 * switches):
        b.cable(*draw.sample(tops, 2), 200)
    for rank in nodes:
        for top in draw.sample(tops, 2):
            b.cable(rank, top, 50)
    return b.done()


def with_failures(network: RatedNetwork, count: int, seed: int = 1) -> RatedNetwork:
    """Some cables are gone, drawn at random; every node keeps one."""
    draw, b = random.Random(seed), Builder()
    b.switch = network.is_switch.tolist()
    b.rates = dict(zip(map(tuple, network.arcs.tolist()), map(int, network.gbytes_per_s), strict=True))
    degree = [0] * network.nodes
    for tail, _ in b.rates:
        degree[tail] += 1
    for first, second in draw.sample(sorted(arc for arc in b.rates if arc[0] < arc[1]), count):
        if min(degree[first], degree[second]) > 1:
            b.cut(first, second)
            degree[first] -= 1
            degree[second] -= 1
    return b.done()
