"""`topoopt collective audit`: peers' schedules get the verdicts that follow from their own files and topologies."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support import written_schedules as written
from tests.support.paths import SHARED_DATA
from topoopt.cli.app import app

DATA = SHARED_DATA / "collectives"
needs_data = pytest.mark.skipif(not DATA.exists(), reason=f"no {DATA}")
RING_3 = "links: [[0, 1, 10], [1, 2, 10], [2, 0, 10]]"


def audited(file: Path, form: str, *more: str, code: int = 0) -> dict[str, Any]:
    """The JSON object of an audit."""
    result = CliRunner().invoke(app, ["collective", "audit", str(file), "--format", form, "--json", *more])
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def laws(found: dict[str, Any]) -> set[str]:
    """The laws that reasons name."""
    return {reason.partition(":")[0] for reason in found["reasons"]}


def flows(name: str) -> list[tuple[int, int, int, str | None]]:
    """(tail, head, epoch, switch) of a file of TE-CCL, read apart from the reader under test."""
    document = json.loads((DATA / "teccl" / name).read_text())
    lines = next(value for key, value in document.items() if key.endswith("-Flows"))
    pattern = re.compile(r"over (\d+)->(\d+).* in epoch (\d+)(?: via switches (\d+))?")
    found = [pattern.search(line) for line in lines]
    return [(int(one[1]), int(one[2]), int(one[3]), one[4]) for one in found if one is not None]


@needs_data
def test_dgx2_allgather_needs_switches_that_copy() -> None:
    """Without copies in the switch an uplink carries 45 chunks of 31 250 bytes at 125 GB/s: 11.25 us, claimed 10.75."""
    name = "dgx2_2_allgather_fast_1MB.json"
    copies = Counter((tail, switch) for tail, _, _, switch in flows(name) if switch is not None)
    assert max(copies.values()) == 45
    found = audited(DATA / "teccl" / name, "teccl", "--topology", "preset: dgx2, boxes: 2")
    assert found["verdict"] == "valid-with-multicast"
    assert found["recomputed"]["busiest_link_us"] == pytest.approx(45 * 31_250 / 125e3)
    assert found["claimed"]["algbw_gbytes_per_s"] == pytest.approx(93.0233, abs=1e-4)
    assert found["bound"]["algbw_gbytes_per_s"] == pytest.approx(129.0323, abs=1e-4)
    granted = audited(DATA / "teccl" / name, "teccl", "--topology", "preset: dgx2, boxes: 2", "--set", "multicast=true")
    assert granted["verdict"] == "valid"
    assert granted["reasons"] == []


@needs_data
def test_dgx2_all_to_all_relays() -> None:
    """Odd GPUs alone have links to the other box: the rest goes through them; no schedule exceeds 12.5 GB/s."""
    file = DATA / "teccl" / "dgx2_2_alltoall_slow_1GB.json"
    found = audited(file, "teccl", "--topology", "preset: dgx2, boxes: 2")
    assert (found["verdict"], found["collective"]) == ("valid-with-relaying", "all-to-all")
    assert found["bound"]["algbw_gbytes_per_s"] == pytest.approx(12.5)
    last = max(epoch for _, _, epoch, _ in flows(file.name))
    assert found["recomputed"]["time_us_by_epochs"] == pytest.approx((last + 1) * 2_500)
    assert found["recomputed"]["busiest_link_us"] == pytest.approx(256 * 1e9 / 32 / 12.5e3 / 8)
    assert (
        audited(file, "teccl", "--topology", "preset: dgx2, boxes: 2", "--set", "relaying=true")["verdict"] == "valid"
    )


@needs_data
@pytest.mark.parametrize(
    ("name", "bound", "beaten"),
    [("ndv2_2_alltoall_slow_1MB.json", 3.125, True), ("ndv2_2_allgather_fast_1GB.json", 25.0, False)],
)
def test_ndv2_takes_a_gpu_for_a_switch(name: str, bound: float, beaten: bool) -> None:
    """15 of 16 GPUs take part; the All-to-All claims more than the cut between the boxes carries."""
    found = audited(DATA / "teccl" / name, "teccl", "--topology", "preset: ndv2, boxes: 2", code=6)
    assert found["verdict"] == "invalid"
    reasons = "\n".join(found["reasons"])
    assert "15 of 16 ranks are sources and destinations, 210 of 240 pairs" in reasons
    assert "node 0 is a rank of the topology, and a switch in the schedule" in reasons
    assert found["bound"]["algbw_gbytes_per_s"] == pytest.approx(bound)
    assert ("bound" in laws(found)) is beaten


@needs_data
def test_ndv2_sends_56_chunks_each_way() -> None:
    """7 x 8 pairs cross each way where 8 x 8 are due; 56 chunks of 62 500 bytes take 280 us at 12.5 GB/s."""
    name = "ndv2_2_alltoall_slow_1MB.json"
    crossing = Counter(tail < 8 for tail, head, _, _ in flows(name) if (tail < 8) != (head < 8))
    assert crossing == {True: 56, False: 56}
    found = audited(DATA / "teccl" / name, "teccl", "--topology", "preset: ndv2, boxes: 2", code=6)
    assert found["recomputed"]["busiest_link_us"] == pytest.approx(56 * 62_500 / 12.5e3)


@needs_data
@pytest.mark.parametrize(
    ("form", "name", "collective", "ranks"),
    [
        ("msccl", "teccl/amd_32.msccl.xml", "allgather", 32),
        ("mscclpp", "mscclpp/allreduce.json", "allreduce", 2),
        ("mscclpp", "mscclpp/allreduce_packet.json", "allreduce", 2),
        ("mscclpp", "mscclpp/reduce.json", "allreduce", 2),
        ("mscclpp", "mscclpp/transfer_pack.json", "allgather", 2),
    ],
)
def test_shipped_programs_do_what_they_say(form: str, name: str, collective: str, ranks: int) -> None:
    found = audited(DATA / name, form)
    assert (found["verdict"], found["collective"], found["ranks"]) == ("valid", collective, ranks)
    assert found["bound"] is None


@needs_data
@pytest.mark.parametrize("block", [0, 7, 31])
def test_a_shipped_algorithm_without_a_receive(block: int, tmp_path: Path) -> None:
    """One receive less, and its sender is left alone; all numbers of steps stay."""
    text = (DATA / "teccl/amd_32.msccl.xml").read_text()
    steps = [one.start() for one in re.finditer(r'<step s="\d+" type="r"', text)]
    place = steps[block * 10]
    changed = text[:place] + text[place:].replace('type="r"', 'type="nop"', 1)
    (tmp_path / "a.xml").write_text(changed)
    found = audited(tmp_path / "a.xml", "msccl", code=6)
    assert laws(found) & {"message", "deadlock"}
    assert "gpu" in found["reasons"][0]


def test_copies_in_a_switch(tmp_path: Path) -> None:
    """Four GPUs at a switch send to three others in one epoch each: with copies 4 epochs, without 3 on each uplink."""
    ranks = [1, 2, 3, 4]
    listed = [f"0 of {a}: {a}>{b} @{a - 1} via 0" for a in ranks for b in ranks if a != b]
    file = written.teccl(tmp_path / "t.json", listed, written.everyone(ranks), epochs=5, gbytes=4e-5)
    links = [[a, 0, 10] for a in ranks] + [[0, a, 10] for a in ranks]
    topology = f"links: {links}, switches: [0]"
    found = audited(file, "teccl", "--topology", topology)
    assert found["verdict"] == "valid-with-multicast"
    assert "given 3 times" in found["reasons"][0]
    assert found["recomputed"]["busiest_link_us"] == pytest.approx(3.0)
    assert audited(file, "teccl", "--topology", topology, "--set", "multicast=true")["verdict"] == "valid"


def test_a_mesh_has_no_links_across_row_ends(tmp_path: Path) -> None:
    """Node 3 ends the first row of a 4 x 4 mesh, node 4 begins the second."""
    mesh = [[4 * i + j, 4 * i + j + 1, 100] for i in range(4) for j in range(3)]
    mesh += [[4 * i + j, 4 * i + j + 4, 100] for i in range(3) for j in range(4)]
    listed = ["0 of 3: 3>4 @0", "0 of 4: 4>3 @0", "0 of 0: 0>1 @0"]
    file = written.teccl(tmp_path / "m.json", listed, written.everyone(range(16)), gbytes=1.6e-3)
    found = audited(file, "teccl", "--topology", f"directed: false, links: {mesh}", code=6)
    assert any("no link 3 -> 4: 1 of 3 sends, the first at flow 0" in one for one in found["reasons"])


def test_switch_numbers_off_by_one(tmp_path: Path) -> None:
    """A box of four GPUs 1 to 4 and leaves 5, 6 at a spine 0: a file takes GPU 4 for a leaf and leaf 6 for a GPU."""
    links = [[1, 5, 25], [2, 5, 25], [3, 6, 25], [4, 6, 25], [5, 0, 25], [6, 0, 25]]
    topology = f"directed: false, links: {links}, switches: [0, 5, 6]"
    ranks = [1, 2, 3, 6]
    listed = [f"0 of {a}: {a}>{b} @0" for a in (1, 2, 3) for b in ranks if a != b] + ["0 of 6: 6>3 @0 via 4"]
    file = written.teccl(tmp_path / "a.json", listed, written.everyone(ranks))
    found = audited(file, "teccl", "--topology", topology, code=6)
    text = "\n".join(found["reasons"])
    assert "rank 6 of the schedule is a switch of the topology" in text
    assert "node 4 is a rank of the topology, and a switch in the schedule" in text


def test_epochs_hold_what_links_carry(tmp_path: Path) -> None:
    """A ring of three: one chunk of 10 kB an epoch of 1 us at 10 GB/s; two chunks at once do not fit."""
    ring = ["0 of 0: 0>1 @0", "0 of 1: 1>2 @0", "0 of 2: 2>0 @0", "0 of 0: 1>2 @1", "0 of 1: 2>0 @1", "0 of 2: 0>1 @1"]
    demands = written.everyone(range(3))
    file = written.teccl(tmp_path / "r.json", ring, demands, epochs=2, gbytes=3e-5)
    found = audited(file, "teccl", "--topology", RING_3)
    assert (found["verdict"], found["reasons"]) == ("valid", [])
    assert found["recomputed"]["time_us_by_epochs"] == pytest.approx(2.0)
    assert found["recomputed"]["algbw_gbytes_per_s"] == pytest.approx(15.0)
    twice = [one.replace("@1", "@0") for one in ring]
    early = audited(written.teccl(tmp_path / "e.json", twice, demands, epochs=2, gbytes=3e-5), "teccl",
                    "--topology", RING_3, code=6)  # fmt: skip
    assert laws(early) == {"capacity", "causality", "result"}
    assert "flow 3 sends piece 0 from rank 1, which has it not yet" in "\n".join(early["reasons"])
    lost = audited(written.teccl(tmp_path / "l.json", ring[:-1], demands, epochs=2, gbytes=3e-5), "teccl", code=6)
    assert lost["reasons"] == ["result: piece 2 of rank 1 is never filled"]


def test_parts_of_chunks_go_by_different_ways(tmp_path: Path) -> None:
    """Of the chunk from 0 to 2 half goes at once, half through 1; without the last quarter it is not complete."""
    direct = ["0 of 1: 1>0 @0", "0 of 2: 2>0 @0", "1 of 2: 2>1 @0", "1 of 0: 0>1 @0", "2 of 1: 1>2 @0"]
    parts = ["2 of 0: 0>2 @0 x0.5", "2 of 0: 0>1 @1 x0.5", "2 of 0: 1>2 @2 x0.25", "2 of 0: 1>2 @3 x0.25"]
    demands = [(at, at, source) for at in range(3) for source in range(3) if at != source]
    file = written.teccl(tmp_path / "h.json", [*direct, *parts], demands, epochs=4)
    found = audited(file, "teccl")
    assert (found["verdict"], found["collective"]) == ("valid", "all-to-all")
    assert found["relayed_messages"] == 2
    lost = audited(written.teccl(tmp_path / "q.json", [*direct, *parts[:-1]], demands, epochs=4), "teccl", code=6)
    assert laws(lost) == {"result"}
    early = [one.replace("@2", "@1") for one in parts]
    soon = audited(written.teccl(tmp_path / "e.json", [*direct, *early], demands, epochs=4), "teccl", code=6)
    assert laws(soon) == {"causality", "result"}


def test_claims(tmp_path: Path) -> None:
    """A ring AllGather of 3 MB at 10 GB/s: two steps of 100 us; the cut into a rank allows 15 GB/s."""
    file = written.msccl(tmp_path / "r.xml", "allgather", 3, written.ring_allgather(3), sizes=(1, 3))
    options = ("--topology", RING_3, "--bytes", "3MB")
    found = audited(file, "msccl", *options, "--set", "claim=15GB/s")
    assert (found["verdict"], found["recomputed"]["steps"]) == ("valid", 2)
    assert found["recomputed"]["time_us"] == found["recomputed"]["time_us_by_steps"] == pytest.approx(200.0)
    assert found["recomputed"]["part_of_bound"] == pytest.approx(1.0)
    above = audited(file, "msccl", *options, "--set", "claim=16 GB/s", code=6)
    assert "bound" in laws(above)
    assert any("no schedule exceeds 15 GB/s: only 10 GB/s enter rank" in one for one in above["reasons"])
    slow = audited(file, "msccl", *options, "--set", "claim=199us,message_us=1", code=6)
    assert "claim" in laws(slow)
    line = audited(file, "msccl", "--topology", "links: [[0, 1, 10], [1, 2, 10]], directed: false", code=6)
    assert any("no link 2 -> 0" in one for one in line["reasons"])


def test_sccl_steps_of_rounds(tmp_path: Path) -> None:
    """links[dst][src]: a one-way ring of three that is right; a link given twice its rounds; one that is not."""
    chunks = [([r], [0, 1, 2], r) for r in range(3)]
    steps = [(1, [(0, 0, 1), (1, 1, 2), (2, 2, 0)]), (1, [(0, 1, 2), (1, 2, 0), (2, 0, 1)])]
    links = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    good = audited(written.sccl(tmp_path / "a.json", "Allgather", 3, chunks, steps, links), "sccl")
    assert (good["verdict"], good["collective"]) == ("valid", "allgather")
    assert good["bound"]["algbw_gbytes_per_s"] == pytest.approx(1.5)  # chunks a round: ratio 2 of three ranks
    both = [(1, [(0, 0, 1), (1, 1, 2), (2, 2, 0), (2, 2, 0)]), steps[1]]
    full = audited(written.sccl(tmp_path / "b.json", "Allgather", 3, chunks, both, links), "sccl", code=6)
    assert full["reasons"] == ["capacity: link 2 -> 0 is given 2 sends in step 0, it takes 1"]
    turned = [[row[k] for row in links] for k in range(3)]
    wrong = audited(written.sccl(tmp_path / "c.json", "Allgather", 3, chunks, steps, turned), "sccl", code=6)
    assert laws(wrong) == {"link"}


def test_sccl_sums(tmp_path: Path) -> None:
    """Two ranks add up address 0: a send each way in one step; a second one would count twice."""
    chunks = [([0], [0, 1], 0), ([1], [0, 1], 0)]
    good = written.sccl(tmp_path / "a.json", "Allreduce", 2, chunks, [(1, [(0, 0, 1), (0, 1, 0)])])
    assert audited(good, "sccl")["verdict"] == "valid"
    lost = written.sccl(tmp_path / "b.json", "Allreduce", 2, chunks, [(1, [(0, 0, 1)])])
    assert "without what rank 1 has" in "".join(audited(lost, "sccl", code=6)["reasons"])
    three = [([r], [0, 1, 2], 0) for r in range(3)]
    twice = [(1, [(0, 0, 1), (0, 0, 2)]), (1, [(0, 1, 2), (0, 2, 1)]), (1, [(0, 2, 0)])]
    bad = audited(written.sccl(tmp_path / "c.json", "Allreduce", 3, three, twice), "sccl", code=6)
    assert "what rank 0 has is counted twice" in "".join(bad["reasons"])


def test_trees_of_forestcoll(tmp_path: Path) -> None:
    """Names are printed tuples with commas inside; down an AllGather, up a ReduceScatter, both an AllReduce."""
    a, b, c, switch = "(0, 'GPU', 0)", "(0, 'GPU', 1)", "(1, 'GPU', 0)", "(-1, 'IB', 0)"
    trees = [
        (a, 1, [(a, b), (b, switch, c)]),
        (b, 1, [(b, a), (a, switch, c)]),
        (c, 1, [(c, switch, a), (a, b)]),
    ]
    file = written.forestcoll(tmp_path / "f.xml", 1, trees)
    links = "[[0, 1, 50], [0, 3, 25], [1, 3, 25], [2, 3, 25]]"
    topology = f"directed: false, links: {links}, switches: [3]"
    for collective in ("allgather", "reduce-scatter", "allreduce"):
        found = audited(file, "forestcoll", "--collective", collective, "--topology", topology, "--bytes", "3MB")
        assert (found["verdict"], found["ranks"]) == ("valid", 3)
    gather = audited(file, "forestcoll", "--topology", topology, "--bytes", "3MB")
    assert gather["bound"]["algbw_gbytes_per_s"] == pytest.approx(37.5)  # 2/3 of the vector enter c at 25 GB/s
    assert gather["recomputed"]["busiest_link_us"] == pytest.approx(80.0)
    cut = written.forestcoll(tmp_path / "g.xml", 1, [*trees[:2], (c, 1, [(c, switch, a)])])
    assert laws(audited(cut, "forestcoll", code=6)) == {"result"}
    orphan = written.forestcoll(tmp_path / "h.xml", 1, [*trees[:2], (c, 1, [(a, b)])])
    assert "causality" in laws(audited(orphan, "forestcoll", code=6))
    fewer = written.forestcoll(tmp_path / "i.xml", 2, trees)
    assert laws(audited(fewer, "forestcoll", code=6)) == {"blocks"}


def test_refusals(tmp_path: Path) -> None:
    """No such format, collective, claim, size; a file of another kind."""
    file = written.msccl(tmp_path / "r.xml", "allgather", 3, written.ring_allgather(3), sizes=(1, 3))
    for form, more in (
        ("mscl", ()),
        ("msccl", ("--collective", "gather")),
        ("msccl", ("--set", "claim=fast")),
        ("msccl", ("--bytes", "3 parsecs")),
        ("msccl", ("--set", "root=7")),
        ("teccl", ()),
        ("sccl", ()),
        ("mscclpp", ()),
        ("forestcoll", ()),
    ):
        found = audited(file, form, *more, code=2)
        assert found["problems"], form


def test_ranks_that_add_in_other_orders_get_a_note(tmp_path: Path) -> None:
    """Every rank adds the others to its own by number: rank 2 begins with 2 + 0, the others with 0 + 1."""

    def block(number: int, peer: int, steps: str) -> str:
        return f'<tb id="{number}" send="{peer}" recv="{peer}" chan="0">{steps}</tb>'

    def step(number: int, kind: str, source: str, target: str, after: tuple[int, int], hasdep: int) -> str:
        places = f'srcbuf="{source}" srcoff="0" dstbuf="{target}" dstoff="0" cnt="1"'
        return f'<step s="{number}" type="{kind}" {places} depid="{after[0]}" deps="{after[1]}" hasdep="{hasdep}"/>'

    gpus = []
    for rank in range(3):
        first = block(0, -1, step(0, "cpy", "i", "o", (-1, -1), 1))
        others = [
            block(
                number,
                peer,
                step(0, "s", "i", "o", (-1, -1), 0) + step(1, "rrc", "o", "o", (number - 1, number - 1), number == 1),
            )
            for number, peer in enumerate((other for other in range(3) if other != rank), start=1)
        ]
        gpus.append(f'<gpu id="{rank}" i_chunks="1" o_chunks="1" s_chunks="0">{first}{"".join(others)}</gpu>')
    head = '<algo name="direct" ngpus="3" nchunksperloop="1" nchannels="1" proto="Simple" coll="allreduce" inplace="0">'
    file = tmp_path / "direct.xml"
    file.write_text(head + "".join(gpus).replace("True", "1").replace("False", "0") + "</algo>")
    found = audited(file, "msccl")
    assert found["verdict"] == "valid", found["reasons"]
    assert any("1 part of the vector in different orders" in note for note in found["notes"]), found["notes"]
    assert found["extent"] == "semantics only"


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        (("0.000001", "0.999999"), "valid"),
        (("0.333333", "0.333333", "0.333333"), "valid"),
        (("0.30001", "0.176183", "0.523807"), "valid"),  # near to no fractions with a small common denominator
        (("0.30001", "0.176183", "0.523806"), "invalid"),
    ],
)
def test_fractions_of_a_chunk(parts: tuple[str, ...], verdict: str, tmp_path: Path) -> None:
    lines = [f"Chunk 0 from 0 traveled over 0->1 with volume {part} in epoch 0" for part in parts]
    document = {
        "1-Epoch_Duration": 1e-6,
        "7-Flows": [*lines, "Chunk 0 from 1 traveled over 1->0 in epoch 0"],
        "8-Chunk paths": {f"Demand at {1 - node} for chunk 0 from {node} met by epoch 0": [] for node in (0, 1)},
    }
    file = tmp_path / "parts.json"
    file.write_text(json.dumps(document))
    found = audited(file, "teccl", "--collective", "allgather", code=0 if verdict == "valid" else 6)
    assert found["verdict"] == verdict, found["reasons"]
