"""`python -m tests.house [FOLDER]`: what breaks the laws of the house; exit code 1 if anything does."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.house.laws import LAWS, breaches
from tests.house.tree import read_tree


def main(root: Path) -> int:
    """Print every breach under its law; the exit code."""
    tree = read_tree(root)
    broken = breaches(tree)
    for name, found in broken.items():
        print(f"{name}:", *found, sep="\n  ")
    print(f"{len(tree)} modules, {len(LAWS)} laws, {sum(map(len, broken.values()))} breaches")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2]))
