"""The stages of a pipeline, found again from the devices of its operators.

Of all orders of the devices in which nothing runs backwards the solution states the first one: the next is always the
first device of the file that waits for no other one. Interleaved stages are the earliest ones.
"""

from __future__ import annotations

from topoopt.core.arrays import Ints
from topoopt.core.placement import PlacementProblem, Throughput
from topoopt.core.placement_solution import PlacementSolution
from topoopt.verify.laws.findings import ViolationLog, int_array


def order_edges(problem: PlacementProblem) -> list[tuple[int, int]]:
    """Pairs of operators of which the first may not be in a later stage than the second.

    Forward tensors; and, reversed, backward tensors at operators without a forward one in their co-located group.
    """
    orphan = [False] * len(problem.operators)
    for members in problem.colocated():
        if all(problem.operators[i].backward for i in members):
            for i in members:
                orphan[i] = True
    pairs = []
    for tensor in problem.tensors:
        for user in tensor.consumers:
            one, other = problem.operators[tensor.producer].backward, problem.operators[user].backward
            if not other:
                pairs.append((tensor.producer, user))
            elif one and (orphan[tensor.producer] or orphan[user]):
                pairs.append((user, tensor.producer))
    return pairs


def device_order(problem: PlacementProblem, device: Ints) -> list[int] | None:
    """Devices in use, in the order of their stages; None if two of them wait for each other."""
    at = device.tolist()
    waits = {(at[a], at[b]) for a, b in order_edges(problem) if at[a] != at[b]}
    left, order = sorted(set(at)), []
    while left:
        free = next((d for d in left if not any((e, d) in waits for e in left)), None)
        if free is None:
            return None
        order.append(free)
        left.remove(free)
    return order


def earliest_stages(problem: PlacementProblem, device: Ints, stages: int) -> list[int] | None:
    """Earliest stage of every operator, of those its device has (d, d + k, ...); None if there are too few."""
    k = len(problem.devices)
    group_of = {i: g for g, members in enumerate(problem.colocated()) for i in members}
    stage = [int(device[members[0]]) for members in problem.colocated()]
    edges = {(group_of[a], group_of[b]) for a, b in order_edges(problem)}
    raised = True
    while raised:
        raised = False
        for a, b in edges:
            if stage[a] > stage[b]:
                stage[b] += -(-(stage[a] - stage[b]) // k) * k
                raised = True
                if stage[b] >= stages:
                    return None
    return [stage[group_of[i]] for i in range(len(device))]


def check_stages(
    findings: ViolationLog, problem: PlacementProblem, settings: Throughput, solution: PlacementSolution, device: Ints
) -> None:
    """That stages exist, and are those stated; free sets have none."""
    if settings.stages == "free":
        if solution.stage is not None:
            findings.add("stages", "stages are stated, but sets are free")
        return
    if settings.stages == "interleaved":
        stages = len(problem.devices) * settings.stages_per_device
        expected = earliest_stages(problem, device, stages)
        fault = f"no order of {stages} stages has every tensor run forwards"
    else:
        order = device_order(problem, device)
        expected = None if order is None else [order.index(d) for d in device.tolist()]
        fault = "no order of the devices has every tensor run forwards"
    if expected is None:
        findings.add("order", fault)
        return
    stated = int_array(solution.stage, 1) if solution.stage is not None else None
    if stated is None or len(stated) != len(device):
        findings.add("stages", "no stage for each operator")
        return
    wrong = [i for i, stage in enumerate(stated.tolist()) if stage != expected[i]]
    findings.add_each(
        "stages", wrong, lambda i: f"{problem.operators[i].name!r} is in stage {expected[i]}, not {stated[i]}"
    )
