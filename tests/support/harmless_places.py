"""What may be changed in a valid solution file without anybody objecting, kind by kind, with the reason.

Free text, and changes that leave a solution as right as before.
"""

from __future__ import annotations

from tests.support.corruption import PROVENANCE, Harmless

LESS = (Harmless("status", "claims less than is proven", "now 'feasible'"),)
CLAIMS = (Harmless("*claimed_bound*", "nobody vouches for it, and the file says so"),)
LINKS = (
    Harmless("plan.origin", "for people"),
    Harmless("plan.circuits", "which switch has which permutation says nothing", "two swapped"),
)
WITNESSES = (
    Harmless("tree.*", "whatever lengths prove the bound are right"),
    Harmless("*certificate*", "whatever numbers prove what is stated are right"),
    Harmless("plan.flows.*.dims*", "of a flow with a row for each source they say nothing"),
)
NETWORK = (*PROVENANCE, *LESS, *CLAIMS, *LINKS, *WITNESSES)
SURVIVING = (
    *NETWORK,
    Harmless("plan.robust", "where the instance asks for none, nothing need be said of failures"),
    Harmless("plan.robust.nominal*", "the check says that it does not know the other topology"),
    Harmless("plan.robust.enumerated_theta", "nobody vouches for it, and the page says so"),
)
GIVEN = (*PROVENANCE, *LESS, *CLAIMS, *WITNESSES)
HIERARCHY = (
    *PROVENANCE,
    *LESS,
    *CLAIMS,
    *WITNESSES,
    Harmless("plan.front*", "a front of fewer points is coarser", "entry dropped"),
    Harmless("plan.front", "the same", "emptied"),
    Harmless("plan.front", "the same", "key dropped"),
    Harmless("plan.front.*.limit_ns", "a longer limit, kept all the same", "x*"),
    Harmless("plan.front.*.limit_ns", "the same", "+1"),
    Harmless("plan.front.*.bandwidth_gbytes_per_s", "of dimensions that are alike, within the accuracy", "two swapped"),
    Harmless("bound.argument", "sums of bytes and prices prove the same", "now *"),
)
SHARED = (
    *PROVENANCE[:2],
    *PROVENANCE[3:],
    *LESS,
    *CLAIMS,
    Harmless("plan.schedules", "the check names the fabrics that are not there", "entry dropped"),
)
FLOWS = (
    *SHARED,
    Harmless("seed", "of draws; all jobs on shards of their own take the time of their class"),
    Harmless("plan.classes.*.strategies*", "of fabrics that are compared: any legal strategy is one"),
    Harmless("plan.classes.*.shard.origin", "how it was made, for people"),
    Harmless("plan.classes.*.shard.switches", "switches that are exchanged join the same servers", "two swapped"),
    Harmless("plan.classes.*.shard.rings*", "other rings that take the same time are as good", "two swapped"),
)
PLACED = (
    *PROVENANCE,
    *LESS,
    *CLAIMS,
    Harmless("certificates*.limit_ms.*", "any limit above the bound proves the same"),
    Harmless("certificates*.walk.*", "any walk that ends within its limits proves the same"),
    Harmless("plan.link_shares.*.gbps", "less for a pair whose transfers nothing waits for is as fast", "x0.*"),
    Harmless("plan.link_shares.*.gbps", "the same", "-1"),
)
TRACED = (*SHARED, Harmless("seed", "of draws; a trace on the lowest servers draws nothing"))
JOB = (
    *PROVENANCE,
    *LESS,
    *WITNESSES,
    Harmless("bound.derived", "that it is only claimed is the weaker statement", "turned"),
    Harmless("plan.topology.origin", "for people"),
    Harmless("plan.topology.switches", "which switch has which permutation says nothing", "two swapped"),
    Harmless("plan.rings", "the order of groups says nothing", "two swapped"),
    Harmless("plan.rings.*", "rings of equal shares may change places", "two swapped"),
    Harmless("plan.schedules", "none is the default", "key dropped"),
    Harmless("plan.link_sharing", "the default is that of the plan", "key dropped"),
    Harmless("plan.comparison*", "strategies on other fabrics are compared, not checked; they must be legal"),
)
CIRCUITS = (
    *PROVENANCE,
    *LESS,
    *WITNESSES,
    *(
        Harmless("bound.value", "less is the weaker statement, and its page says so", how)
        for how in ("x0*", "-1", "zero")
    ),
    Harmless("certificates.*.arrays.*", "a witness: other trees, paths, weights and prices may prove the same"),
    Harmless("certificates.*.arrays.circuits_bound*", "fewer is the weaker statement, and its page says so"),
    Harmless("plan.fastest*", "another plan that takes as long is as good"),
    Harmless("plan.circuits*", "another plan within the ports that takes as long; its page counts its circuits"),
)
REGION = (
    *PROVENANCE,
    *LESS,
    *WITNESSES,
    Harmless("plan.topologies.*.*.[012]", "other circuits that no step is slower with, within ports"),
    Harmless("plan.topologies.*", "the same without circuits that no step needs", "entry dropped"),
)
PARALLEL = (
    *PROVENANCE,
    *LESS,
    *WITNESSES,
    Harmless("plan.configurations", "the order of the configurations of a switch says nothing", "two swapped"),
)
COLLECTIVE = (
    *PROVENANCE,
    *LESS,
    *CLAIMS,
    Harmless("certificates*", "whatever sets and lengths prove the bound are right"),
    Harmless("plan.front.*.method", "a check names it as not recomputed"),
    Harmless("plan.front.*.pieces", "a check names it as not recomputed"),
    Harmless("plan.send_block", "blocks that go over one route in one step, exchanged", "two swapped"),
    Harmless("plan.front.*", "the next one serves its sizes, too: the weaker statement", "entry dropped"),
)
TRAINING = (
    *PROVENANCE,
    *LESS,
    Harmless("plan.fabrics.*.places", "servers in their order need not be listed", "emptied"),
    Harmless("plan.fabrics.*.places", "the same", "key dropped"),
    Harmless("plan.fabrics.*.rings.*.orders*", "a ring twice shares the bytes with itself", "entry doubled"),
    Harmless("plan.fabrics.*.rings*", "the order of groups says nothing, nor does where a ring begins", "two swapped"),
    Harmless("plan.fabrics.*.links", "the order of the rows says nothing", "two swapped"),
    Harmless("plan.fabrics.*.routes", "a link is the way between its ends, also where two halves of it are listed"),
    Harmless("plan.fabrics.*.routes.*.path.*", "another way over links that are no fuller"),
    Harmless("plan.fabrics.*.next*", "others that are shown beside the plan: any of the space may be"),
)
PODS = (
    *TRAINING,
    *(
        Harmless("certificates.*.pod_bounds_s*", "less is the weaker statement, and its page says so", how)
        for how in ("x0*", "-1", "zero")
    ),
    *(
        Harmless("certificates.*.circuits_bound*", "less is the weaker statement, and its page says so", how)
        for how in ("x0*", "-1", "zero")
    ),
    Harmless("certificates.*.pod_bounds_s*", "the tree of one searched may prove more than it states", "x1*"),
    Harmless("certificates.*.rest_s*", "less is the weaker statement where another bound is less still", "x0*"),
    *(
        Harmless(f"certificates.*.{name}*", "a witness: another one may prove the same")
        for name in (
            "makespan_tree", "circuits_tree", "steps", "group_sizes", "path_sizes", "weight_paths", "weights",
            "mean_sizes", "prices",
        )
    ),
    Harmless("plan.fabrics.*.pods.candidates.*.circuits*", "other circuits that take as long are as good"),
    Harmless(
        "plan.fabrics.*.pods.circuits", "other circuits that take as long, and are as few, are as good", "two swapped"
    ),
    Harmless("plan.fabrics.*.pods.candidates", "the order of strategies of one bound says nothing", "two swapped"),
)  # fmt: skip

ROUTED = (
    *TRAINING,
    Harmless("instance.model.ffn_hidden", "every layer has experts: the same model, by its hash"),
)
SCHEDULES = (
    *ROUTED,
    Harmless("plan.fabrics.*.schedules*", "the order of groups and of rows of a schedule says nothing", "two swapped"),
)
