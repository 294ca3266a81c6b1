"""Seeds by name."""

from __future__ import annotations

from topoopt.core.arrays import seed_for


def test_a_seed_by_name_is_the_same_everywhere_and_differs_by_name_and_seed() -> None:
    """The first 8 bytes of `printf '1 fat-tree' | sha256sum`, halved; no two of the others are alike."""
    assert seed_for(1, "fat-tree") == 0x799C98F305A82D6E >> 1
    seeds = {seed_for(seed, name) for seed in range(20) for name in ("fat-tree", "torus-2d", "expander")}
    assert len(seeds) == 60
    assert all(0 <= seed < 2**63 for seed in seeds)
