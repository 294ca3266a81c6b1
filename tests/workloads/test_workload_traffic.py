"""Element sizes, and the model-parallel bytes that follow from them."""

from __future__ import annotations

from typing import Literal

import pytest

from topoopt.core.workload import Workload
from topoopt.workloads.models import build_workload
from topoopt.workloads.operators import DEVICES


def expand(model: str, rule: Literal["actual", "flexnet"], servers: int = 16, **sizes: int) -> Workload:
    return build_workload(model, sizes, servers=servers, gpus_per_server=4, costs=DEVICES["a100"], element_sizes=rule)


def uniform_plan_bytes(workload: Workload, servers: int) -> dict[tuple[int, int], int]:
    """Bytes i -> j, forward and backward, with table t on server t mod n and all else split n ways by samples."""
    holders = {}
    tables = 0
    for index, operator in enumerate(workload.operators):
        if operator.kind == "embedding":
            holders[index] = [tables % servers]
            tables += 1
        else:
            holders[index] = list(range(servers))
    cells: dict[tuple[int, int], int] = {}
    for index, operator in enumerate(workload.operators):
        for edge in operator.inputs:
            producer = workload.operators[edge.producer]
            for q, target in enumerate(holders[index]):
                for p, source in enumerate(holders[edge.producer]):
                    low = max(
                        q * workload.samples // len(holders[index]), p * workload.samples // len(holders[edge.producer])
                    )
                    high = min(
                        (q + 1) * workload.samples // len(holders[index]),
                        (p + 1) * workload.samples // len(holders[edge.producer]),
                    )
                    if source == target or high <= low:
                        continue
                    moved = (high - low) * producer.output_elements * producer.element_bytes
                    for pair in ((source, target), (target, source)):
                        cells[pair] = cells.get(pair, 0) + moved
    return cells


def test_uniform_dlrm_plan_moves_one_gigabyte() -> None:
    """One table a server, 8-byte elements: every cell 4 194 304 B, sum 1 006 632 960 B."""
    cells = uniform_plan_bytes(expand("dlrm", "flexnet"), 16)
    assert len(cells) == 240
    assert set(cells.values()) == {4_194_304}
    assert sum(cells.values()) == 1_006_632_960


def test_actual_element_sizes_halve_dlrm_traffic() -> None:
    """With 4-byte activations the same plan moves half the bytes."""
    cells = uniform_plan_bytes(expand("dlrm", "actual"), 16)
    assert sum(cells.values()) == 1_006_632_960 // 2


def test_dlrm_128_transfer_is_half_a_mebibyte_and_totals_match() -> None:
    """128 servers, 64 tables: 512 samples x 128 x 8 B = 524 288 B each way, 64 x 127 x 2 transfers."""
    workload = expand(
        "dlrm", "flexnet", 128, tables=64, embedding_dim=128, bottom_width=2048, top_width=4096, samples_per_gpu=128
    )
    cells = uniform_plan_bytes(workload, 128)
    assert sum(cells.values()) == 64 * 127 * 2 * 524_288
    assert sum(cells.values()) == pytest.approx(8.52e9, rel=1e-3)


def test_quirk_follows_the_first_input() -> None:
    """DLRM's concat starts from the bottom MLP (4 B); all of NCF starts from tables (8 B); CANDLE is 4 B throughout."""
    dlrm = {o.name: o.element_bytes for o in expand("dlrm", "flexnet").operators}
    assert (dlrm["table0"], dlrm["concat"], dlrm["top0"], dlrm["bottom0"]) == (8, 4, 4, 4)
    assert {o.element_bytes for o in expand("ncf", "flexnet", tables=2).operators} == {8}
    assert {o.element_bytes for o in expand("candle", "flexnet").operators} == {4}
    assert {o.element_bytes for model in ("ncf", "moe") for o in expand(model, "actual").operators} == {4}
