"""What the runtime of MSCCL takes, and what it is known to do with files that it does take (its trackers)."""

from __future__ import annotations

from topoopt.formats.msccl.algorithm import RECEIVES, SENDS, Gpu, MscclAlgorithm, MscclStep
from topoopt.formats.schedules.builder import ProgramBuilder

MOST_CHANNELS = 32
MOST_PEERS = 32
MOST_STEPS = 256
MOST_BLOCKS = 216
RESIDENT_BLOCKS = 108
"""Multiprocessors of an A100: all blocks of a rank must run at once."""
MOST_CHUNKS = 71
MOST_FUSED = 16
MAX_BYTES_ABSENT = 1 << 27


def check_limits(builder: ProgramBuilder, algorithm: MscclAlgorithm) -> None:
    """Defects where the runtime refuses the file, notes where it does something else than one expects."""
    _notes(builder, algorithm)
    if not 1 <= algorithm.channels <= MOST_CHANNELS:
        builder.defect("limit", f"{algorithm.channels} channels, at most {MOST_CHANNELS}")
    for rank, gpu in enumerate(algorithm.gpus):
        numbers = [block.number for block in gpu.blocks]
        if numbers != list(range(len(numbers))):
            builder.defect("limit", f"gpu {rank}: blocks are not numbered 0, 1, ...: {numbers[:10]}")
        if len(numbers) > MOST_BLOCKS:
            builder.defect("limit", f"gpu {rank}: {len(numbers)} blocks, at most {MOST_BLOCKS}")
        elif len(numbers) > RESIDENT_BLOCKS:
            builder.notes.append(f"a rank has {len(numbers)} blocks; an A100 runs {RESIDENT_BLOCKS} at once")
        _peers(builder, rank, gpu)
        for block in gpu.blocks:
            where = f"gpu {rank}, tb {block.number}"
            if not 0 <= block.channel < min(algorithm.channels, MOST_CHANNELS):
                builder.defect("limit", f"{where}: channel {block.channel}, there are {algorithm.channels}")
            if len(block.steps) > MOST_STEPS:
                builder.defect("limit", f"{where}: {len(block.steps)} steps, at most {MOST_STEPS}")
            for step in block.steps:
                if step.kind != "nop" and not 1 <= step.count <= MOST_CHUNKS:
                    text = f"{where}, step {step.number}: {step.count} chunks, 1 to {MOST_CHUNKS}"
                    builder.defect("limit", text)
            _fused(builder, where, block.steps)


def _peers(builder: ProgramBuilder, rank: int, gpu: Gpu) -> None:
    seen: set[tuple[str, int, int]] = set()
    peers: dict[tuple[str, int], set[int]] = {}
    for block in gpu.blocks:
        for way, peer, kinds in (("send", block.send, SENDS), ("receive", block.receive, RECEIVES)):
            if peer < 0 or not any(step.kind in kinds for step in block.steps):
                continue
            if (way, peer, block.channel) in seen:
                builder.defect(
                    "limit", f"gpu {rank}: two blocks {way} with rank {peer} on channel {block.channel}, one may"
                )
            seen.add((way, peer, block.channel))
            peers.setdefault((way, block.channel), set()).add(peer)
    for (way, channel), found in peers.items():
        if len(found) > MOST_PEERS:
            builder.defect(
                "limit", f"gpu {rank}: {len(found)} peers to {way} on channel {channel}, at most {MOST_PEERS}"
            )


def _fused(builder: ProgramBuilder, where: str, steps: tuple[MscclStep, ...]) -> None:
    """Consecutive reductions into one place are joined: 16 at most, and only the first may wait."""
    run = 0
    for earlier, step in zip((None, *steps), steps, strict=False):
        joined = earlier is not None and step.kind == earlier.kind == "re" and step.target == earlier.target
        run = run + 1 if joined else 1
        if joined and step.waits is not None:
            builder.defect("limit", f"{where}, step {step.number}: a later one of joined reductions waits")
        if run == MOST_FUSED + 1:
            builder.defect("limit", f"{where}, step {step.number}: more than {MOST_FUSED} joined reductions")


def _notes(builder: ProgramBuilder, algorithm: MscclAlgorithm) -> None:
    builder.notes.extend(algorithm.notes)
    given = algorithm.attributes
    absent = [name for name in ("minBytes", "maxBytes", "outofplace") if name not in given]
    if absent:
        builder.notes.append(f"newer executors refuse files without {', '.join(absent)}")
    largest = algorithm.most_bytes or MAX_BYTES_ABSENT
    builder.notes.append(f"above {largest} bytes the runtime silently uses NCCL instead")
    if algorithm.channels > 2:
        builder.notes.append("executors of Azure are known to fail above 2 channels")
    if given.get("proto") == "LL":
        builder.notes.append("wrong data are known with protocol LL alone; Simple gives right ones")
