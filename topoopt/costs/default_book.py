"""The price book that is shipped."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ruamel.yaml import YAML

from topoopt.core.price_book import PriceBook, price_book

DEFAULT_BOOK = "prices-2023.yaml"


@cache
def default_price_book() -> PriceBook:
    """The shipped book; a file of ours, so it is read as it is (a test puts it through the validating reader)."""
    text = files("topoopt.costs").joinpath(DEFAULT_BOOK).read_text(encoding="utf-8")
    return price_book(YAML(typ="safe", pure=True).load(text))
