"""Problems of kind `collective` made in code, as `topoopt.library.problems` does for the other kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from topoopt.core.collective import CollectiveProblem
from topoopt.library.instances import instance_from_dict

Section = Mapping[str, Any]


def collective_problem(
    *,
    topology: Section,
    collective: str,
    bytes: int | str,
    root: int = 0,
    latency_us: Section | None = None,
    switches: Section | None = None,
    relaying: bool = True,
    objective: str = "time",
    limits: Section | None = None,
    search: Section | None = None,
    name: str = "collective",
) -> CollectiveProblem:
    """A collective on a network with switches and rates, whose schedule is sought.

        problem = topoopt.collective_problem(
            topology={"preset": "dgx-a100", "boxes": 2}, collective="allgather", bytes="1GiB"
        )

    Args:
        topology: preset, family, links or file.
        collective: allreduce, allgather, reduce-scatter, all-to-all, broadcast or reduce.
        bytes: the whole vector, a number or a text like `1GiB`.
        root: rank of a broadcast or reduction.
        latency_us: link, message.
        switches: multicast.
        relaying: whether ranks pass on what is not for them.
        objective: time, throughput, latency or pareto.
        limits: trees_per_root, steps.
        search: method, seed, time_limit_s.
        name: of the instance.
    """
    fields: Section = {"topology": topology, "collective": collective, "bytes": bytes, "root": root}
    asked = {"latency_us": latency_us, "switches": switches, "relaying": relaying, "objective": objective}
    stated = {key: value for key, value in {**asked, "limits": limits, "search": search}.items() if value is not None}
    document = {"schema_version": 1, "kind": "collective", "name": name, **fields, **stated}
    return cast(CollectiveProblem, instance_from_dict(document))
