"""Column generation on the path formulation: columns are shortest-path trees of sources, or paths of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.job.path_split import PathSplit, build_arrays
from solvers.backends.highs import highs_model
from solvers.network.routing.hop_limits import WAIT, limited_tree
from solvers.network.routing.proof import RoutingProof
from solvers.network.routing.shortest import shortest_parents, tree_flows
from topoopt.core.arrays import Floats, Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_array

if TYPE_CHECKING:
    import highspy

_ROUNDS = 2000
_TRUST = 0.6  # how much of the best lengths is mixed into the next ones (Wentges smoothing)
_WORTH = 1e-9  # a column must be cheaper than what is there by this part of the objective


@dataclass(frozen=True, eq=False)
class _Columns:
    """Alternatives found by one round: `demand[i]` is served by `flow` (sparse float64[k, m], full amounts).

    `by_hop` (sparse float64[k, h m]) is the same by hop, under a hop limit.
    """

    demand: Ints
    flow: csr_array
    by_hop: csr_array | None = None


class _Trees:
    """One demand per source with traffic; an alternative is a tree that carries all of it."""

    def __init__(self, proof: RoutingProof) -> None:
        self.proof = proof
        self.source = np.flatnonzero(proof.network.demand.any(axis=1))

    def price(self, lengths: Floats) -> _Columns:
        from scipy.sparse import csr_array

        net = self.proof.network
        flow = tree_flows(net.first, net.tail, net.head, lengths, net.demand, self.proof.orders)
        return _Columns(np.arange(len(self.source)), csr_array(flow[self.source]))


class _Paths:
    """One demand per ordered pair with traffic; an alternative is a path."""

    def __init__(self, proof: RoutingProof) -> None:
        self.proof = proof
        self.source, self.target = np.nonzero(proof.network.demand)

    def price(self, lengths: Floats) -> _Columns:
        from scipy.sparse import csr_array

        net = self.proof.network
        parent = shortest_parents(net.first, net.head, lengths, self.proof.orders)
        row, arc = [], []
        here, pair = self.target.copy(), np.arange(len(self.target))
        while len(pair):
            into = parent[self.source[pair], here]
            row.append(pair)
            arc.append(into)
            here = net.tail[into]
            going = here != self.source[pair]
            here, pair = here[going], pair[going]
        rows, arcs = np.concatenate(row), np.concatenate(arc)
        amount = net.demand[self.source, self.target][rows]
        shape = (len(self.source), len(net.head))
        return _Columns(np.arange(len(self.source)), csr_array((amount, (rows, arcs)), shape=shape))


class _LimitedPaths(_Paths):
    """The same for paths of at most h hops."""

    def price(self, lengths: Floats) -> _Columns:
        from scipy.sparse import csr_array

        net, hops = self.proof.network, self.proof.max_hops
        assert hops is not None
        distance = np.empty((hops + 1, net.servers))
        parent = np.empty((net.servers, hops + 1, net.servers), dtype=np.int64)
        for source in np.unique(self.source):
            limited_tree(net.tail, net.head, lengths, source, distance, parent[source])
        row, arc, layer = [], [], []
        here, pair = self.target.copy(), np.arange(len(self.target))
        for k in range(hops, 0, -1):
            into = parent[self.source[pair], k, here]
            moved = into != WAIT
            row.append(pair[moved])
            arc.append(into[moved])
            layer.append(np.full(int(moved.sum()), k - 1))
            here = np.where(moved, net.tail[into], here)
            going = here != self.source[pair]
            here, pair = here[going], pair[going]
        rows, arcs, layers = np.concatenate(row), np.concatenate(arc), np.concatenate(layer)
        amount = net.demand[self.source, self.target][rows]
        pairs, m = len(self.source), len(net.head)
        flow = csr_array((amount, (rows, arcs)), shape=(pairs, m))
        by_hop = csr_array((amount, (rows, layers * m + arcs)), shape=(pairs, hops * m))
        return _Columns(np.arange(pairs), flow, by_hop)


def by_trees(proof: RoutingProof) -> int:
    """Columns are source trees: few rows, used for n up to about 64; returns the columns generated."""
    return _generate(proof, _Trees(proof))


def by_paths(proof: RoutingProof) -> int:
    """Columns are single paths: a row per pair, for tens of servers; returns the columns generated."""
    return _generate(proof, _Paths(proof) if proof.max_hops is None else _LimitedPaths(proof))


def _generate(proof: RoutingProof, oracle: _Trees | _Paths) -> int:
    net = proof.network
    demands = len(oracle.source)
    unit = proof.bound
    per_hop = proof.hop_price / float(net.demand.sum())  # price of a unit of flow on an arc
    pools = [oracle.price(proof.lengths)]
    solver = _master(pools[0], net.capacity * unit, per_hop / unit)
    total = demands
    for _ in range(_ROUNDS):
        if proof.time_left_s is not None:  # the limit counts from the solver's first run
            solver.setOptionValue("time_limit", solver.getRunTime() + max(proof.time_left_s, 1e-3))
        solver.run()
        solution = solver.getSolution()
        if not (solution.value_valid and solution.dual_valid):
            break
        # column 0 .. demands-1, then theta, then the columns of later rounds
        x = np.delete(np.array(solution.col_value), demands)
        _offer_mixture(proof, oracle, pools, x)
        dual = np.array(solution.row_dual)
        rent, lengths = dual[:demands], np.maximum(-dual[demands:], 0.0) / net.capacity
        if proof.proven or proof.late or not lengths.any():
            break
        lengths = lengths / float(lengths @ net.capacity)
        best = proof.lengths / float(proof.lengths @ net.capacity)
        found = 0
        for trust in (_TRUST, 0.0):  # smoothed lengths may find nothing though there is something
            asked = trust * best + (1 - trust) * lengths
            proof.offer_lengths(asked)
            new = oracle.price(asked + per_hop)
            cost = new.flow @ (lengths + per_hop) / unit
            good = np.flatnonzero(cost < rent - _WORTH)
            if len(good):
                pools.append(
                    _Columns(new.demand[good], new.flow[good], None if new.by_hop is None else new.by_hop[good])
                )
                found = len(good)
                _add(solver, pools[-1], net.capacity * unit, demands, per_hop / unit)
                break
        total += found
        if not found:
            break
    return total


def _master(columns: _Columns, capacity: Floats, per_hop: float) -> highspy.Highs:
    import highspy

    flow = columns.flow.tocoo()
    data = PathSplit(
        demand=columns.demand,
        resource=flow.col.astype(np.int64),
        alternative=flow.row.astype(np.int64),
        use=flow.data / capacity[flow.col],
        resources=len(capacity),
        price=np.asarray(columns.flow.sum(axis=1)) * per_hop,
    )
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("primal_feasibility_tolerance", 1e-9)
    solver.setOptionValue("dual_feasibility_tolerance", 1e-9)
    solver.passModel(highs_model(build_arrays(data)))
    return solver


def _add(solver: highspy.Highs, columns: _Columns, capacity: Floats, demands: int, per_hop: float) -> None:
    from scipy.sparse import csr_array

    flow = columns.flow
    count = len(columns.demand)
    use = csr_array((flow.data / capacity[flow.indices], flow.indices, flow.indptr), shape=flow.shape)
    starts = use.indptr[:-1] + np.arange(count)
    index = np.insert(use.indices + demands, use.indptr[:-1], columns.demand).astype(np.int32)
    value = np.insert(use.data, use.indptr[:-1], 1.0)
    upper = np.full(count, 1.0)
    price = np.asarray(flow.sum(axis=1)) * per_hop
    solver.addCols(
        count, price, np.zeros(count), upper, len(index), starts.astype(np.int32), index, value
    )  # fmt: skip


def _offer_mixture(proof: RoutingProof, oracle: _Trees | _Paths, pools: list[_Columns], x: Floats) -> None:
    """The flow of the master's shares, made to sum to one for each demand."""
    demand = np.concatenate([pool.demand for pool in pools])
    share = np.maximum(x, 0.0)
    share = share / np.bincount(demand, weights=share)[demand]
    net = proof.network
    m = len(net.head)
    flow = np.zeros((net.servers, (proof.max_hops or 1) * m))
    begin = 0
    for pool in pools:
        part = share[begin : begin + len(pool.demand)]
        begin += len(pool.demand)
        used = np.flatnonzero(part > 0)
        if len(used):
            entries = (pool.flow if pool.by_hop is None else pool.by_hop)[used].tocoo()
            source = oracle.source[pool.demand[used]][entries.row]
            np.add.at(flow, (source, entries.col), entries.data * part[used][entries.row])
    if proof.max_hops is not None:
        flow = np.ascontiguousarray(flow.reshape(net.servers, proof.max_hops, m).transpose(1, 0, 2))
    proof.offer_flow(flow)
