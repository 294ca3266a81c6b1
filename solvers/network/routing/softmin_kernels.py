"""Routing over soft shortest paths: one pass gives a bound, a flow that conserves and the slope of both."""

from __future__ import annotations

import math

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel, summing_kernel

CUT = 18.0
"""Lateness of a way, in units of the softness, from which on nothing takes it: exp(-18) is 1.5e-8."""

_FOLDS = 32
"""exp(x) is taken as exp(x / 32)^32: without a branch, and so several at once."""

_MIDDLE = CUT / 2 / _FOLDS
_AT_MIDDLE = math.exp(-_MIDDLE)
_FRACTION, _ONE, _EXPONENT, _BIAS = 0xFFFFFFFFFFFFF, 0x3FF0000000000000, 52, 1023
"""Parts of an IEEE 754 double."""

_ROOT, _LOG_ROOT, _LOG_TWO = math.sqrt(2.0), math.log(2.0) / 2, math.log(2.0)


@summing_kernel
def shares(late: Floats, share: Floats) -> None:
    """exp(-late) to a relative error below 1e-12, 0 from CUT on; late >= -1e-9, float64[m], share is set."""
    for i in range(len(late)):
        x = _MIDDLE - min(max(late[i], 0.0), CUT) / _FOLDS  # within 0.29 of 0, where Taylor's series needs few terms
        ninth = 1 / 40320 + x * (1 / 362880 + x * (1 / 3628800))
        fifth = 1 / 24 + x * (1 / 120 + x * (1 / 720 + x * (1 / 5040 + x * ninth)))
        power = (1.0 + x * (1.0 + x * (1 / 2 + x * (1 / 6 + x * fifth)))) * _AT_MIDDLE
        power *= power
        power *= power
        power *= power
        power *= power
        share[i] = power * power if late[i] < CUT else 0.0


@summing_kernel
def summed_logarithms(amount: Floats, value: Floats, exponent: Floats, fraction: Ints) -> float:
    """sum amount log value where amounts are above 0, float64[n]; scratch of n each. Error of a logarithm: 1e-12."""
    bits, part = value.view(np.int64), fraction.view(np.float64)
    for v in range(len(value)):
        fraction[v] = (bits[v] & _FRACTION) | _ONE
        exponent[v] = np.float64(np.int32((bits[v] >> _EXPONENT) - _BIAS))
    total = 0.0
    for v in range(len(value)):
        z = (part[v] - _ROOT) / (part[v] + _ROOT)  # 2 artanh z is log(part / sqrt 2), |z| < 0.172
        w = z * z
        ninth = 1 / 9 + w * (1 / 11 + w * (1 / 13 + w * (1 / 15)))
        artanh = z * (1.0 + w * (1 / 3 + w * (1 / 5 + w * (1 / 7 + w * ninth))))
        logarithm = exponent[v] * _LOG_TWO + _LOG_ROOT + 2.0 * artanh
        total += amount[v] * logarithm if amount[v] > 0.0 else 0.0
    return total


@kernel
def soft_loads(
    into: Ints,
    arc_in: Ints,
    tail_in: Ints,
    head_in: Ints,
    length: Floats,
    softness: float,
    demand: Floats,
    orders: Ints,
    begin: int,
    end: int,
    load: Floats,
    flow: Floats,
) -> tuple[float, float]:
    """Traffic of sources begin .. end - 1 over paths that lead away from the source all the way, by logit shares.

    With phi(v) = -softness log sum over arcs u->v, d(u) < d(v), of exp(-(phi(u) + length) / softness), the loads are
    the slope of sum D phi, and each server splits what it gets by these exponentials (Dial's logit loading,
    Transportation Research 5, 1971). Distances are exact, from the order of the last call.

    Args:
        into, arc_in, tail_in, head_in: int64[n+1], int64[m] each, arcs by head.
        length: float64[m], above 0.
        orders: int64[n, n], changed: servers sorted by distance from each source.
        load: float64[m], added to.
        flow: float64[n, m] added to, or float64[0, m]: not wanted.

    Returns:
        sum D d and sum D phi of these sources.
    """
    n, m = len(orders), len(length)
    distance, key = np.empty(n), np.empty(n)
    ways, need = np.empty(n), np.empty(n)
    late, share = np.empty(m), np.empty(m)
    exponent, fraction = np.empty(n), np.empty(n, dtype=np.int64)
    length_in, load_in = np.empty(m), np.zeros(m)
    for i in range(m):
        length_in[i] = length[arc_in[i]]
    hard, soft = 0.0, 0.0
    for s in range(begin, end):
        if demand[s].sum() == 0.0:
            continue
        order = orders[s]
        distance[:] = np.inf
        distance[s], key[0] = 0.0, 0.0
        again = True
        while again:  # a second time only where an order was wrong
            for k in range(1, n):
                v = order[k]
                reach = distance[v]
                for i in range(into[v], into[v + 1]):
                    reach = min(reach, distance[tail_in[i]] + length_in[i])
                distance[v] = reach
                j = k - 1
                while key[j] > reach:
                    key[j + 1], order[j + 1] = key[j], order[j]
                    j -= 1
                key[j + 1], order[j + 1] = reach, v
            again = False
            for i in range(m):
                near, far = distance[tail_in[i]], distance[head_in[i]]
                again |= near + length_in[i] < far
                late[i] = (near + length_in[i] - far) / softness if near < far else CUT
        shares(late, share)
        ways[:] = 0.0
        ways[s] = 1.0
        for k in range(1, n):
            v = order[k]
            total = 0.0
            for i in range(into[v], into[v + 1]):
                total += ways[tail_in[i]] * share[i]
            ways[v] = total
        for v in range(n):
            need[v] = 0.0
            if demand[s, v] > 0.0:
                hard += demand[s, v] * distance[v]
                need[v] = demand[s, v] / ways[v]
        soft += summed_logarithms(demand[s], ways, exponent, fraction)
        for k in range(n - 1, -1, -1):
            v = order[k]
            for i in range(into[v], into[v + 1]):
                part = need[v] * share[i]
                need[tail_in[i]] += part
                late[i] = part * ways[tail_in[i]]
        for i in range(m):
            load_in[i] += late[i]
        if len(flow) > 0:
            for i in range(m):
                flow[s, arc_in[i]] += late[i]
    for i in range(m):
        load[arc_in[i]] += load_in[i]
    return hard, hard - softness * soft
