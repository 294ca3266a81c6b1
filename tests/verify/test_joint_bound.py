"""Proofs for tiny jobs: no plan is faster by the bulk-synchronous model, and no numbers prove more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from solvers.job.joint import AIM, joint_tables, prove_joint, solve_joint
from solvers.stop import Stop
from tests.support.file_cases import ring_of_four
from tests.support.joint_cases import BI, CASES, UNI, job, least_time, mesh
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError
from topoopt.core.job import CoOptimisation, joint_certificate
from topoopt.core.network import LinkTree
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate
from topoopt.core.workload import Workload
from topoopt.kinds.job import SOLUTION_FILE
from topoopt.verify.checker import ViolationLog
from topoopt.verify.job.check import check_joint, joint_bound

SMALL = {name: CASES[name] for name in ("three-pairs", "three-chain-of-three", "three-directed", "four-directed")}


def proof_of(cluster: Cluster, workload: Workload, bound_ms: float) -> LinkTree:
    """Found without the value: only what is to be proven is handed over."""
    tree = prove_joint(joint_tables(cluster, workload, bound_ms)[0], bound_ms, Stop())
    assert tree is not None
    return tree


@pytest.mark.parametrize("name", list(SMALL))
def test_what_is_proven_is_the_least_of_all_plans(name: str) -> None:
    """All strategies on all topologies, routed by scipy: the bound meets the least, and a little more is rejected."""
    cluster, workload = SMALL[name]
    least = least_time(cluster, workload)
    proof = proof_of(cluster, workload, least * (1 - AIM))
    assert joint_bound(cluster, workload, proof, least * (1 - AIM)) == pytest.approx(least, rel=1e-9)
    assert joint_bound(cluster, workload, proof, least / 2) > least / 2 * (1 + 1e-6), "a claim too low is found out"
    with pytest.raises(InputError):
        joint_bound(cluster, workload, proof, least * (1 + 1e-6))


MESHES = {
    "ring": (Cluster(4, 1, 1, 0.05, UNI), (3000,) * 4),
    "pairs": (Cluster(4, 1, 2, 0.05, BI), (3000, 1000, 5000, 9)),
}


@pytest.mark.parametrize("name", list(MESHES))
def test_where_forwarding_counts_the_links_are_branched_on(name: str) -> None:
    """Operators pinned to servers that all talk to each other: cuts around servers alone prove too little."""
    cluster, widths = MESHES[name]
    workload = mesh(4, widths)
    optimum = solve_joint(cluster, workload)
    assert optimum is not None
    bound = optimum.time_ms * (1 - AIM)
    proof = proof_of(cluster, workload, bound)
    assert joint_bound(cluster, workload, proof, bound) == pytest.approx(optimum.time_ms, rel=1e-9)
    cuts = replace(proof, multipliers=proof.multipliers[: 2 * cluster.servers])
    for worse in (cuts, replace(proof, multipliers=np.zeros_like(proof.multipliers))):
        with pytest.raises(InputError):
            joint_bound(cluster, workload, worse, bound)


@pytest.mark.parametrize("seed", range(5))
def test_no_numbers_prove_more_than_the_truth(seed: int) -> None:
    """Random lengths and prices, and a proof with some altered, never prove more than the least time of all plans."""
    cluster, workload = CASES["three-directed"]
    rng = np.random.default_rng(seed)
    bound = LEAST * (1 - AIM)
    altered = proof_of(cluster, workload, bound).multipliers
    altered[rng.random(altered.shape) < 0.2] = rng.integers(0, 3)
    for tables in (altered, rng.integers(0, 9, (30, 3, 3)) * rng.integers(0, 2, (30, 3, 3))):
        with pytest.raises(InputError):
            joint_bound(cluster, workload, LinkTree(rng.permutation(3), tables), LEAST * (1 + 1e-6))


LEAST = least_time(*CASES["three-directed"])


def test_sizes_and_claims_are_looked_at_first() -> None:
    """Six servers, no number, multipliers of another size: refused; memory that no plan has leaves nothing to beat."""
    cluster, workload = CASES["three-directed"]
    proof = proof_of(cluster, workload, LEAST * (1 - AIM))
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="no positive number"):
            joint_bound(cluster, workload, proof, bad)
    with pytest.raises(InputError, match="more than 5 servers"):
        joint_bound(Cluster(6, 1, 2, 1.0, UNI), job(6, (1, 6)), proof, 1.0)
    with pytest.raises(InputError, match="wrong shape"):
        joint_bound(Cluster(4, 1, 2, 1.0, UNI), job(4, (1, 4)), proof, 1.0)


def test_files_hold_a_proof_and_the_checker_looks_at_it(tmp_path: Path) -> None:
    """Written, read back as it was, held against the job; a bound stated higher or lower is found out."""
    cluster, workload = CASES["four-pairs"]
    optimum = solve_joint(cluster, workload)
    assert optimum is not None
    bound = optimum.time_ms * (1 - AIM)
    certificate = joint_certificate(bound, proof_of(cluster, workload, bound))
    solution = replace(ring_of_four(), certificates=(certificate,))
    SOLUTION_FILE.write(solution, tmp_path / "solution.json")
    (again,) = SOLUTION_FILE.read(tmp_path / "solution.json").certificates
    assert _wrong(cluster, workload, again) == []
    spoilt = {
        "bound_ms": (np.array([bound * (1 + 1e-6)]), np.array([bound * (1 - 1e-6)]), np.zeros(0)),
        "order": (np.array([0, 1, 2, 2]), np.zeros(4)),
        "multipliers": (np.zeros(3, dtype=np.int64), np.full(16, -1), None),
    }
    for name, values in spoilt.items():
        for value in values:
            arrays = {key: array for key, array in again.arrays.items() if key != name}
            arrays |= {} if value is None else {name: value}
            assert _wrong(cluster, workload, Certificate(Argument.LINK_TREE, arrays)) == ["joint"], name


def _wrong(cluster: Cluster, workload: Workload, certificate: Certificate) -> list[str]:
    findings = ViolationLog()
    check_joint(findings, CoOptimisation("job", cluster, workload), certificate)
    return [violation.code for violation in findings.violations()]
