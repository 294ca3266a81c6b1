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
        document: what its file says, plain data; None for a problem made otherwise.
        folder: where its file stands.
        beside: the other files that were read for the problem.
    """

    document: Mapping[str, Any] | None = field(default=None, kw_only=True, compare=False, repr=False)
    folder: str = field(default="", kw_only=True, compare=False, repr=False)
    beside: tuple[str, ...] = field(default=(), kw_only=True, compare=False, repr=False)
