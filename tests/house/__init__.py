"""Laws of the house that linters have no rule for; `python -m tests.house` says what breaks them."""
