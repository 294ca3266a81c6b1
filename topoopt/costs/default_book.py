"""The price books that are shipped."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ruamel.yaml import YAML

from topoopt.core.price_book import PriceBook, price_book

SHIPPED_BOOKS = {"2023": "prices-2023.yaml", "h200": "prices-h200.yaml"}
"""Their files, beside this module, by the name that `--prices` takes."""

DEFAULT_BOOK = SHIPPED_BOOKS["2023"]


@cache
def shipped_price_book(name: str) -> PriceBook:
    """A book of `SHIPPED_BOOKS`; files of ours, read as they are (a test puts them through the validating reader)."""
    text = files("topoopt.costs").joinpath(SHIPPED_BOOKS[name]).read_text(encoding="utf-8")
    return price_book(YAML(typ="safe", pure=True).load(text))


def default_price_book() -> PriceBook:
    """The book of 2023."""
    return shipped_price_book("2023")
