from . import circuits as circuits
from . import exact as exact
from . import flows as flows
from . import graph as graph
from . import jobs as jobs
from . import pipeline as pipeline
from . import placement as placement
from . import routing as routing
from . import search as search

class Stopped(SystemExit):
    """Raised inside a call whose thread watches a flag that is set."""

class StopFlag:
    """What ends long calls of the thread that watches it."""

    def set(self) -> None: ...
    def is_set(self) -> bool: ...
    def watch(self) -> None:
        """Calls of this thread look at the flag from now on."""
    def unwatch(self) -> None:
        """Calls of this thread look at no flag any more."""
