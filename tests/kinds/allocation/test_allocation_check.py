"""The checker of allocations: what is sound passes, every kind of damage is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from solvers.stop import Stop
from tests.support.allocation_cases import along, line, network, problem, shortest
from topoopt.core.allocation import AllocationGoal, AllocationProblem
from topoopt.core.allocation_solution import AllocationSolution, PriceCertificate
from topoopt.core.proofs import Argument, Bound
from topoopt.core.verdict import Status
from topoopt.kinds.pipeline import solve
from topoopt.verify.allocation.bounds import level_bound, tightest_link
from topoopt.verify.allocation.check import check_allocation

LINE = line(3)
SINGLE = problem(
    LINE,
    [
        shortest(LINE, "long", 0, 2, size_bytes=1e9),
        shortest(LINE, "a", 0, 1, max_gbps=20.0),
        shortest(LINE, "b", 1, 2),
    ],
    sha256="x",
)
SQUARE = network(4, [(0, 1), (1, 3), (0, 2), (2, 3)])
CHOICE = problem(
    SQUARE, [along(SQUARE, "free", (0, 1, 3), (0, 2, 3)), along(SQUARE, "r", (0, 1)), along(SQUARE, "s", (0, 1))]
)


def codes(case: AllocationProblem, solution: AllocationSolution) -> set[str]:
    """Codes of all violations."""
    return {violation.code for violation in check_allocation(case, solution).violations}


def test_sound_solutions_pass() -> None:
    """What the solvers make breaks nothing."""
    for case in (SINGLE, CHOICE):
        assert codes(case, solve(case)) == set()


def rated(solution: AllocationSolution, *rates: float) -> AllocationSolution:
    """Other rates, with the tables that belong to them; transfers of one route."""
    rows = tuple(
        replace(row, route_gbps=(rate,), completion_time_s=8.0 / rate if row.completion_time_s else None)
        for row, rate in zip(solution.transfers, rates, strict=True)
    )
    return replace(solution, transfers=rows)


def late(solution: AllocationSolution) -> AllocationSolution:
    """Another completion time for the first transfer."""
    first, *others = solution.transfers
    return replace(solution, transfers=(replace(first, completion_time_s=9.0), *others))


def first_row(solution: AllocationSolution, **fields: object) -> AllocationSolution:
    """The first row of the table of servers says something else."""
    first, *others = solution.servers
    return replace(solution, servers=(replace(first, **fields), *others))  # type: ignore[arg-type]


DAMAGE: list[tuple[str, Callable[[AllocationSolution], AllocationSolution], str]] = [
    ("name", lambda s: replace(s, name="other"), "identity"),
    ("goal", lambda s: replace(s, goal="weighted"), "identity"),
    ("sha", lambda s: replace(s, instance_sha256="y"), "instance-sha256"),
    ("links", lambda s: replace(s, topology=line(4)), "topology"),
    ("capacity of links", lambda s: replace(s, capacity_gbps=s.capacity_gbps * 2), "topology"),
    ("lost transfer", lambda s: replace(s, transfers=s.transfers[1:]), "rates"),
    ("order", lambda s: replace(s, transfers=s.transfers[::-1]), "transfer"),
    ("too much", lambda s: rated(s, 90.0, 20.0, 50.0), "capacity"),
    ("limit", lambda s: rated(s, 50.0, 30.0, 50.0), "limit"),
    ("negative", lambda s: rated(s, -1.0, 20.0, 50.0), "rates"),
    ("nan", lambda s: rated(s, float("nan"), 20.0, 50.0), "rates"),
    ("unfair", lambda s: rated(s, 40.0, 20.0, 60.0), "max-min"),
    ("lazy", lambda s: rated(s, 50.0, 20.0, 40.0), "max-min"),
    ("time", late, "completion-time"),
    ("missing row", lambda s: replace(s, servers=s.servers[1:]), "servers"),
    ("hop", lambda s: replace(s, servers=(replace(s.servers[0], next_hops=((2, 20.0),)), *s.servers[1:])), "servers"),
    ("row twice", lambda s: replace(s, servers=(*s.servers, s.servers[0])), "servers"),
    ("rows out of order", lambda s: replace(s, servers=s.servers[::-1]), "servers"),
    ("rate of a hop", lambda s: first_row(s, next_hops=((1, s.servers[0].next_hops[0][1] * (1 + 1e-6)),)), "servers"),
    ("rate that is none", lambda s: first_row(s, next_hops=((1, float("nan")),)), "servers"),
    ("one hop more", lambda s: first_row(s, next_hops=(*s.servers[0].next_hops, (3, 1e-3))), "servers"),
    ("hop twice", lambda s: first_row(s, next_hops=s.servers[0].next_hops * 2), "servers"),
    ("no such hop", lambda s: first_row(s, next_hops=(*s.servers[0].next_hops, (4, 0.0))), "servers"),
    ("no such server", lambda s: replace(s, servers=(*s.servers, replace(s.servers[-1], server=9))), "servers"),
    ("no such destination", lambda s: first_row(s, destination=-1), "servers"),
    ("half a server", lambda s: first_row(s, server=0.5), "servers"),
    ("objective", lambda s: replace(s, objective=replace(s.objective, value=21.0)), "objective"),
    ("unit", lambda s: replace(s, objective=replace(s.objective, unit="s")), "objective"),
    ("bound", lambda s: replace(s, bound=Bound(30.0, s.bound.argument)), "bound"),
    ("wish", lambda s: replace(s, bound=Bound(20.0, Argument.LINK_PRICES)), "bound"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "damage", "code"), DAMAGE, ids=[entry[0] for entry in DAMAGE])
def test_damage_is_found(name: str, damage: Callable[[AllocationSolution], AllocationSolution], code: str) -> None:
    """Every kind of damage has its code."""
    assert code in codes(SINGLE, damage(solve(SINGLE)))


def test_guarantees_are_checked() -> None:
    """Rates below what is guaranteed."""
    wanted = replace(SINGLE, goal=AllocationGoal.MIN_GUARANTEE)
    wanted = replace(wanted, transfers=(replace(wanted.transfers[0], min_gbps=60.0), *wanted.transfers[1:]))
    solution = solve(wanted)
    assert codes(wanted, solution) == set()
    assert "guarantee" in codes(wanted, rated(solution, 50.0, 20.0, 50.0))


def test_unfinished_solutions_need_not_be_fair() -> None:
    """Fairness is asked of what calls itself optimal; that in turn needs the bound."""
    solution = solve(SINGLE)
    assert "max-min" not in codes(SINGLE, replace(rated(solution, 40.0, 20.0, 60.0), status=Status.FEASIBLE))
    assert "status" in codes(SINGLE, replace(solution, objective=replace(solution.objective, value=10.0)))


@pytest.mark.parametrize(
    "damage",
    [
        lambda proof: replace(proof, price=proof.price * 0.5),
        lambda proof: replace(proof, price=proof.price * 2.0),
        lambda proof: replace(proof, price=-proof.price),
        lambda proof: replace(proof, shared=proof.shared + 100),
        lambda proof: replace(proof, multiplier=proof.multiplier[1:]),
        lambda proof: replace(proof, transfers=proof.transfers[:0]),
        lambda proof: PriceCertificate(
            proof.transfers, np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0)
        ),
    ],
)
def test_broken_certificates_prove_nothing(damage: Callable[[PriceCertificate], PriceCertificate]) -> None:
    """Where routes are chosen, rates without a sound proof are not believed."""
    solution = solve(CHOICE)
    broken = replace(solution, certificates=tuple(damage(proof) for proof in solution.certificates))
    assert codes(CHOICE, broken) & {"max-min", "certificate", "bound"}


def test_unfair_rates_with_a_choice_are_found() -> None:
    """The certificates of the right rates do not prove others."""
    solution = solve(CHOICE)
    free, r, s = solution.transfers
    unfair = replace(
        solution,
        transfers=(
            free,
            replace(r, route_gbps=(60.0,)),
            replace(s, route_gbps=(40.0,)),
        ),
    )
    assert "max-min" in codes(CHOICE, unfair)


def test_bounds_are_exact() -> None:
    """Three on a link of 1 have a third each at most: the fraction itself, and the double above it."""
    net = line(2)
    case = problem(net, [shortest(net, f"t{k}", 0, 1) for k in range(3)], 1.0)
    assert level_bound(case, tightest_link(case)) == Fraction(1, 3)
    bound = solve(case).bound.value
    assert Fraction(bound) >= Fraction(1, 3)
    assert bound == pytest.approx(1 / 3, rel=1e-15)


def test_certificates_of_water_filling_cover_all() -> None:
    """Each transfer is in the proof of some level, also where none is stored."""
    from solvers.allocation import network_of, shares_of, water_fill

    found = water_fill(network_of(SINGLE), shares_of(SINGLE), Stop())
    assert sorted({int(t) for proof in found.certificates for t in proof.transfers}) == [0, 1, 2]
    solution = replace(solve(SINGLE), certificates=found.certificates)
    from topoopt.verify.allocation.fairness import check_certificates
    from topoopt.verify.laws.findings import ViolationLog

    findings = ViolationLog()
    check_certificates(findings, SINGLE, solution)
    assert findings.clean


def circulant_traffic(servers: int) -> AllocationProblem:
    """Weighted transfers between drawn servers of a circulant, each split at every server among all shortest paths.

    Far away no more than 1e-8 of a transfer crosses some of its links.
    """
    pairs = [(i, (i + step) % servers) for i in range(servers) for step in (1, 2, -1, -2)]
    net, draw = network(servers, pairs), np.random.default_rng(1)
    transfers = [
        shortest(net, f"t{k}", *draw.choice(servers, 2, replace=False).tolist(), weight=10 ** draw.uniform(-2, 2))
        for k in range(servers)
    ]
    return problem(net, transfers, goal=AllocationGoal.WEIGHTED)


def test_tiny_parts_on_full_links() -> None:
    """The rounding of a full link, over a part of 1e-8, is no rate that a transfer could have more; a lower rate is."""
    case = circulant_traffic(128)
    assert min(transfer.routes[0].fraction.min() for transfer in case.transfers) < 1e-8
    solution = solve(case)
    assert solution.status is Status.OPTIMAL
    assert codes(case, solution) == set()
    rates = solution.rates_gbps
    for place in (int(rates.argmin()), int(rates.argmax())):
        lower = rates.copy()
        lower[place] *= 1 - 1e-4
        assert "max-min" in codes(case, rated(solution, *lower.tolist()))
