"""What a sweep of delays answers, in one sentence: whether setting circuits anew pays, and up to which delay."""

from __future__ import annotations

from topoopt.core.comparison import ReconfigurationSweep, Scheme, WhenBetter
from topoopt.core.switching import delay_text
from topoopt.drawing.format import milliseconds


def answer(sweep: ReconfigurationSweep) -> str:
    """The scheme that pays up to the longest delay, beside the network that is set once."""
    one_shot = sweep.schemes[0].points[0].iteration_time_ms
    own = f"the network set once takes {milliseconds(one_shot)}"
    judged = [scheme for scheme in sweep.schemes if scheme.break_even is not None]
    paying = [scheme for scheme in judged if _wins_ms(scheme) is not None]
    if not judged:
        anew = [(point, scheme.name) for scheme in sweep.schemes[1:] for point in scheme.points]
        if not anew:
            return f"Nothing was set beside the network that is set once: {own}."
        least, name = min(anew, key=lambda one: one[0].iteration_time_ms)
        took = milliseconds(least.iteration_time_ms)
        return f"Setting circuits anew takes {took} at best ({name} at {delay_text(least.delay_ms)}); {own}."
    if not paying:
        open_ones = [one for one in judged if one.break_even and one.break_even.verdict is WhenBetter.OPEN]
        if open_ones:
            return f"Whether setting circuits anew pays was not decided in time; {own}."
        return f"Setting circuits anew never pays, not even without delay: {own}, and every scheme tried takes longer."
    best = max(paying, key=lambda scheme: _wins_ms(scheme) or 0.0)
    wins = _wins_ms(best) or 0.0
    every = best.break_even is not None and best.break_even.verdict is WhenBetter.ALWAYS
    upto = f"at every delay tried, up to {delay_text(wins)}" if every else f"up to a delay of {delay_text(wins)}"
    return f"Setting circuits anew pays {upto} ({best.name}); {own}."


def _wins_ms(scheme: Scheme) -> float | None:
    """The largest delay at which the scheme is faster."""
    found = scheme.break_even
    return None if found is None or found.wins is None else found.wins.delay_ms
