"""Whether the command that runs was asked to say nothing but errors."""

from __future__ import annotations

from contextvars import ContextVar

_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


def be_quiet(wanted: bool) -> None:
    """Set by the option `--quiet`, which every command has."""
    _QUIET.set(wanted)


def quiet() -> bool:
    """Whether it was given."""
    return _QUIET.get()
