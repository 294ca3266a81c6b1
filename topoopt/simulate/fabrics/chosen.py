"""From the fabrics an instance names to their builders and options, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from topoopt.core.errors import Problem
from topoopt.core.job import BaselineSettings, FabricChoice
from topoopt.core.price_book import PriceBook
from topoopt.costs.bills import default_price_book
from topoopt.simulate.fabrics import FABRICS
from topoopt.simulate.fabrics.options import FabricOptions

SETTINGS = ("nic_gbps", "oversubscription", "layer", "shape", "ecmp")
"""Fields of a choice that not every fabric has."""

_OTHER_NAMES = {"fat_tree_gbps": "nic_gbps"}
"""Fields of `FabricOptions` that a choice calls otherwise."""


def settings_of(fabric: str) -> tuple[str, ...]:
    """Fields of a choice that concern a fabric of the table."""
    return tuple(_OTHER_NAMES.get(name, name) for name in FABRICS[fabric].uses)


def choice_problems(choices: Sequence[FabricChoice]) -> list[tuple[tuple[int | str, ...], Problem]]:
    """Unknown fabrics, settings that a fabric does not have, labels used twice; each with its place in the list.

    Demand-driven circuits are no network that stays, and have no place in such a list.
    """
    problems: list[tuple[tuple[int | str, ...], Problem]] = []
    seen: dict[str, int] = {}
    for place, choice in enumerate(choices):
        if choice.fabric not in FABRICS:
            from topoopt.simulate.circuits import DYNAMIC_FABRICS

            text, allowed = "no such fabric", ", ".join(FABRICS)
            if choice.fabric in DYNAMIC_FABRICS:
                text = "demand-driven circuits run in topoopt fabrics --fabrics and topoopt reconfigure only"
            problems.append(((place, "fabric"), Problem(text, value=choice.fabric, allowed=allowed)))
            continue
        known = settings_of(choice.fabric)
        for name in SETTINGS:
            value = getattr(choice, name)
            if value is not None and name not in known:
                text = f"{choice.fabric} has no such setting"
                allowed = ", ".join(("label", *known))
                problems.append(((place, name), Problem(text, value=str(value), allowed=allowed)))
        if choice.name in seen:
            text = f"the name of entry {seen[choice.name] + 1} again"
            where = (place, "label") if choice.label else (place, "fabric")
            problems.append((where, Problem(text, value=choice.name, allowed="another label")))
        seen.setdefault(choice.name, place)
    return problems


def options_of(
    choice: FabricChoice, settings: BaselineSettings, seed: int, book: PriceBook | None = None
) -> FabricOptions:
    """Options of a fabric of the table: of the choice, else of the settings for the plain fat-tree.

    `book` has the prices behind rates of equal cost; None: those shipped.
    """
    options = FabricOptions(
        seed=seed,
        nic_gbps=choice.nic_gbps,
        fat_tree_gbps=choice.nic_gbps,
        oversubscription=choice.oversubscription,
        shape=choice.shape,
        book=default_price_book() if book is None else book,
    )
    if choice.layer is not None:
        options = replace(options, layer=choice.layer)
    if choice.ecmp is not None:
        options = replace(options, ecmp=choice.ecmp)
    if choice.fabric == "fat-tree":
        if choice.nic_gbps is None:
            options = replace(options, fat_tree_gbps=settings.fat_tree_gbps)
        if choice.oversubscription is None:
            options = replace(options, oversubscription=settings.fat_tree_oversubscription)
    return options
