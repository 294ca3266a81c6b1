"""Fields of the readers whose files are no documents, and what was dropped of files of other tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz import foreign
from tests.support import written_schedules as written
from tests.support.cli_cases import run
from tests.support.paths import SHARED_DATA
from tests.support.reader_cases import plain
from topoopt.core.errors import InputError
from topoopt.formats.flexnet import BufferTables, root_table
from topoopt.formats.flexnet import write as encode
from topoopt.formats.table import IMPORTERS, READERS

LINES = (
    "conv1 -1 13003 NONE 0 12864 NONE 0 32291 ALLREDUCE 51005824 0\nconv2 -1 3456 ALLTOALL 1000 0 NONE 0 0 NONE 0 0\n"
)


def _libra(folder: Path, **changes: bytes) -> Any:
    files = {
        **foreign.LIBRA,
        "work.txt": LINES.encode(),
        **{f"{key}.{'txt' if key == 'work' else 'yml'}": data for key, data in changes.items()},
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    names = {"network": "network.yml", "cost_model": "cost.yml", "communicator": "ranks.yml", "workload": "work.txt"}
    return IMPORTERS["libra"](**{key: folder / name for key, name in names.items()}, total_gbytes_per_s=100.0)


def test_columns_of_libra(tmp_path: Path) -> None:
    """Each that is used changes the instance, those that are not are noted, one more or less is refused."""
    words = LINES.split()[:12]
    base = _libra(tmp_path)
    assert base.notes == ()
    other = {1: "b", 3: "1", 4: "ALLREDUCE", 6: "1", 7: "ALLREDUCE", 9: "1", 10: "ALLTOALL", 11: "1"}
    for column, word in other.items():
        row = [*words[: column - 1], word, *words[column:]]
        if word.startswith("ALL"):
            row[column] = "8"
        assert (
            _libra(tmp_path, work=" ".join(row).encode()).document
            != _libra(tmp_path, work=" ".join(words).encode()).document
        )
    for column, word, said in (
        (2, "5", "column 2 (reserved)"),
        (5, "7", "column 5 (bytes of no"),
        (12, "9", "column 12 (weight"),
    ):
        row = [*words[: column - 1], word, *words[column:]]
        (note,) = _libra(tmp_path, work=f"{' '.join(words)}\n{' '.join(row)}".encode()).notes
        assert note.startswith(f"not used: {said}")
        assert note.endswith("in 1 lines, first in line 2")
    for row in ([*words, "7"], words[:-1]):
        with pytest.raises(InputError, match=rf"work\.txt:1: wrong number of columns \(value: {len(row)}\)"):
            _libra(tmp_path, work=" ".join(row).encode())


def test_prices_of_libra_in_any_case_of_letters(tmp_path: Path) -> None:
    """The same prices; a price given twice, or of something else, is refused; that of an NPU is noted."""
    base = _libra(tmp_path).document
    lower = foreign.LIBRA["cost.yml"].replace(b"Nic", b"nic").replace(b"Link", b"LINK").replace(b"Switch", b"switch")
    assert _libra(tmp_path, cost=lower).document == base
    made = _libra(tmp_path, cost=lower.replace(b"  nic", b"  NPU: 3.0\n  nic"))
    assert (made.document, made.notes) == (base, ("prices of NPUs are not counted, as in LIBRA: Npu of InterPod",))
    for more, named in ((b"  Nics: 1.0\n", "nics"), (b"  Nic: 31.6\n", "Nic")):
        with pytest.raises(InputError, match=rf"InterPod\.{named}: "):
            _libra(tmp_path, cost=lower + more)


def _taskgraph(folder: Path, data: bytes) -> tuple[object, tuple[str, ...]]:
    (folder / "g.fbuf").write_bytes(data)
    made = IMPORTERS["flexnet"](folder / "g.fbuf")
    return plain(made.document), made.notes


SLOTS = {  # where each used field of the task graph stands: table of the root, field in it, type
    "nnode": (None, 1, np.uint32),
    "tasks[].type": (8, 0, np.int16),
    "tasks[].taskid": (8, 1, np.uint64),
    "tasks[].deviceid": (8, 2, np.uint64),
    "tasks[].runtime": (8, 3, np.float32),
    "tasks[].xfersize": (8, 4, np.uint64),
    "devices[].type": (9, 0, np.int16),
    "devices[].deviceid": (9, 1, np.uint64),
    "devices[].deviceproperty": (9, 3, np.uint64),
}


def _others(data: bytes, table: int | None, slot: int, dtype: Any) -> Iterator[bytes]:
    """The file with another number in one of the rows of a table, row by row."""
    root = root_table(data)
    rows: BufferTables = root if table is None else root.tables(table)[1]
    for at in rows._field(slot)[1].tolist():
        old = np.frombuffer(data, dtype, 1, at)[0]
        yield data[:at] + np.array([old * 2 + 1], dtype).tobytes() + data[at + np.dtype(dtype).itemsize :]


def test_what_is_used_of_a_task_graph_changes_what_is_read(tmp_path: Path) -> None:
    """Numbers one by one: another instance, or a refusal; names and successors by their text."""
    data = foreign._taskgraph()
    base, notes = _taskgraph(tmp_path, data)
    assert "netbw" in notes[0]
    used = {name for name, (use, _) in READERS["FlexNet: task graph"].items() if use == "used"}
    assert used == {*SLOTS, "ops[].name", "tasks[].nexttasks"}
    for field, (table, slot, dtype) in SLOTS.items():
        assert any(_differs(tmp_path, other, base) for other in _others(data, table, slot, dtype)), field
    name = root_table(data).tables(7)[1].texts(2)[0].encode()
    assert _differs(tmp_path, data.replace(name, b"x" * len(name)), base)
    tasks = root_table(data).tables(8)[1]
    where = tasks._vectors(5, 8)[0]
    at = int(where[tasks.vector(5, np.uint64)[0] > 0][0])
    assert _differs(tmp_path, data[:at] + b"\xff" * 8 + data[at + 8 :], base)


def _differs(folder: Path, data: bytes, base: object) -> bool:
    try:
        return _taskgraph(folder, data)[0] != base
    except InputError:
        return True


def test_what_is_not_known_of_a_task_graph_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A field more in every table."""
    table = encode._Writer.table

    def longer(self: Any, slots: int, fill: Any) -> int:
        def more(b: Any) -> None:
            fill(b)
            b.PrependUint32Slot(slots, 7, 0)

        return table(self, slots + 1, more)

    monkeypatch.setattr(encode._Writer, "table", longer)
    notes = "\n".join(_taskgraph(tmp_path, foreign._taskgraph.__wrapped__())[1])
    assert "not known to this reader: field 12, ops[], field 3, tasks[], field 6, devices[], field 5" in notes


READERS_DATA = SHARED_DATA / "false_claims" / "readers"


@pytest.mark.skipif(not READERS_DATA.exists(), reason=f"no {READERS_DATA}")
@pytest.mark.parametrize(
    ("format_", "file", "named"),
    [
        ("sccl", "s8.json", ["Gather(n=3,root=1)"]),
        ("teccl", "t9.json", ["chassis", "heterogeneous", "link_capacities", "failures", "unknown"]),
    ],
)
def test_what_was_dropped_of_shared_files(format_: str, file: str, named: list[str], tmp_path: Path) -> None:
    """One message names all of it."""
    result = run("import", format_, READERS_DATA / file, "-o", tmp_path / "i.yaml")
    assert result.code == 2
    assert [name for name in named if name not in result.stderr] == []


def _sccl(folder: Path, name: str, **changes: Any) -> Any:
    links = [[5, 1, 0], [0, 0, 1], [1, 0, 0]]
    path = written.sccl(folder / "a.json", "x", 3, [([0], [0, 1, 2], 0)], [], links)
    document = json.loads(path.read_text())
    document["collective"] |= {"name": name, "runtime_name": None, **changes}
    path.write_text(json.dumps(document))
    return IMPORTERS["sccl"](path)


def test_collectives_of_sccl_by_their_names(tmp_path: Path) -> None:
    """Roots are those of the name; others, other parameters and other numbers of nodes are refused by name."""
    made = _sccl(tmp_path, "Broadcast(n=3,root=2)")
    assert (made.document["collective"], made.document["root"]) == ("broadcast", 2)
    assert any("links of ranks to themselves, 0" in note for note in made.notes)
    assert any("steps (the schedule: see collective audit)" in note for note in made.notes)
    for name in (
        "Gather(n=3,root=1)",
        "Scatter(n=3,root=1)",
        "Allgather(n=4)",
        "Allgather(n=3,root=1)",
        "Allreduce(k=2)",
    ):
        with pytest.raises(InputError) as caught:
            _sccl(tmp_path, name)
        assert name in str(caught.value)
    with pytest.raises(InputError, match="a collective of 4 nodes, links of 3"):
        _sccl(tmp_path, "Allgather(n=4)", nodes=4)


def test_inputs_of_teccl(tmp_path: Path) -> None:
    """Sizes that a machine does not have, latencies that differ, and switches that are not there."""
    with pytest.raises(InputError, match=r"TopologyParams\.chassis: DGX1 of TE-CCL is always of one size \(value: 4\)"):
        IMPORTERS["teccl"](written.teccl_input(tmp_path, "DGX1", 4))
    made = IMPORTERS["teccl"](written.teccl_input(tmp_path, "DGX1", 1, alpha=[0.7e-6, 1e-4]))
    assert made.document["latency_us"]["link"] == pytest.approx(0.7)
    said = "\n".join(made.notes)
    assert "TopologyParams.alpha (7e-07, 0.0001 s): the least is taken for every link" in said
    assert "InstanceParams.switch_copy, as DGX1 has no switches here" in said
    assert "InstanceParams.epoch_type (how TE-CCL cuts time" in said


def test_slices_of_thread_block_groups_are_apart(tmp_path: Path) -> None:
    """Two blocks that copy halves of one range do not race; without their parts stated they would."""

    def plan(groups: bool) -> Path:
        blocks = [
            {
                "id": k,
                "channels": [{"channel_type": "memory", "channel_ids": [k]}],
                "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}],
                "ops": [
                    {
                        "name": "put",
                        "channel_type": "memory",
                        "src_buff": [{"type": "i", "index": 0, "size": 1}],
                        "dst_buff": [{"buffer_id": 0, "index": 0, "size": 1}],
                        **({"tbg_info": {"tb_id": k, "tbg_size": 2}} if groups else {}),
                    },
                    {"name": "signal", "channel_type": "memory", "channel_ids": [0]},
                    {"name": "wait", "channel_type": "memory", "channel_ids": [0]},
                    {
                        "name": "re",
                        "src_buff": [{"type": "i", "index": 0, "size": 1}, {"type": "s", "index": 0, "size": 1}],
                        "dst_buff": [{"type": "i", "index": 0, "size": 1}],
                        **({"tbg_info": {"tb_id": k, "tbg_size": 2}} if groups else {}),
                    },
                ],
            }
            for k in range(2)
        ]
        gpus = [
            {
                "id": rank,
                "input_chunks": 1,
                "output_chunks": 1,
                "scratch_chunks": 1,
                "channels": [{"channel_type": "memory", "connected_to": [1 - rank, 1 - rank]}],
                "remote_buffers": [{"rank": 1 - rank, "type": "s"}],
                "threadblocks": blocks,
            }
            for rank in range(2)
        ]
        path = tmp_path / f"{groups}.json"
        path.write_text(json.dumps({"name": "t", "collective": "allreduce", "inplace": True, "gpus": gpus}))
        return path

    assert run("collective", "audit", plan(True), "--format", "mscclpp", "--json").json["verdict"] == "valid"
    whole = run("collective", "audit", plan(False), "--format", "mscclpp", "--json").json
    assert {reason.partition(":")[0] for reason in whole["reasons"]} == {"race", "result"}
