"""The option `--prices`: a price book of the user's, or the name of a shipped one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from topoopt.core.errors import InputError, Problem

if TYPE_CHECKING:
    from topoopt.core.price_book import PriceBook
    from topoopt.kinds.kind import Kind


def book_of(path: Path | None) -> PriceBook:
    """A book of the user's, or a shipped one: that of 2023 without a path. A file of such a name goes first.

    Raises:
        InputError: everything wrong with it.
    """
    from topoopt.costs.bills import SHIPPED_BOOKS, default_price_book, shipped_price_book
    from topoopt.files.price_book_file import read_price_book

    if path is None:
        return default_price_book()
    if str(path) in SHIPPED_BOOKS and not path.exists():
        return shipped_price_book(str(path))
    return read_price_book(path)


def given_book(path: Path | None, kinds: Sequence[Kind]) -> PriceBook | None:
    """The user's book, None if there is none.

    Args:
        path: of the option.
        kinds: those at hand.

    Raises:
        InputError: everything wrong with it, or no kind that prices mean something to.
    """
    if path is None:
        return None
    if not any(kind.takes_prices for kind in kinds):
        named = ", ".join(kind.name for kind in kinds)
        text = f"networks of kind {named} are not priced by a price book"
        raise InputError([Problem(text, path="--prices", value=str(path), allowed="kind co-optimisation")])
    return book_of(path)
