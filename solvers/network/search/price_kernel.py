"""Link lengths that prove a topology no better than a target: primal-dual hybrid gradient on the routing problem.

Saddle point of min theta, max over lengths l >= 0 and potentials pi:

    theta + sum_e l_e (sum_s f_es - theta) + sum_{s, v != s} pi_vs (D_sv - in_vs + out_vs),    f >= 0.

Any l proves theta >= sum D dist_l / sum l, so lengths are tested as they come and the work ends once the target is
proven; between neighbouring topologies flows, potentials and lengths are a warm start.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel


@kernel
def link_distances(out: Ints, length: Floats, distance: Floats) -> None:
    """Fill distance[n, n] with shortest paths for length[n * d] over the links out[n, d] (Floyd and Warshall)."""
    n, d = out.shape
    distance[:] = np.inf
    for i in range(n):
        for a in range(d):
            j = out[i, a]
            distance[i, j] = min(distance[i, j], length[i * d + a])
        distance[i, i] = 0.0
    for k in range(n):
        for i in range(n):
            through = distance[i, k]
            if through < np.inf:
                for j in range(n):
                    distance[i, j] = min(distance[i, j], through + distance[k, j])


@kernel
def _proved(out: Ints, length: Floats, demand: Floats, distance: Floats) -> float:
    link_distances(out, length, distance)
    n = len(demand)
    total = 0.0
    for i in range(n):
        for j in range(n):
            if demand[i, j] > 0.0:
                total += demand[i, j] * distance[i, j]
    size = 0.0
    for e in range(len(length)):
        size += length[e]
    return total / size if size > 0.0 else 0.0


@kernel
def price_links(
    out: Ints,
    demand: Floats,
    target: float,
    sweeps: int,
    weight: float,
    flow: Floats,
    potential: Floats,
    length: Floats,
    best_length: Floats,
) -> tuple[float, float, int]:
    """(bound on theta, load estimate, sweeps used); stops when the bound reaches the target.

    Args:
        out: int64[n, d]; demand: float64[n, n], best scaled so that theta is near 1.
        weight: of dual steps against primal ones.
        flow: float64[n * d, n] (link, source); potential: float64[n, n] (server, source); length: float64[n * d]: the
            start, left where the work ended.
        best_length: float64[n * d], lengths of the bound.
    """
    n, d = out.shape
    m = n * d
    period = 40
    distance = np.empty((n, n))
    best = _proved(out, length, demand, distance)
    best_length[:] = length
    if best >= target:
        return best, np.inf, 0
    theta = 1.0
    tau, tau_theta = 1.0 / (3.0 * weight), 1.0 / (m * weight)
    sigma, sigma_length = weight / (2.0 * d), weight / (n + 1.0)
    mean_flow, mean_potential = np.zeros((m, n)), np.zeros((n, n))
    mean_length, mean_theta = np.zeros(m), 0.0
    trial = np.empty(m)
    averaged = 0
    load = np.empty(m)
    net = np.empty((n, n))
    used = 0
    estimate = np.inf
    while used < sweeps:
        size = 0.0
        for e in range(m):
            size += length[e]
        new_theta = theta - tau_theta * (1.0 - size)
        ahead_theta = 2.0 * new_theta - theta
        theta = new_theta
        for v in range(n):
            for s in range(n):
                net[v, s] = demand[s, v]
        for u in range(n):
            for a in range(d):
                e = u * d + a
                v = out[u, a]
                charge = length[e]
                total = 0.0
                for s in range(n):
                    old = flow[e, s]
                    new = max(0.0, old - tau * (charge + potential[u, s] - potential[v, s]))
                    flow[e, s] = new
                    mean_flow[e, s] += new
                    ahead = 2.0 * new - old
                    net[v, s] -= ahead
                    net[u, s] += ahead
                    total += ahead
                load[e] = total
        for v in range(n):
            for s in range(n):
                potential[v, s] += sigma * net[v, s]
            potential[v, v] = 0.0
            for s in range(n):
                mean_potential[v, s] += potential[v, s]
        for e in range(m):
            length[e] = max(0.0, length[e] + sigma_length * (load[e] - ahead_theta))
            mean_length[e] += length[e]
        mean_theta += theta
        averaged += 1
        used += 1
        if used % period == 0:
            now = _proved(out, length, demand, distance)
            if now > best:
                best = now
                best_length[:] = length
            for e in range(m):
                trial[e] = mean_length[e] / averaged
            average = _proved(out, trial, demand, distance)
            if average > best:
                best = average
                best_length[:] = trial
            if best >= target:
                break
            estimate = mean_theta / averaged
            if averaged >= 4 * period:
                if average > now:
                    for e in range(m):
                        length[e] = trial[e]
                        for s in range(n):
                            flow[e, s] = mean_flow[e, s] / averaged
                    for v in range(n):
                        for s in range(n):
                            potential[v, s] = mean_potential[v, s] / averaged
                    theta = mean_theta / averaged
                mean_flow[:] = 0.0
                mean_potential[:] = 0.0
                mean_length[:] = 0.0
                mean_theta = 0.0
                averaged = 0
    return best, estimate, used
