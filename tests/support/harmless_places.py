"""What may be changed in a valid solution file without anybody objecting, kind by kind, with the reason.

Free text, and changes that leave a solution as right as before.
"""

from __future__ import annotations

from tests.support.corruption import PROVENANCE, Harmless

LESS = (Harmless("status", "claims less than is proven", "now 'feasible'"),)
CLAIMS = (Harmless("*claimed_bound*", "nobody vouches for it, and the file says so"),)
LINKS = (
    Harmless("topology.origin", "for people"),
    Harmless("topology.offsets", "a circulant need not be called one", "emptied"),
    Harmless("topology.switches", "which switch has which permutation says nothing", "two swapped"),
)
WITNESSES = (
    Harmless("enumeration.*", "whatever lengths prove the bound are right"),
    Harmless("tree.*", "whatever lengths prove the bound are right"),
    Harmless("blocks.*", "whatever prices prove the bound are right"),
    Harmless("*certificate*", "whatever numbers prove what is stated are right"),
    Harmless("layer_prices*", "whatever prices prove the bound are right"),
    Harmless("relay_prices*", "whatever prices prove the bound are right"),
    Harmless("relay_cases.*", "whatever prices prove the bound are right"),
    Harmless("routing.prices*", "whatever prices prove the bound are right"),
    Harmless("routing.lengths*", "whatever lengths prove the bound are right"),
    Harmless("routing.hop_flows*", "a last hop that nobody uses may be left out", "entry dropped"),
)
NETWORK = (*PROVENANCE, *LESS, *CLAIMS, *LINKS, *WITNESSES)
SURVIVING = (
    *NETWORK,
    Harmless("robustness", "where the instance asks for none, nothing need be said of failures"),
    Harmless("robustness.failures", "the check says that it does not know theta then", "emptied"),
    Harmless("robustness.failures", "the same", "key dropped"),
    Harmless("robustness.lengths*", "the check says that the last digits are not proven"),
    Harmless("robustness.nominal*", "the check says that it does not know the other topology"),
    Harmless("robustness.worst_link*", "of links that are alike any one is the worst"),
)
GIVEN = (*PROVENANCE, *LESS, *CLAIMS, *WITNESSES)
HIERARCHY = (
    *PROVENANCE,
    *LESS,
    *CLAIMS,
    *WITNESSES,
    Harmless("collectives", "the order of the rows says nothing", "two swapped"),
    Harmless("pareto", "a front of fewer points is coarser", "entry dropped"),
    Harmless("pareto.*.bandwidth_gbytes_per_s", "of dimensions that are alike, within the accuracy", "two swapped"),
    Harmless("bound.proved_by", "sums of bytes and prices prove the same", "now *"),
)
SHARED = (
    *PROVENANCE[:2],
    *PROVENANCE[3:],
    *LESS,
    *CLAIMS,
    Harmless("fabrics.*.1", "what a fabric is, for people"),
    Harmless("plans.*.topology", "how it was made, for people"),
    Harmless("runs", "the check names the fabrics that are not there", "entry dropped"),
)
FLOWS = (
    *SHARED,
    Harmless("plans.*.alone_ms", "named as not recomputed: flows of jobs are not simulated again"),
    Harmless("draws.*.times_ms*", "the same"),
)
PLACED = (
    *PROVENANCE,
    *LESS,
    *CLAIMS,
    Harmless("bound.proved_by", "assignments and pipelines prove the same", "now 'all-*'"),
)
TRACED = (*SHARED, Harmless("seed", "of draws; a trace on the lowest servers draws nothing"))
JOB = (
    *PROVENANCE,
    *LESS,
    *WITNESSES,
    Harmless("initial_ms", "history of the search, which a check names as not recomputed"),
    Harmless("convergence*", "history of the search, which a check names as not recomputed; its end is checked"),
    Harmless("prices", "a solution without prices is one, and a check says so", "null"),
    Harmless("prices", "a solution without prices is one, and a check says so", "key dropped"),
    Harmless("prices.book_sha256", "prices of a book that is not at hand are named as not recomputed", "no text"),
    Harmless("baselines.*.description", "for people"),
    Harmless("baselines.*.graph.links", "the order of the rows says nothing", "two swapped"),
    Harmless("baselines.*.graph.rings*", "other rings that take the same time are as good", "two swapped"),
    Harmless("baselines.*.graph.rings", "a ring twice shares the bytes with itself", "entry doubled"),
    Harmless("plan.topology.origin", "for people"),
    Harmless("plan.topology.offsets", "a circulant need not be called one", "emptied"),
    Harmless("plan.topology.switches", "which switch has which permutation says nothing", "two swapped"),
    Harmless("plan.rings.*.members", "a group is a set", "two swapped"),
    Harmless("plan.rings.*.rings", "rings of equal shares may change places", "two swapped"),
    Harmless("demand.allreduce.*.1", "a group is a set", "two swapped"),
)
CIRCUITS = (
    *PROVENANCE,
    *LESS,
    *WITNESSES,
    *(
        Harmless("bound.value", "less is the weaker statement, and its page says so", how)
        for how in ("x0*", "-1", "zero")
    ),
    Harmless("proof.*_tree*", "a witness: another tree may prove the same"),
    Harmless("proof.paths*", "a witness: what no mean has proves nothing"),
    Harmless("proof.means*", "a witness: other weights and prices may prove the same"),
    Harmless("proof.circuits_bound", "fewer is the weaker statement, and its page says so", "x0*"),
    Harmless("proof.circuits_bound", "the same", "-1"),
    Harmless("proof.circuits_bound", "the same", "zero"),
    Harmless("fastest*", "another plan that takes as long is as good"),
)
REGION = (
    *PROVENANCE,
    *LESS,
    *WITNESSES,
    Harmless("proofs*", "a witness: another one may prove the same"),
    Harmless("topologies.*.*.[012]", "other circuits that no step is slower with, within ports"),
    Harmless("topologies.*", "the same without circuits that no step needs", "entry dropped"),
)
COLLECTIVE = (
    *PROVENANCE,
    *LESS,
    *CLAIMS,
    Harmless("proof*", "whatever sets and lengths prove the bound are right"),
    Harmless("front.*.method", "a check names it as not recomputed"),
    Harmless("front.*.pieces", "a check names it as not recomputed"),
)
TRAINING = (
    *PROVENANCE,
    *LESS,
    Harmless("fabrics.*.tried", "how many strategies the search made a network for; the page of the checker names it"),
    Harmless("fabrics.*.places", "servers in their order need not be listed", "emptied"),
    Harmless("fabrics.*.places", "the same", "key dropped"),
    Harmless("fabrics.*.rings.*.orders*", "a ring twice shares the bytes with itself", "entry doubled"),
    Harmless("fabrics.*.rings*", "the order of groups says nothing, nor does where a ring begins", "two swapped"),
    Harmless("fabrics.*.links", "the order of the rows says nothing", "two swapped"),
    Harmless("fabrics.*.loads", "the order of the rows says nothing", "two swapped"),
    Harmless("fabrics.*.routes", "a link is the way between its ends, also where two halves of it are listed"),
    Harmless("fabrics.*.routes.*.path.*", "another way over links that are no fuller"),
    Harmless("fabrics.*.next*", "times on networks that are not kept, which a check names as not recomputed"),
)
PODS = (
    *TRAINING,
    *(
        Harmless("fabrics.*.pods.tried.*.bound_s", "less is the weaker statement, and its page says so", how)
        for how in ("x0*", "-1", "zero")
    ),
    *(
        Harmless("fabrics.*.pods.proof.circuits_bound", "less is the weaker statement, and its page says so", how)
        for how in ("x0*", "-1", "zero")
    ),
    Harmless("fabrics.*.pods.tried.*.bound_s", "the tree of one searched may prove more than it states", "x1*"),
    Harmless("fabrics.*.pods.others_s", "less is the weaker statement where another bound is less still", "x0*"),
    Harmless("fabrics.*.pods.proof.*_tree*", "a witness: another tree may prove the same"),
    Harmless("fabrics.*.pods.proof.paths*", "a witness: what no mean has proves nothing"),
    Harmless("fabrics.*.pods.proof.means*", "a witness: other weights and prices may prove the same"),
    Harmless("fabrics.*.pods.tried.*.tree*", "a witness: another tree may prove the same"),
    Harmless("fabrics.*.pods.tried.*.paths*", "a witness: what no mean has proves nothing"),
    Harmless("fabrics.*.pods.tried.*.means*", "a witness: other weights and prices may prove the same"),
    Harmless("fabrics.*.pods.tried.*.counts*", "other circuits that take as long are as good"),
    Harmless("fabrics.*.pods.links.*", "other circuits that take as long, and are as few, are as good", "two swapped"),
    Harmless("fabrics.*.pods.tried", "the order of strategies of one bound says nothing", "two swapped"),
)

SCHEDULES = (
    *TRAINING,
    *(
        Harmless(f"fabrics.*.loads.*.{figure}", "beside schedules, which a check names as not recomputed")
        for figure in ("bytes_sent", "seconds", "exposed_s", "gbytes_per_s", "shared_gbytes_per_s")
    ),
    Harmless("fabrics.*.schedules*", "the order of groups and of rows of a schedule says nothing", "two swapped"),
)
