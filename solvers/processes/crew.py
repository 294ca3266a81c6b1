"""What does the independent parts of a search: a team of processes here, or something that is handed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from solvers.stop import Stop

Tell = Callable[..., None]
"""Called in a member; with the same arguments, what was given as `told` is called in the parent."""

DoTask = Callable[[Any, Tell], Any]
"""(task, tell) -> result."""


class Crew(Protocol):
    """Members that work, wherever they are."""

    def in_order(self, tasks: Sequence[Any], told: Tell) -> Iterator[Any]:
        """The result of every task, in the order of the tasks."""


Gather = Callable[[Callable[..., DoTask], tuple[Any, ...], Stop], AbstractContextManager[Crew]]
"""(begin, arguments, stop) -> members with the state that `begin(stop, *arguments)` makes, until the block ends."""
