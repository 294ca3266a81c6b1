"""What a calibration answers, in one sentence: how far the model is off on runs that were held back, else on all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topoopt.drawing.format import counted, percent


def answer(document: Mapping[str, Any], *, kept: bool) -> str:
    """The errors of the figures of `topoopt calibrate`.

    Args:
        kept: the efficiencies are those of the instance; none was fitted.
    """
    fitted, held_out = document["fitted"], document["held_out"]
    if kept:
        runs = [abs(run["error_percent"]) for run in document["runs"]]
        off = _off({"runs": len(runs), "mean_percent": sum(runs) / len(runs), "worst_percent": max(runs)})
        return f"With the efficiencies of the instance the model of {document['device']} is off by {off}."
    device = f"Fitted to {counted(fitted['runs'], 'run')}, the model of {document['device']} is off by"
    if held_out["runs"]:
        return f"{device} {_off(held_out)} held back, and by {percent(fitted['mean_percent'] / 100)} on those fitted."
    return f"{device} {_off(fitted)} it was fitted to; none was held back."


def _off(errors: Mapping[str, Any]) -> str:
    """Mean and worst error, and of how many runs."""
    mean, worst = (percent(errors[name] / 100) for name in ("mean_percent", "worst_percent"))
    return f"{mean} in the mean, {worst} at worst, on {counted(errors['runs'], 'run')}"
