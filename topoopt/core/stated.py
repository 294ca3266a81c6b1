"""What problems of all kinds keep of the instance file that states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from topoopt.core.shown import Displayed


@dataclass(frozen=True, eq=False, repr=False)
class Stated(Displayed):
    """A problem.

    Attributes:
        document: what its file says, plain data, where that is small; None for a problem made otherwise.
        alone: whether that file says it all: no other was read for the problem.
    """

    document: Mapping[str, Any] | None = field(default=None, kw_only=True, compare=False, repr=False)
    alone: bool = field(default=False, kw_only=True, compare=False, repr=False)
