"""Schedules of others that are known to mislead: traces of ASTRA-sim, composed algorithms of SCCL."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.analyses.test_collective_audit import audited, laws
from tests.support import written_schedules as written
from tests.support.paths import SHARED_DATA
from topoopt.formats.chakra.read import read_schedule as read_traces
from topoopt.formats.msccl import read_schedule as read_algorithm
from topoopt.formats.schedules import ScheduleOptions

CHAKRA = SHARED_DATA / "chakra"
RING = CHAKRA / "custom_ring_allreduce_8npus_1MB"
RING_OF_8 = ("--topology", "family: ring, servers: 8, links: unidirectional, link_gbytes_per_s: 10")
needs_data = pytest.mark.skipif(not CHAKRA.exists(), reason=f"no {CHAKRA}")
MIB = 1 << 20


@needs_data
def test_a_ring_of_astra_sim_takes_what_theory_says() -> None:
    """2 (N-1) steps of M/N bytes over links of 10 GB/s: with a latency a message, and no other cost."""
    found = audited(RING, "chakra", *RING_OF_8, "--collective", "allreduce", "--bytes", "1MiB", "--set", "message_us=3")
    assert (found["verdict"], found["messages"], found["ranks"]) == ("valid", 14 * 8, 8)
    assert found["recomputed"]["steps"] == 14
    assert found["recomputed"]["time_us"] == pytest.approx(14 * (3 + MIB / 8 / 10e3))
    assert found["bound"]["time_us"] == pytest.approx(14 / 8 * MIB / 10e3)
    assert any("does not say which bytes" in note for note in found["notes"])


@needs_data
def test_a_time_unlike_theory_is_wrong() -> None:
    """A simulated time below 2 (N-1)/N M over the link is no time of this schedule, nor of any."""
    claim = f"{14 / 8 * MIB / 10e3 * 0.99:.6f}us"
    more = ("--collective", "allreduce", "--bytes", "1MiB", "--set", f"claim={claim}")
    assert laws(audited(RING, "chakra", *RING_OF_8, *more, code=6)) == {"bound", "claim"}


@needs_data
def test_a_trace_and_its_algorithm_send_the_same() -> None:
    """The traces were converted from the MSCCL algorithm beside them: the same eighths over the same links."""
    sent = []
    options = ScheduleOptions(collective=None)
    algorithm = read_algorithm(RING / "custom_allreduce.xml", options)
    for program, unit in (
        (read_traces(RING, ScheduleOptions(collective=algorithm.collective)), 1),
        (algorithm, MIB // algorithm.vector_units),
    ):
        messages = program.messages
        columns = (messages.tail.tolist(), messages.head.tolist(), (messages.units * unit).tolist())
        sent.append(Counter(zip(*columns, strict=True)))
    assert sent[0] == sent[1]
    assert set(sent[0].values()) == {14}


@needs_data
def test_sizes_baked_into_traces_are_not_those_of_a_larger_vector() -> None:
    """The files say 128 KiB a message: called an AllReduce of 10 MiB they would be ten times faster than any."""
    more = ("--collective", "allreduce", "--bytes", "10MiB")
    found = audited(RING, "chakra", *RING_OF_8, *more, code=6)
    assert laws(found) == {"bound"}
    assert "too few bytes" in found["reasons"][0]


@needs_data
@pytest.mark.parametrize(
    ("servers", "said"), [(4, "the schedule has 8 ranks, the topology 4 compute nodes"), (16, "8 of 16 ranks are")]
)
def test_a_custom_collective_is_for_one_size_of_group(servers: int, said: str) -> None:
    """ASTRA-sim runs the files of 8 ranks in groups of any size; here they fit 8 compute nodes alone."""
    where = ("--topology", f"family: ring, servers: {servers}, links: unidirectional, link_gbytes_per_s: 10")
    found = audited(RING, "chakra", *where, "--collective", "allreduce", "--bytes", "1MiB", code=6)
    reason = next(one for one in found["reasons"] if one.startswith("ranks:"))
    assert reason.startswith(f"ranks: {said}")


@needs_data
def test_traces_with_a_rank_or_a_link_amiss(tmp_path: Path) -> None:
    """Without the files of one rank its peers wait for ever; a ring the other way round has none of the links."""
    for file in RING.glob("*.et"):
        shutil.copy(file, tmp_path / file.name)
    shutil.copy(tmp_path / "custom_allreduce.0.et", tmp_path / "custom_allreduce.5.et")
    wrong = audited(tmp_path, "chakra", "--collective", "allreduce", code=6)
    assert laws(wrong) & {"deadlock", "message"}
    back = ", ".join(f"[{(k + 1) % 8}, {k}, 10]" for k in range(8))
    more = ("--topology", f"links: [{back}]", "--collective", "allreduce", "--bytes", "1MiB")
    assert laws(audited(RING, "chakra", *more, code=6)) == {"link"}


@needs_data
@pytest.mark.parametrize("name", ["all_reduce", "all_to_all"])
def test_traces_of_whole_collectives_hold_no_schedule(name: str) -> None:
    """The microbenchmarks name the collective in one node a rank: there is nothing to execute."""
    from typer.testing import CliRunner

    from topoopt.cli.app import app

    folder = str(CHAKRA / name / "8npus_1MB")
    result = CliRunner().invoke(app, ["collective", "audit", folder, "--format", "chakra", "--collective", "allreduce"])
    assert result.exit_code == 2
    assert "its schedule is not in the traces" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("input_map", "odd"),
    [({"0": [0, 1, 2], "1": [0, 1, 2], "2": [0, 1, 2]}, False), ({"0": [0], "1": [1], "2": [2]}, True), ({}, False)],
)
def test_composed_algorithms_with_an_odd_input_map(input_map: dict[str, list[int]], odd: bool, tmp_path: Path) -> None:
    """A ReduceScatter and an AllGather in one file: what it sends is right, that only its own part is input is not."""
    ring = [(rank, (rank + 1) % 3) for rank in range(3)]
    down = [[((rank - step) % 3, rank, to) for rank, to in ring] for step in range(2)]
    on = [[((rank + 1 - step) % 3, rank, to) for rank, to in ring] for step in range(2)]
    chunks = [([0, 1, 2], [0, 1, 2], address) for address in range(3)]
    every = {str(rank): [0, 1, 2] for rank in range(3)}
    steps = [(1, sends) for sends in (*down, *on)]
    file = written.sccl(tmp_path / "a.json", "Allreduce", 3, chunks, steps, maps=(input_map, every))
    found = audited(file, "sccl")
    assert found["verdict"] == "valid"
    assert any("input_map gives rank 0 the addresses 0, its chunks 0, 1, 2" in note for note in found["notes"]) is odd
