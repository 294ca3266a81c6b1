"""Independent parts of a search side by side in processes, their results in order: the same, however many there are.

A member has the state of the search from its beginning (`begin`) and is sent what differs by task. Limits and
interrupts of the search hold in it: it gets the time left with every task, is told to end, counts against the
memory limit, and ends with this process, however that ends.
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any

from solvers.processes.crew import DoTask, Tell
from solvers.processes.pipe import receive, send
from solvers.processes.start import ChildProcess, ended, started
from solvers.processes.team_child import STOP
from solvers.stop import Stop
from topoopt.core.errors import MachineError

LOOK_S = 0.05
"""How often limits are looked at."""

LAST_S = 1.0
"""What a process that says no more may take to be gone."""

COMMAND = (sys.executable, "-c", "from solvers.processes.team_child import serve; serve()")


class Team:
    """Members that work; ends with the block it is used in."""

    def __init__(self, count: int, begin: Callable[..., DoTask], arguments: tuple[Any, ...], stop: Stop) -> None:
        """Start the members.

        Args:
            count: of members.
            begin: (stop, *arguments) -> what does tasks; a function of a module, called once in every member.
            stop: of the search.

        Raises:
            OSError: the system starts no process.
        """
        self.stop = stop
        self._said: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._members: list[tuple[ChildProcess, threading.Thread]] = []
        self._counted = ExitStack()
        self._told_stop = False
        try:
            for place in range(count):
                child = started(COMMAND)
                listener = threading.Thread(target=self._listen, args=(place, child), daemon=True)
                listener.start()
                self._members.append((child, listener))
                self._counted.enter_context(stop.memory.child(child.process.pid))
                self._send(place, (begin, arguments))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Team:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End all members."""
        for child, listener in self._members:
            ended(child, listener)
        self._members = []
        self._counted.close()

    def in_order(self, tasks: Sequence[Any], told: Tell) -> Iterator[Any]:
        """The result of every task, in the order of the tasks; who leaves early ends the team.

        Raises:
            MachineError: a member died. Anything that a task raises, when its turn comes.
        """
        waiting, free = deque(enumerate(tasks)), deque(range(len(self._members)))
        done: dict[int, tuple[str, Any]] = {}
        turn = 0
        try:
            while turn < len(tasks):
                while free and waiting:
                    self._send(free.popleft(), (*waiting.popleft(), self.stop.remaining_s()))
                if turn in done:
                    outcome, content = done.pop(turn)
                    if outcome == "failed":
                        raise content
                    turn += 1
                    yield content
                    continue
                self._look()
                with suppress(queue.Empty):
                    place, message = self._said.get(timeout=LOOK_S)
                    if message[0] in ("done", "failed"):
                        free.append(place)
                        done[message[1]] = (message[0], message[2])
                    else:
                        self._hear(place, message, told)
        finally:
            if turn < len(tasks):
                self.close()

    def _look(self) -> None:
        if self.stop.reason() is not None and not self._told_stop:
            self._told_stop = True
            for place in range(len(self._members)):
                self._send(place, STOP)

    def _hear(self, place: int, message: tuple[str, Any], told: Tell) -> None:
        kind, content = message
        if kind == "told":
            told(*content)
        else:
            with suppress(subprocess.TimeoutExpired):
                self._members[place][0].process.wait(LAST_S)
            code = self._members[place][0].process.poll()
            raise MachineError(f"a process of the search died (exit code {code})")

    def _send(self, place: int, request: Any) -> None:
        with suppress(BrokenPipeError):  # it died, as its listener says
            send(self._members[place][0].requests, request)

    def _listen(self, place: int, child: ChildProcess) -> None:
        try:
            while (message := receive(child.answers)) is not None:
                self._said.put((place, message))
        finally:  # also after a message that cannot be read
            self._said.put((place, ("died", None)))
