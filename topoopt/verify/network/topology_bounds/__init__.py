"""Lower bounds on theta over every topology of n servers of degree d, each with a certificate re-checked by formula.

Each `*_bound` finds a good certificate; each `evaluate_*` turns any certificate into a bound that holds whatever made
it. All hold for bidirectional links too, since a bidirectional topology is a directed one of the same degree.
"""

from __future__ import annotations

from topoopt.verify.network.topology_bounds.best import best_topology_bound, topology_bounds
from topoopt.verify.network.topology_bounds.cuts import CutCertificate, evaluate_cut, group_cut_bound, node_cut_bound
from topoopt.verify.network.topology_bounds.dual_cuts import DualCut, cut_value, dual_cut, evaluate_cut_mixture
from topoopt.verify.network.topology_bounds.layered import evaluate_layered, layered_bound
from topoopt.verify.network.topology_bounds.relay_blocks import evaluate_relay, hops_beyond
from topoopt.verify.network.topology_bounds.relay_cases import evaluate_cases
from topoopt.verify.network.topology_bounds.two_layer import TwoLayerCertificate, evaluate_two_layer, two_layer_from

__all__ = [
    "CutCertificate",
    "DualCut",
    "TwoLayerCertificate",
    "best_topology_bound",
    "cut_value",
    "dual_cut",
    "evaluate_cases",
    "evaluate_cut",
    "evaluate_cut_mixture",
    "evaluate_layered",
    "evaluate_relay",
    "evaluate_two_layer",
    "group_cut_bound",
    "hops_beyond",
    "layered_bound",
    "node_cut_bound",
    "topology_bounds",
    "two_layer_from",
]
