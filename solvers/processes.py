"""Child processes work for a search: they solve what must be killed when it overruns, or parts of the search side by
side.

Results of a `Team` come in the order of the tasks: the same, however many members there are. A member has the state
of the search from its beginning (`begin`) and is sent what differs by task. Limits and interrupts of the search hold
in it: it gets the time left with every task, is told to end, counts against the memory limit, and ends with this
process, however that ends.
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from types import TracebackType
from typing import IO, Any

from solvers.stop import Stop
from topoopt.core.errors import MachineError

_LENGTH = struct.Struct("<q")


def send(stream: IO[bytes] | None, message: object) -> None:
    """Write one message to a pipe that is there."""
    assert stream is not None
    content = pickle.dumps(message)
    stream.write(_LENGTH.pack(len(content)) + content)
    stream.flush()


def receive(stream: IO[bytes] | None) -> Any:
    """The next message; None at the end, also if that comes in the middle of a message."""
    assert stream is not None
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    content = stream.read(length)
    return pickle.loads(content) if len(content) == length else None


def started(command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """Start a child that finds the modules that this process does.

    Raises:
        OSError: the system starts no process.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    # A session of its own keeps Ctrl-C at the terminal away from the child, which is ours to end.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
    )


def ended(child: subprocess.Popen[bytes], listener: threading.Thread) -> None:
    """Kill a child, wait for it and for who listens to it."""
    child.kill()
    child.wait()
    listener.join()
    for stream in (child.stdin, child.stdout):
        with suppress(OSError):
            if stream is not None:
                stream.close()


Tell = Callable[..., None]
"""Called in a member; with the same arguments, what was given as `told` is called in the parent."""

DoTask = Callable[[Any, Tell], Any]
"""(task, tell) -> result."""

Crew = Callable[[Sequence[Any], Tell], Iterator[Any]]
"""(tasks, tell) -> the result of every task, in the order of the tasks, wherever they are done."""

Gather = Callable[[Callable[..., DoTask], tuple[Any, ...], Stop], AbstractContextManager[Crew]]
"""(begin, arguments, stop) -> who works with the state that `begin(stop, *arguments)` makes, until the block ends."""

STOP = "stop"
"""The request to end soon with the best so far."""


def serve() -> None:
    """Answer requests on standard input until it ends, and with it the process."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not mix with the messages
    stop, tasks = Stop(), queue.SimpleQueue[tuple[int, Any, float | None]]()

    begin, arguments = receive(sys.stdin.buffer)
    threading.Thread(target=_listen, args=(stop, tasks), daemon=True).start()
    work = begin(stop, *arguments)
    while True:
        number, task, left_s = tasks.get()
        stop.deadline = None if left_s is None else time.monotonic() + left_s
        try:
            answer = ("done", number, work(task, lambda *said: send(out, ("told", said))))
        except Exception as error:
            error.add_note(traceback.format_exc())
            answer = ("failed", number, error)
        send(out, answer)


def _listen(stop: Stop, tasks: queue.SimpleQueue[tuple[int, Any, float | None]]) -> None:
    """Take tasks, and `STOP`; the end of the input is the end of the parent."""
    while True:
        try:
            request = receive(sys.stdin.buffer)
        except Exception:  # a task that cannot be read is a fault of ours: seen at once, not waited for
            traceback.print_exc()
            os._exit(1)
        if request is None:
            os._exit(1)
        if request == STOP:
            stop.interrupted.set()
        else:
            tasks.put(request)


LOOK_S = 0.05
"""How often limits are looked at."""


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
        self._members: list[tuple[subprocess.Popen[bytes], threading.Thread]] = []
        self._counted = ExitStack()
        self._told_stop = False
        try:
            for index in range(count):
                child = started((sys.executable, "-c", "from solvers.processes import serve; serve()"))
                listener = threading.Thread(target=self._listen, args=(index, child), daemon=True)
                listener.start()
                self._members.append((child, listener))
                self._counted.enter_context(stop.memory.child(child.pid))
                self._send(index, (begin, arguments))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Team:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for child, listener in self._members:
            ended(child, listener)
        self._members = []
        self._counted.close()

    def in_order(self, tasks: Sequence[Any], notify: Tell) -> Iterator[Any]:
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
                    index, message = self._said.get(timeout=LOOK_S)
                    if message[0] in ("done", "failed"):
                        free.append(index)
                        done[message[1]] = (message[0], message[2])
                    else:
                        self._hear(index, message, notify)
        finally:
            if turn < len(tasks):
                self.close()

    def _look(self) -> None:
        if self.stop.reason() is not None and not self._told_stop:
            self._told_stop = True
            for index in range(len(self._members)):
                self._send(index, STOP)

    def _hear(self, index: int, message: tuple[str, Any], notify: Tell) -> None:
        kind, content = message
        if kind == "told":
            notify(*content)
        else:
            with suppress(subprocess.TimeoutExpired):
                self._members[index][0].wait(1.0)
            code = self._members[index][0].poll()
            raise MachineError(f"a process of the search died (exit code {code})")

    def _send(self, index: int, request: Any) -> None:
        with suppress(BrokenPipeError):  # it died, as its listener says
            send(self._members[index][0].stdin, request)

    def _listen(self, index: int, child: subprocess.Popen[bytes]) -> None:
        try:
            while (message := receive(child.stdout)) is not None:
                self._said.put((index, message))
        finally:  # also after a message that cannot be read
            self._said.put((index, ("died", None)))
