"""What a command says that ended early with the best so far."""

from __future__ import annotations

from topoopt.console.output import EXIT_OF_STOP
from topoopt.core.proofs import StopReason

WORDS = {
    StopReason.TIME: "the time limit",
    StopReason.MEMORY: "a lack of memory",
    StopReason.INTERRUPTED: "an interrupt",
}


def early_end(stopped_by: StopReason) -> list[str]:
    """A line where a search did not end by itself."""
    return [f"ended early by {WORDS[stopped_by]}: this is the best so far"] if stopped_by in EXIT_OF_STOP else []
