"""From multipliers of programs to certificates in the words of the instance."""

from __future__ import annotations

import numpy as np

from formulations.hierarchy.hierarchical_certificate import Multipliers
from formulations.hierarchy.hierarchical_program import BandwidthProgram
from solvers.hierarchy import DesignMultipliers
from topoopt.core.arrays import Floats
from topoopt.core.hierarchy_solution import BandwidthCertificate, DesignProof, GroupShare, PathWeight


def certificate_of(program: BandwidthProgram, found: Multipliers) -> BandwidthCertificate:
    """Weights of paths, shares of groups on them and prices of rows, zeros left out."""
    paths, shares = [], []
    at = 0
    for job, (timeline, weights, own) in enumerate(
        zip(program.timelines, found.path_weights, found.paths, strict=True)
    ):
        due: Floats = np.zeros(len(timeline.groups))
        for weight, path in zip(weights.tolist(), own, strict=True):
            if weight > 0:
                paths.append(PathWeight(job, weight, path.steps))
                due += weight * path.sizes
        for (communicator, kind), bytes_due in zip(timeline.groups, due.tolist(), strict=True):
            row = found.shares[at, program.shift :]
            if bytes_due > 0 and row.sum() > 0:
                shares.append(GroupShare(job, communicator, kind, tuple(row.tolist())))
            at += 1
    rows = zip(program.row_names, found.prices.tolist(), strict=True)
    return BandwidthCertificate(tuple(paths), tuple(shares), tuple((name, price) for name, price in rows if price))


def proof_of(proof: DesignMultipliers) -> DesignProof:
    """The proof of one design."""
    return DesignProof(proof.design, certificate_of(proof.program, proof.multipliers), proof.too_slow)
