"""Strategies of language models evaluated in a second: the closed form, and the Calculon model."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.benchmarks.figures import Figure, best_of
from tests.support.llm_cases import strategy, training
from topoopt.simulate.llm_training.roofline import roofline_columns
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.workloads.llm_training.devices import device_of
from topoopt.workloads.llm_training.presets import LANGUAGE_MODELS

COUNT = 4000
"""Strategies evaluated at once: columns that stay in the cache."""


def llm_training_figures() -> list[Figure]:
    """Records a second of a dense model and of one of experts."""
    problem = training("llama3-70b", 512, 512, 4096)
    tried = [
        strategy(tensor=t, pipeline=p, data=512 // t // p, zero=zero, micro_batch=b)
        for t in (1, 2, 4, 8) for p in (1, 2, 4, 8, 16) for zero in (0, 1) for b in (1, 2)
    ]  # fmt: skip
    found = []
    for name in ("llama3-70b", "deepseek-v3"):
        own = replace(problem, model=LANGUAGE_MODELS[name])
        columns = columns_of((tried * (COUNT // len(tried)))[:COUNT], own.model.layers)
        device = device_of(own)
        seconds = best_of(partial(roofline_columns, own, device, columns))
        text = f"closed form, {name}, strategies a second"
        found.append(Figure(text, COUNT / seconds, "1/s", 1e6, higher_is_better=True))
    return found
