"""Child processes work for a search: they solve what must be killed when it overruns, or parts of the search side by
side.

`completed` hands out tasks: parts of one solve or runs of a study, to processes of this machine (`Team`) or to any
`concurrent.futures.Executor` (`topoopt.studies.executors`). Results taken by `in_order` are the same, however many do
the work. A member of a team has the state of the search from its beginning (`begin`) and is sent what differs by task.
Limits and interrupts of the search hold in it: it gets the time left with every task, is told to end, counts against
the memory limit, and ends with this process, however that ends.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from types import MappingProxyType, TracebackType
from typing import IO, Any, Protocol

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


_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask Linux to kill this process when the thread that started it ends; elsewhere nothing happens."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def started(command: tuple[str, ...], variables: Mapping[str, str] = MappingProxyType({})) -> subprocess.Popen[bytes]:
    """Start a child that finds the modules that this process does, with some more variables of the environment.

    Raises:
        OSError: the system starts no process.
    """
    path = os.pathsep.join(path or os.getcwd() for path in sys.path)
    environment = {**os.environ, "PYTHONPATH": path, **variables}
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
"""Called in a member; with the same arguments, what was given as `notify` is called in the parent."""

DoTask = Callable[[Any, Tell], Any]
"""(task, tell) -> result."""

Done = tuple[int, Future[Any]]
"""Index of a task, and its result or what it raised."""

Crew = Callable[[Iterable[Any], Tell], Iterator[Done]]
"""(tasks, notify) -> tasks as they are done, wherever that is; they are taken once somebody is free."""

Gather = Callable[[Callable[..., DoTask], tuple[Any, ...], Stop], AbstractContextManager[Crew]]
"""(begin, arguments, stop) -> who works with the state that `begin(stop, *arguments)` makes, until the block ends."""


class Hands(Protocol):
    """Who does tasks.

    Attributes:
        messages: what tasks tell meanwhile.
    """

    @property
    def messages(self) -> queue.SimpleQueue[Any]: ...

    def submit(self, task: Any) -> Future[Any]:
        """Begin a task."""

    def lost(self, error: BaseException) -> bool:
        """Whether an error is not one of the task itself, which somebody else may still do."""


POLL_S = 0.05
"""How often limits are looked at."""

TRIES = 4
"""Times a task is given out; dask itself gives it to another worker a few times before it counts as lost."""


def completed(
    opened: Callable[[], AbstractContextManager[Hands]],
    tasks: Iterable[Any],
    jobs: int,
    stop: Stop,
    end: Callable[[bool], None],
    *,
    tries: int = TRIES,
    notify: Tell = lambda *_: None,
) -> Iterator[Done]:
    """Have tasks done; those that are lost are given out again.

    Args:
        opened: who does them; opened again where that broke.
        tasks: taken once there is somebody for them.
        jobs: tasks at the same time.
        stop: of what the tasks are for.
        end: asks tasks under way to end; with True, at once, which is also done when somebody leaves early.
        tries: times that a task is given out.
        notify: called here with what tasks tell.

    Raises:
        MachineError: a task was lost each time.
    """
    waiting, again = enumerate(tasks), deque[tuple[int, Any]]()
    given: Counter[int] = Counter()
    broken = True

    def lose(item: tuple[int, Any], error: BaseException) -> bool:
        given[item[0]] += 1
        if given[item[0]] == tries:
            text = f"a task was lost {tries} times; the same command goes on. Last: {error}"
            raise MachineError(text if tries > 1 else str(error)) from None
        again.append(item)
        return isinstance(error, BrokenExecutor)

    while broken:
        broken = False
        with opened() as hands:
            running: dict[Future[Any], tuple[int, Any]] = {}
            try:
                while True:
                    while not broken and len(running) < jobs:
                        item = again.popleft() if again else next(waiting, None)
                        if item is None:
                            break
                        try:
                            running[hands.submit(item[1])] = item
                        except BrokenExecutor as error:
                            broken = lose(item, error)
                    if not running:
                        break
                    ended_now, _ = wait(running, POLL_S, FIRST_COMPLETED)
                    while not hands.messages.empty():
                        notify(*hands.messages.get())
                    if stop.reason() is not None:
                        end(stop.second_interrupt.is_set())
                    for future in ended_now:
                        item = running.pop(future)
                        reason = CancelledError() if future.cancelled() else future.exception()
                        if reason is not None and hands.lost(reason):
                            broken |= lose(item, reason)
                        else:
                            yield item[0], future
            except BaseException:
                end(True)
                raise


def in_order(done: Iterable[Done]) -> Iterator[Any]:
    """Results by their indices, each as soon as all before it are there; what a task raised comes in its turn."""
    early: dict[int, Future[Any]] = {}
    position = 0
    for index, future in done:
        early[index] = future
        while position in early:
            yield early.pop(position).result()
            position += 1


STOP, STOP_NOW = "stop", "stop now"
"""Requests to end soon with the best so far, and at once."""


def serve() -> None:
    """Answer requests on standard input until it ends, and with it the process."""
    die_with_parent()  # at once; the end of the input comes after what is under way
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not mix with the messages
    stop, tasks = Stop(), queue.SimpleQueue[tuple[Any, float | None]]()

    begin, arguments = receive(sys.stdin.buffer)
    threading.Thread(target=_listen, args=(stop, tasks), daemon=True).start()
    work = begin(stop, *arguments)
    while True:
        task, left_s = tasks.get()
        stop.deadline = None if left_s is None else time.monotonic() + left_s
        try:
            answer = ("done", work(task, lambda *said: send(out, ("told", said))))
        except Exception as error:
            error.add_note(traceback.format_exc())
            answer = ("failed", error)
        try:
            send(out, answer)
        except BrokenPipeError:  # nobody listens any more
            os._exit(1)


def _listen(stop: Stop, tasks: queue.SimpleQueue[tuple[Any, float | None]]) -> None:
    """Take tasks, and requests to end; the end of the input is the end of the parent."""
    while True:
        try:
            request = receive(sys.stdin.buffer)
        except Exception:  # a task that cannot be read is a fault of ours: seen at once, not waited for
            traceback.print_exc()
            os._exit(1)
        if request is None:
            os._exit(1)
        if request in (STOP, STOP_NOW):
            stop.interrupted.set()
            if request == STOP_NOW:
                stop.second_interrupt.set()
        else:
            tasks.put(request)


class _Member:
    """A process and what it works on."""

    def __init__(self, team: Team) -> None:
        command = (sys.executable, "-c", "from solvers.processes import serve; serve()")
        self.child = started(command, team.variables)
        self.lock, self.dead = threading.Lock(), False
        self.future: Future[Any] | None = None
        self.listener = threading.Thread(target=self._listen, args=(team,), daemon=True)
        self.listener.start()

    def send(self, request: Any) -> None:
        with suppress(BrokenPipeError):  # it died, as its listener says
            send(self.child.stdin, request)

    def begin(self, task: Any, left_s: float | None) -> Future[Any] | None:
        """Its future; None where the process has died."""
        with self.lock:
            if self.dead:
                return None
            future: Future[Any] = Future()
            self.future = future
        future.set_running_or_notify_cancel()
        self.send((task, left_s))
        return future

    def _listen(self, team: Team) -> None:
        try:
            while (message := receive(self.child.stdout)) is not None:
                if message[0] == "told":
                    team.messages.put(message[1])
                    continue
                future, self.future = self.future, None
                team.free.append(self)
                assert future is not None
                if message[0] == "done":
                    future.set_result(message[1])
                else:
                    future.set_exception(message[1])
        finally:  # also after a message that cannot be read
            with suppress(subprocess.TimeoutExpired):
                self.child.wait(1.0)
            self.child.kill()
            with self.lock:
                self.dead = True
                future, self.future = self.future, None
            if future is not None:
                team.free.append(self)
                future.set_exception(BrokenExecutor(f"a process of the search died (exit code {self.child.poll()})"))


class Team:
    """Members that work, each in a process that is started anew where it dies; ends with the block it is used in."""

    def __init__(
        self,
        count: int,
        begin: Callable[..., DoTask],
        arguments: tuple[Any, ...],
        stop: Stop,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Start the members.

        Args:
            count: of members.
            begin: (stop, *arguments) -> what does tasks; a function of a module, called once in every member.
            stop: of the search.
            variables: of their environment.

        Raises:
            OSError: the system starts no process.
        """
        self.stop, self.variables, self._state = stop, variables, (begin, arguments)
        self.messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.free: deque[_Member] = deque()
        self._members: list[_Member] = []
        self._counted = ExitStack()
        self._said = ""
        try:
            self.free.extend([self._started() for _ in range(count)])
        except BaseException:
            self.close()
            raise

    def _started(self) -> _Member:
        member = _Member(self)
        self._members.append(member)
        self._counted.enter_context(self.stop.memory.child(member.child.pid))
        for request in (self._state, *([self._said] if self._said else [])):
            member.send(request)
        return member

    def __enter__(self) -> Team:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Kill the members."""
        for member in self._members:
            ended(member.child, member.listener)
        self._members = []
        self._counted.close()

    def submit(self, task: Any) -> Future[Any]:
        """Begin a task; there is a member that is free."""
        member = self.free.popleft()
        while (future := member.begin(task, self.stop.remaining_s())) is None:
            member = self._started()
        return future

    def lost(self, error: BaseException) -> bool:
        """See `Hands`."""
        return isinstance(error, BrokenExecutor)

    def end(self, now: bool) -> None:
        """Ask members to end soon, or at once."""
        request = STOP_NOW if now else STOP
        if self._said not in (request, STOP_NOW):
            self._said = request
            for member in self._members:
                member.send(request)


def processes(jobs: int, *, tries: int = 1, variables: Mapping[str, str] = MappingProxyType({})) -> Gather:
    """Processes of this machine; where one dies its task is given out `tries` times in all."""

    @contextmanager
    def gathered(begin: Callable[..., DoTask], arguments: tuple[Any, ...], stop: Stop) -> Iterator[Crew]:
        with Team(jobs, begin, arguments, stop, variables) as team:

            def crew(tasks: Iterable[Any], notify: Tell) -> Iterator[Done]:
                return completed(lambda: nullcontext(team), tasks, jobs, stop, team.end, tries=tries, notify=notify)

            yield crew

    return gathered
