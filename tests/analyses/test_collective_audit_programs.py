"""Programs of thread blocks that are wrong are named with the place; what runtimes refuse or get wrong is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.analyses.test_collective_audit import audited, laws
from tests.support import written_schedules as written
from tests.support.cli_cases import run
from tests.support.written_schedules import WrittenBlock
from topoopt.core.errors import InputError
from topoopt.formats.schedules import SCHEDULES, ScheduleOptions


def exchange(first: list[Any], second: list[Any]) -> list[list[WrittenBlock]]:
    """Two ranks with a block to send and one to receive each; `first` and `second` are the steps of rank 0 and 1."""
    return [[(peer, -1, 0, steps[0]), (-1, peer, 0, steps[1])] for peer, steps in ((1, first), (0, second))]


SUM = ([("s", "o0", "o0", 2)], [("rrc", "o0", "o0", 2, (0, 0))])
"""Each sends its vector, and adds what comes once it is sent."""


def reasons(path: Path, gpus: list[list[WrittenBlock]], *, collective: str = "allreduce", **options: Any) -> str:
    """Reasons of an invalid algorithm of two chunks."""
    return "\n".join(audited(written.msccl(path / "x.xml", collective, 2, gpus, **options), "msccl", code=6)["reasons"])


def test_an_exchange_adds_up(tmp_path: Path) -> None:
    file = written.msccl(tmp_path / "x.xml", "allreduce", 2, exchange(list(SUM), list(SUM)))
    assert audited(file, "msccl")["verdict"] == "valid"


def test_a_race(tmp_path: Path) -> None:
    """The sum may come before the send has read what it sends: nothing waits."""
    racing = [SUM[0], [("rrc", "o0", "o0", 2)]]
    text = reasons(tmp_path, exchange(racing, list(SUM)))
    assert "race: o 0 of rank 0 is used by two that nothing puts in order" in text
    assert "gpu 0, tb 0, step 0" in text
    assert "gpu 0, tb 1, step 0" in text


def test_a_deadlock(tmp_path: Path) -> None:
    """Both wait for the sum before they send."""
    waits = [[("s", "o0", "o0", 2, (1, 0))], [("rrc", "o0", "o0", 2)]]
    text = reasons(tmp_path, exchange(waits, waits))
    assert "deadlock: 4 actions never run; these wait for each other" in text
    assert "gpu 1, tb 0, step 0" in text


def test_counted_twice(tmp_path: Path) -> None:
    doubled = [SUM[0], [*SUM[1], ("re", "o0", "o1", 1)]]
    assert "different parts of the vector are added at gpu 0, tb 1, step 1" in reasons(
        tmp_path, exchange(doubled, list(SUM))
    )
    again = [SUM[0], [*SUM[1], ("re", "o0", "o0", 1)]]
    assert "counted twice at gpu 0, tb 1, step 1" in reasons(tmp_path, exchange(again, list(SUM)))


def test_a_send_of_nothing(tmp_path: Path) -> None:
    """Scratch is sent before anything is there."""
    empty = [[("s", "s0", "o0", 2)], SUM[1]]
    text = reasons(tmp_path, exchange(empty, list(SUM)), scratch=2)
    assert "causality: gpu 0, tb 0, step 0 takes s 0 of rank 0, where nothing is yet" in text


def test_halves_that_do_not_meet(tmp_path: Path) -> None:
    shorter = [SUM[0], [("rrc", "o0", "o0", 1, (0, 0))]]
    text = reasons(tmp_path, exchange(shorter, list(SUM)))
    assert "message: rank 1 sends 2 chunks at gpu 1, tb 0, step 0, where rank 0 takes 1 at gpu 0, tb 1, step 0" in text
    silent = [[], SUM[1]]
    silent[1] = [("rrc", "o0", "o0", 2)]
    assert "waits for ever for what nobody sends, from rank 0 to rank 1" in reasons(
        tmp_path, exchange(silent, list(SUM))
    )
    deaf = [SUM[0], []]
    assert "gpu 1, tb 0, step 0 sends what nobody takes" in reasons(tmp_path, exchange(deaf, list(SUM)))


def test_a_step_that_is_waited_for_must_tell(tmp_path: Path) -> None:
    """hasdep is 1 exactly where a step is waited for."""
    text = reasons(tmp_path, exchange(list(SUM), list(SUM)), silent=frozenset({(1, 0, 0)}))
    assert text == "deadlock: gpu 1, tb 1, step 0 waits for tb 0, step 0, which does not tell (hasdep 0)"
    nowhere = [SUM[0], [("rrc", "o0", "o0", 2, (5, 0))]]
    assert "waits for tb 5, step 0, which is not" in reasons(tmp_path, exchange(nowhere, list(SUM)))


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([("s", "o0", "o0", 1)] * 257, "257 steps, at most 256"),
        ([("s", "o0", "o0", 72)], "72 chunks, 1 to 71"),
        ([("s", "o1", "o1", 2)], "o 1 to 2 is beyond the buffer"),
    ],
)
def test_limits_of_blocks(steps: list[Any], said: str, tmp_path: Path) -> None:
    assert said in reasons(tmp_path, exchange([steps, []], [[], []]))


def test_limits_of_ranks(tmp_path: Path) -> None:
    """Channels, blocks, and one block a direction, peer and channel."""
    far: list[list[WrittenBlock]] = [[(1, -1, 40, SUM[0])], []]
    assert "41 channels, at most 32" in reasons(tmp_path, far)
    many: list[list[WrittenBlock]] = [[(1, -1, 0, SUM[0])] * 217, []]
    text = reasons(tmp_path, many)
    assert "217 blocks, at most 216" in text
    assert "two blocks send with rank 1 on channel 0" in text


def test_joined_reductions_with_several_dependences_are_refused(tmp_path: Path) -> None:
    """Consecutive `re` into one place are joined, and only the first of them may wait."""
    joined = [SUM[0], [*SUM[1], ("re", "s0", "o0", 1, (0, 0)), ("re", "s1", "o0", 1, (0, 0))]]
    assert "a later one of joined reductions waits" in reasons(tmp_path, exchange(joined, list(SUM)), scratch=2)


def test_what_runtimes_are_known_to_do(tmp_path: Path) -> None:
    """Silent fall-back above maxBytes, attributes that newer executors want, LL, more than two channels."""
    file = written.msccl(
        tmp_path / "x.xml", "allreduce", 2, exchange(list(SUM), list(SUM)),
        attributes={"proto": "LL", "nchannels": "3"},
    )  # fmt: skip
    file.write_text(file.read_text().replace('minBytes="0" maxBytes="1073741824"', "").replace('outofplace="0"', ""))
    found = audited(file, "msccl")
    text = "\n".join(found["notes"])
    for said in (
        "above 134217728 bytes the runtime silently uses NCCL",
        "newer executors refuse files without minBytes, maxBytes, outofplace",
        "wrong data are known with protocol LL alone",
        "known to fail above 2 channels",
    ):
        assert said in text


def test_a_limit_of_bytes_that_is_no_number_is_refused(tmp_path: Path) -> None:
    """As any other number of the file that is none, with the name of the file."""
    file = written.msccl(tmp_path / "x.xml", "allreduce", 2, exchange(list(SUM), list(SUM)))
    file.write_text(file.read_text().replace('maxBytes="1073741824"', 'maxBytes="10737418{4"'))
    with pytest.raises(InputError, match=r"x\.xml"):
        SCHEDULES["msccl"](file, ScheduleOptions())


def test_order_through_other_ranks_is_told(tmp_path: Path) -> None:
    """Rank 0 overwrites what it sent once the answer is there: in order, but only because rank 1 answered."""
    gpus: list[list[WrittenBlock]] = [
        [(1, -1, 0, [("s", "o0", "o0", 2)]), (-1, 1, 0, [("r", "o0", "o0", 2)])],
        [(0, -1, 0, [("s", "o0", "o0", 2, (1, 0))]), (-1, 0, 0, [("rrc", "o0", "o0", 2)])],
    ]
    found = audited(written.msccl(tmp_path / "x.xml", "allreduce", 2, gpus), "msccl")
    assert found["verdict"] == "valid"
    assert any("in order only because of messages with other ranks" in note for note in found["notes"])


def test_all_to_all_out_of_place(tmp_path: Path) -> None:
    """Two ranks: the own part is copied, the other sent; through scratch of a third it is passed on."""
    two: list[list[WrittenBlock]] = [
        [(1, 1, 0, [("s", "i1", "o0", 1), ("r", "i0", "o1", 1), ("cpy", "i0", "o0", 1)])],
        [(0, 0, 0, [("s", "i0", "o1", 1), ("r", "i1", "o0", 1), ("cpy", "i1", "o1", 1)])],
    ]
    file = written.msccl(tmp_path / "a.xml", "alltoall", 2, two, in_place=False)
    assert audited(file, "msccl")["verdict"] == "valid"
    two[0][0][3].pop()
    missing = audited(written.msccl(tmp_path / "b.xml", "alltoall", 2, two, in_place=False), "msccl", code=6)
    assert missing["reasons"] == ["result: o 0 of rank 0 is never filled"]


def plan(path: Path, operations: list[list[dict[str, Any]]], **top: Any) -> Path:
    """An MSCCL++ plan of two ranks with a block each, connected by a channel of memory, input and scratch shared."""
    gpus = [
        {
            "id": rank, "input_chunks": 1, "output_chunks": 1, "scratch_chunks": 1,
            "channels": [{"channel_type": "memory", "connected_to": [1 - rank]}],
            "remote_buffers": [{"rank": 1 - rank, "type": kind, "access_channel_types": ["memory"]} for kind in "is"],
            "semaphores": [],
            "threadblocks": [{
                "id": 0, "ops": ops, "channels": [{"channel_type": "memory", "channel_ids": [0]}],
                "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0, 1]}],
            }],
        }
        for rank, ops in enumerate(operations)
    ]  # fmt: skip
    document = {"name": "p", "collective": "allreduce", "protocol": "Simple", "inplace": True, "gpus": gpus, **top}
    path.write_text(json.dumps(document))
    return path


SIGNAL = {"name": "signal", "channel_ids": [0], "channel_type": "memory"}
WAIT = {"name": "wait", "channel_ids": [0], "channel_type": "memory"}
PUT = {
    "name": "put",
    "src_buff": [{"type": "i", "index": 0, "size": 1}],
    "dst_buff": [{"buffer_id": 1, "index": 0, "size": 1}],
    "channel_type": "memory",
}
ADD = {
    "name": "re",
    "src_buff": [{"type": "i", "index": 0, "size": 1}, {"type": "s", "index": 0, "size": 1}],
    "dst_buff": [{"type": "i", "index": 0, "size": 1}],
}


def test_one_sided_puts_need_signals(tmp_path: Path) -> None:
    """Right with a signal and a wait; a race without; a wait without a signal is for ever."""
    right = [PUT, SIGNAL, WAIT, ADD]
    assert audited(plan(tmp_path / "a.json", [right, right]), "mscclpp")["verdict"] == "valid"
    bare = audited(plan(tmp_path / "b.json", [[PUT, ADD], [PUT, ADD]]), "mscclpp", code=6)
    assert "race" in laws(bare)
    lone = audited(plan(tmp_path / "c.json", [[PUT, WAIT, ADD], [PUT, WAIT, ADD]]), "mscclpp", code=6)
    assert "deadlock: gpu 0, threadblock 0, op 1 waits for ever: 0 signals for 1 waits" in lone["reasons"]


def test_plans_beyond_limits(tmp_path: Path) -> None:
    """64 operations a block; operations that are not known."""
    right = [PUT, SIGNAL, WAIT, ADD]
    long = audited(plan(tmp_path / "a.json", [[*right, *[{"name": "nop"}] * 61], right]), "mscclpp", code=6)
    assert long["reasons"] == ["limit: gpu 0, threadblock 0: 65 operations, at most 64"]
    odd = run(
        "collective", "audit", plan(tmp_path / "b.json", [[*right, {"name": "teleport"}], right]), "--format", "mscclpp"
    )
    assert odd.code == 2
    assert "teleport at gpu 0, threadblock 0, op 4" in odd.stderr


def test_copies_alone_take_no_time(tmp_path: Path) -> None:
    """Two ranks that send nothing: what is missing is named, and no link is busy."""
    copy = [[(-1, -1, 0, [("cpy", "i0", "o0", 1)])]] * 2
    found = audited(
        written.msccl(tmp_path / "x.xml", "allgather", 2, copy, sizes=(1, 2), in_place=False),
        "msccl",
        *("--bytes", "1MB", "--topology", "family: ring, servers: 2, link_gbytes_per_s: 1"),
        code=6,
    )
    assert found["recomputed"]["time_us"] == 0.0
    assert found["busiest_links"] == []
