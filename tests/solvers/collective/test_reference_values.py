"""Optima of collectives on known networks, against published and independently computed values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from solvers.collective.best_rates import limiting
from solvers.collective.breadth_first import step_loads
from solvers.collective.limits import all_to_all_rate, allreduce_rate, cut_ratio, ratio_cut
from solvers.collective.trees import fixed_scale, forest, scaled
from solvers.stop import Stop
from tests.support import collective_networks as nets
from topoopt.core.collective import CollectiveOp, CollectiveProblem
from topoopt.core.rated_network import RatedNetwork
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.collective import all_to_all_units, allgather_ratio, bandwidth_us, tree_units

F = Fraction

# Name, network, degree, ratio, loads of breadth-first steps, lambda, X: exact rationals computed by linear programs and
# by hand for regular graphs (AllGather ratio (N-1)/d where arc connectivity is d; X = N / (2 ratio) where balanced).
REGULAR: dict[str, tuple[Callable[[], RatedNetwork], int, Fraction, str, float, float]] = {
    "ring of 8": (lambda: nets.circulant(8, [1]), 2, F(7, 2), "1 1 1 1/2", 1 / 8, 8 / 7),
    "one-way ring of 8": (lambda: nets.circulant(8, [1], one_way=True), 1, F(7), "1 1 1 1 1 1 1", 1 / 28, 4 / 7),
    "torus 4x4": (lambda: nets.torus(4, 4), 4, F(15, 4), "1 3/2 1 1/4", 1 / 8, 32 / 15),
    "torus 3x5": (lambda: nets.torus(3, 5), 4, F(7, 2), "1 3/2 1", 1 / 9, 15 / 7),
    "hypercube 3": (lambda: nets.hypercube(3), 3, F(7, 3), "1 1 1/3", 1 / 4, 12 / 7),
    "K(4,4)": (lambda: nets.bipartite(4), 4, F(7, 4), "1 3/4", 2 / 5, 16 / 7),
    "Petersen": (nets.petersen, 3, F(3), "1 2", 1 / 5, 5 / 3),
    "C(12; 2,3)": (lambda: nets.circulant(12, [2, 3]), 4, F(11, 4), "1 7/4", 0.214286, 2.181818),
    "C(16; 3,4)": (lambda: nets.circulant(16, [3, 4]), 4, F(15, 4), "1 7/4 1", 1 / 8, 32 / 15),
    "directed C(13; 1,2,6,9)": (
        lambda: nets.circulant(13, [1, 2, 6, 9], one_way=True), 4, F(3), "1 2", 0.192308, 13 / 6,
    ),
    "Kautz (2,6)": (lambda: nets.kautz(2, 6), 2, F(5, 2), "1 2", 0.230769, 1.2),
    "Kautz (4,12)": (lambda: nets.kautz(4, 12), 4, F(11, 3), "1 4", 0.153846, 2.0),
    "Kautz (4,16)": (lambda: nets.kautz(4, 16), 4, F(5), "1 4", 0.132075, 2.0),
    "Kautz (4,20)": (lambda: nets.kautz(4, 20), 4, F(19, 4), "1 4", 0.114754, 2.105263),
    "de Bruijn (2,8)": (lambda: nets.de_bruijn(2, 8), 2, F(7), "1 2 4", 1 / 9, 1.0),
    "de Bruijn (2,16)": (lambda: nets.de_bruijn(2, 16), 2, F(15), "1 2 4 8", 0.038961, 1.0),
    "mesh 4x4": (lambda: nets.mesh(4, 4), 4, F(15, 2), "1 3/2 2 3/2 1 1/2", 1 / 16, 1.6),
}  # fmt: skip

# Name, network, ratio, lambda, X, in the rates of the links.
SWITCHED: dict[str, tuple[Callable[[], RatedNetwork], Fraction, float, float | None]] = {
    "path of 5": (lambda: nets.mesh(1, 5), F(4), 1 / 6, 1.0),
    "star, hub a rank": (lambda: nets.two_way(5, [(0, i, 1) for i in range(1, 5)]), F(4), 1 / 4, 1.0),
    "switch with 8 hosts": (lambda: nets.star_switch(8), F(7), 1 / 7, 4 / 7),
    "2 boxes of 4": (nets.two_boxes, F(1, 10), 2.5, 40.0),
    "DGX-1": (lambda: nets.machine("dgx-1"), F(8) / F(1200, 7), 9.375, 600 / 7),
    "A100": (lambda: nets.machine("dgx-a100"), F(7, 300), 42.857143, 171.428571),
    "A100 x2": (lambda: nets.machine("dgx-a100", 2), F(3, 65), 3.125, 173.333333),
    "A100 x4": (lambda: nets.machine("dgx-a100", 4), F(3, 25), 1.041667, 133.333333),
    "MI250": (lambda: nets.machine("mi250"), F(7, 150), 4.6875, 171.428571),
    "MI250 x2": (lambda: nets.machine("mi250", 2), F(15, 166), 1.0, 177.066667),
    "NDv2 x2": (lambda: nets.machine("ndv2", 2), F(16, 25), 0.195313, 12.5),
    "NDv2 x4": (lambda: nets.machine("ndv2", 4), F(48, 25), 0.065104, 25 / 3),
    "DGX2 x2": (lambda: nets.machine("dgx2", 2), F(31, 125), 0.390625, 67.741935),
    "mesh 5x5 at 50": (lambda: nets.mesh(5, 5, 50), F(25) / F(625, 6), 1.666667, None),
}


def allreduce_units(network: RatedNetwork, lengths: np.ndarray) -> Fraction:
    """What the checker makes of lengths of links that bound an AllReduce."""
    return tree_units(CollectiveProblem("x", network, CollectiveOp.ALLREDUCE, 10**6), lengths.tolist())


def rates(network: RatedNetwork) -> tuple[Fraction, Fraction, Fraction]:
    """Ratio, X and lambda, each evaluated by the checker from its proof."""
    unit, (ratio, cut) = network.unit_gbytes_per_s, ratio_cut(network)
    nodes = np.flatnonzero(cut).tolist()
    assert allgather_ratio(network, nodes) == ratio
    both = allreduce_units(network, allreduce_rate(network, cut, Stop()).lengths) * unit
    pairs = all_to_all_units(network, all_to_all_rate(network, Stop()).lengths.tolist(), relaying=True) * unit
    return ratio / unit, both, pairs


@pytest.mark.parametrize("name", REGULAR)
def test_regular_graphs(name: str) -> None:
    """Ratio, steps and their loads, lambda and X."""
    make, degree, ratio, loads, pairs, both = REGULAR[name]
    network = make()
    found = rates(network)
    assert found[0] == ratio
    assert float(found[1]) == pytest.approx(both, rel=1e-6)
    assert float(found[2]) == pytest.approx(pairs, rel=1e-5)
    own, distance = step_loads(network)
    assert own == tuple(map(Fraction, loads.split()))
    assert (distance.max(), degree) == (len(own), np.bincount(network.arcs[:, 0]).max())


@pytest.mark.parametrize("name", SWITCHED)
def test_machines_and_switches(name: str) -> None:
    """Ratio, lambda and X of machines, as in the files of ForestColl and TE-CCL."""
    make, ratio, pairs, both = SWITCHED[name]
    found = rates(make())
    assert found[0] == ratio
    assert both is None or float(found[1]) == pytest.approx(both, rel=1e-6)
    assert float(found[2]) == pytest.approx(pairs, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "boxes", "trees"),
    [("dgx-1", 1, 6), ("dgx-a100", 1, 1), ("dgx-a100", 2, 13), ("dgx-a100", 4, 1), ("mi250", 1, 3), ("mi250", 2, 83),
     ("ndv2", 2, 1), ("ndv2", 4, 1), ("dgx2", 2, 10)],
)  # fmt: skip
def test_trees_of_the_optimum(name: str, boxes: int, trees: int) -> None:
    """Least number of trees a root that reaches the optimum (ForestColl states k for these machines)."""
    network = nets.machine(name, boxes)
    ratio, _ = ratio_cut(network)
    assert ratio.denominator // math.gcd(ratio.denominator, *network.units.tolist()) == trees


@pytest.mark.parametrize(
    ("make", "gbytes_per_s"),
    [
        (lambda: nets.machine("mi250"), (266.6667, 320, 342.8571, 320)),
        (lambda: nets.machine("mi250", 2), (320, 341.3333, 342.8571, 341.3333)),
        (lambda: nets.torus(3, 3, 3), (270 / 50, 300 / 50, 311.5385 / 50, 300 / 50)),
    ],
)
def test_rates_of_few_trees(make: Callable[[], RatedNetwork], gbytes_per_s: tuple[float, ...]) -> None:
    """With 1 to 4 trees a root the rate does not always grow."""
    network = make()
    for trees, due in enumerate(gbytes_per_s, start=1):
        per_tree = fixed_scale(network, dict.fromkeys(network.ranks.tolist(), trees)) * network.unit_gbytes_per_s
        assert float(len(network.ranks) * trees * per_tree) == pytest.approx(due, rel=1e-6)


def largest_ratio(network: RatedNetwork) -> Fraction:
    """Ranks inside over the rate out, of all sets that do not have all ranks: every one of them is tried."""
    inside = (np.arange(1 << network.nodes)[:, None] >> np.arange(network.nodes)) & 1 == 1
    ranks = inside[:, network.ranks].sum(axis=1)
    tails, heads = network.arcs.T
    rate = (inside[:, tails] & ~inside[:, heads]) @ network.units
    cuts = (ranks > 0) & (ranks < len(network.ranks))
    return max({Fraction(*one) for one in set(zip(ranks[cuts].tolist(), rate[cuts].tolist(), strict=True))})


def test_every_cut_of_random_networks() -> None:
    """300 random networks of up to 11 nodes, with and without switches: the ratio is the largest of all cuts."""
    rng = np.random.default_rng(5)
    sizes = set()
    for number in range(300):
        switches = number % 2 == 0
        network = nets.random_network(rng, switches=switches, most_ranks=8 if switches else 11)
        sizes.add(network.nodes)
        ratio, side = ratio_cut(network)
        assert ratio == largest_ratio(network)
        assert ratio == cut_ratio(network, side)
    assert max(sizes) == 11


def test_allreduce_against_the_whole_program() -> None:
    """The rate found by adding rows is that of the program with the row of every set."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(8)
    for number in range(25):
        network = nets.random_network(rng, switches=number % 3 == 0)
        m, n = len(network.arcs), len(network.ranks)
        rows = [np.concatenate((np.eye(m)[e], np.eye(m)[e], np.zeros(n))) for e in range(m)]
        sides = network.units.astype(float).tolist()
        for chosen in itertools.product((False, True), repeat=network.nodes):
            side = np.array(chosen)
            if side[network.ranks].all() or not side[network.ranks].any():
                continue
            out = side[network.arcs[:, 0]] & ~side[network.arcs[:, 1]]
            into = ~side[network.arcs[:, 0]] & side[network.arcs[:, 1]]
            inside = side[network.ranks].astype(float)
            rows.append(np.concatenate((-out.astype(float), np.zeros(m), inside)))
            rows.append(np.concatenate((np.zeros(m), -into.astype(float), inside)))
            sides += [0.0, 0.0]
        balance = []
        for switch in np.flatnonzero(network.is_switch):
            row = (network.arcs[:, 0] == switch).astype(float) - (network.arcs[:, 1] == switch)
            balance += [np.concatenate((row, np.zeros(m + n))), np.concatenate((np.zeros(m), row, np.zeros(n)))]
        cost = np.concatenate((np.zeros(2 * m), -np.ones(n)))
        equal = {"A_eq": np.array(balance), "b_eq": np.zeros(len(balance))} if balance else {}
        due = -linprog(cost, np.array(rows), np.array(sides), **equal).fun
        found = allreduce_rate(network, ratio_cut(network)[1], Stop())
        assert found.units == pytest.approx(due, rel=1e-6)
        assert float(allreduce_units(network, found.lengths)) == pytest.approx(due, rel=1e-6)


@pytest.mark.parametrize("switches", [False, True])
def test_invariances(switches: bool) -> None:
    """Relabelling changes nothing, faster links scale rates, one more link never hurts ratio, lambda or X."""
    rng = np.random.default_rng(9)
    for _ in range(8):
        network = nets.random_network(rng, switches=switches)
        own = np.flatnonzero(network.is_switch).tolist()
        unit = float(network.unit_gbytes_per_s)
        links = [(int(a), int(b), int(u) * unit) for (a, b), u in zip(network.arcs, network.units, strict=True)]
        ratio, both, pairs = rates(network)
        order = rng.permutation(network.nodes).tolist()
        renamed = [(order[a], order[b], rate) for a, b, rate in links]
        again = rates(nets.network(network.nodes, renamed, [order[one] for one in own]))
        assert again[0] == ratio
        assert [float(one) for one in again[1:]] == pytest.approx([float(both), float(pairs)], rel=1e-6)
        scaled = rates(nets.network(network.nodes, [(a, b, 3 * rate) for a, b, rate in links], own))
        assert scaled[0] * 3 == ratio
        assert [float(one) / 3 for one in scaled[1:]] == pytest.approx([float(both), float(pairs)], rel=1e-6)
        tail, head = rng.choice(network.ranks, 2, replace=False).tolist()
        wider = rates(nets.network(network.nodes, [*links, (tail, head, unit)], own))
        assert wider[0] <= ratio
        assert float(wider[1]) >= float(both) * (1 - 1e-9)
        assert float(wider[2]) >= float(pairs) * (1 - 1e-9)


@pytest.mark.parametrize("switches", [False, True])
def test_transposing_swaps_allgather_and_reduce_scatter(switches: bool) -> None:
    """Bound and schedule of a ReduceScatter are those of an AllGather over the links turned round."""
    rng = np.random.default_rng(14)
    for _ in range(5):
        network = nets.random_network(rng, switches=switches)
        found = [
            CollectiveProblem("x", one, operation, 10**6, objective="throughput", sha256="0" * 64)
            for one, operation in (
                (network, CollectiveOp.REDUCE_SCATTER),
                (network.transposed(), CollectiveOp.ALLGATHER),
            )
        ]
        summed, gathered = (bandwidth_us(one, limiting(one, Stop())) for one in found)
        assert summed == gathered
        up, down = (solve(one, SolveOptions(method="forest")) for one in found)
        assert up.figures.time_us == pytest.approx(down.figures.time_us, rel=1e-9)


@pytest.mark.parametrize(
    ("make", "trees", "most"),
    [
        # One hop through NVSwitch; into the other box and on in it; two steps is the diameter of L(K5).
        (lambda: nets.machine("dgx-a100"), 1, 1),
        (lambda: nets.machine("dgx-a100", 2), 1, 2),
        (lambda: nets.kautz(4, 20), 4, 3),
        (lambda: nets.torus(3, 3, 3), 3, 4),
    ],
)
def test_trees_are_flat(make: Callable[[], RatedNetwork], trees: int, most: int) -> None:
    """Trees of the best rate of so many per root are about as high as the network is wide, no chains of all ranks."""
    network = make()
    per_tree = fixed_scale(network, dict.fromkeys(network.ranks.tolist(), trees))
    packed = forest(network, scaled(network, per_tree), dict.fromkeys(network.ranks.tolist(), trees))
    assert max(batch.height for batch in packed) <= most
    assert sum(batch.count for batch in packed) == trees * len(network.ranks)


def test_a_bound_that_is_stopped_is_a_bound() -> None:
    """Stopped before rows that are violated come into the program: what is proven so far is above the optimum."""
    network = nets.mesh(4, 4)
    _, cut = ratio_cut(network)
    halted = Stop()
    halted.interrupted.set()
    found = allreduce_rate(network, cut, halted)
    assert found.rounds == 1
    assert found.stopped_by != "converged"
    assert float(allreduce_units(network, found.lengths)) >= 1.6 - 1e-9
