"""What tells the runs of a study to end."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(frozen=True)
class StudyStop:
    """Shared by all that works on one study.

    Attributes:
        interrupted: set when it is to end: no run begins, those in flight are asked for the best they have.
        hurry: set when those are to be killed.
    """

    interrupted: threading.Event = field(default_factory=threading.Event)
    hurry: threading.Event = field(default_factory=threading.Event)

    def give_up(self) -> None:
        """End at once: something is broken."""
        self.interrupted.set()
        self.hurry.set()
