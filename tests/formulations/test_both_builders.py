"""The array builder and the readable Pyomo model of every formulation are one program, and the table has them all."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import formulations
from formulations import flow_routing, joint_topology, mixtures
from formulations.flow_routing import ConcurrentFlow
from formulations.joint_topology import HopLp
from formulations.mixtures import PathSplit
from formulations.programs import with_names
from formulations.table import FORMULATIONS
from tests.support import pyomo_networks
from tests.support.formulation_cases import HOP, PROGRAMS, RING
from tests.support.same_program import assert_same

UNNAMED = {
    "mixture",  # of routings that a method has seen: no program of an instance
    "narrowed_flow",  # over the arcs that a method selects, with tests beside it
    "orbit_flow",  # under a group that a search hands over or looks for, with tests beside it
    "hierarchical_bandwidth",  # programs that grow cut by cut: tests of their own, with their Pyomo reference
    "strategy_choice",  # programs of jobs, whose data come from solvers and checker: tests of their own
    "joint_plan",
    "shard_assignment",  # a moment of a shared cluster, whose data come from solvers: tests of its own
}
"""Formulations that `topoopt dump-model` does not write."""

STATED = r"^\s*(Variables|Decided|minimise|maximise)\b"


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_both_builders_give_one_program(name: str) -> None:
    """Same names, costs, bounds, integrality, coefficients and sides."""
    arrays, pyomo = PROGRAMS[name]
    arcs: dict[str, str] = {}
    if name == "concurrent_flow":  # the reference numbers its arcs
        ends = {str(a): f"{i}_{j}" for a, (i, j) in enumerate(zip(RING.tail, RING.head, strict=True))}
        arcs = {f"flow_{s}_{a}": f"flow_{s}_{arc}" for s in range(3) for a, arc in ends.items()}
        arcs |= {f"fit_{a}": f"fit_{arc}" for a, arc in ends.items()}
    assert_same(arrays(), pyomo(), arcs)


@given(st.integers(0, 10**6), st.integers(3, 5), st.integers(1, 4))
@settings(max_examples=15)
def test_hop_limited_builders_agree_on_random_networks(seed: int, n: int, hops: int) -> None:
    """A ring with random chords, unequal links, some demand missing."""
    rng = np.random.default_rng(seed)
    there = (rng.random((n, n)) < 0.4) | np.roll(np.eye(n, dtype=bool), 1, axis=1)
    np.fill_diagonal(there, False)
    tail, head = np.nonzero(there)
    near = (
        np.linalg.matrix_power(np.eye(n) + there, hops) > 0
    )  # demand beyond is a row without terms, which Pyomo refuses
    demand = rng.integers(0, 4, (n, n)) * (1.0 - np.eye(n)) * near
    data = ConcurrentFlow(tail, head, rng.integers(1, 4, len(tail)).astype(float), demand)
    program = with_names(
        flow_routing.concurrent_flow_hops_arrays(data, hops),
        *flow_routing.concurrent_flow_hops_names(data, hops),
    )
    assert_same(program, pyomo_networks.concurrent_flow_hops_pyomo(data, hops))


@given(st.integers(0, 10**6), st.integers(3, 4), st.integers(1, 3))
@settings(max_examples=10)
def test_hop_lp_builders_agree_on_random_demand(seed: int, n: int, degree: int) -> None:
    """Demand below and above what a link carries at the guess, zeros included."""
    rng = np.random.default_rng(seed)
    demand = rng.integers(0, 5, (n, n)) * (1.0 - np.eye(n))
    data = HopLp(n, degree, demand, 0.25 + float(rng.random()))
    assert_same(
        with_names(joint_topology.hop_lp_arrays(data), *joint_topology.hop_lp_names(data)),
        pyomo_networks.hop_lp_pyomo(data),
    )


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 5), st.integers(1, 3))
@settings(max_examples=15)
def test_path_split_builders_agree_on_random_data(seed: int, demands: int, resources: int, families: int) -> None:
    """Repeated entries add up, families and prices as given."""
    rng = np.random.default_rng(seed)
    owner = np.sort(np.concatenate((np.arange(demands), rng.integers(0, demands, 3))))
    count = 2 * len(owner)
    data = PathSplit(
        owner,
        rng.integers(0, resources, count),
        rng.integers(0, len(owner), count),
        rng.random(count) + 0.5,
        resources,
        rng.integers(0, families, resources),
        tuple((rng.random(families) + 0.1).tolist()),
        rng.random(len(owner)),
    )
    assert_same(
        with_names(mixtures.path_split_arrays(data), *mixtures.path_split_names(data)),
        pyomo_networks.path_split_pyomo(data),
    )


def test_names_must_fit() -> None:
    """One name too few is refused by name of what is short."""
    columns, rows = joint_topology.hop_lp_names(HOP)
    with pytest.raises(ValueError, match="row_names has"):
        with_names(joint_topology.hop_lp_arrays(HOP), columns, rows[1:])


def test_every_formulation_has_a_line() -> None:
    """Each text with an algebra, a docstring or a section of one, is that of a line of the table."""
    folder = Path(formulations.__file__ or "").parent
    names = set()
    for path in folder.glob("*.py"):
        first, *others = re.split(
            r"^(\w+)\n-+\n", ast.get_docstring(ast.parse(path.read_text())) or "", flags=re.MULTILINE
        )
        texts = {path.stem: first, **dict(zip(others[::2], others[1::2], strict=True))}
        names |= {name for name, text in texts.items() if re.search(STATED, text, re.MULTILINE | re.IGNORECASE)}
    assert names == set(FORMULATIONS) | UNNAMED
