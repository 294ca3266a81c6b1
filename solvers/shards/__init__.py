"""Shards for jobs at run time: fast searches that say when they prove that there is none, moves, look-ahead wiring."""

from __future__ import annotations

from solvers.shards.find import ShardSearch, Verdict, disproof, find_shard, search_shard
from solvers.shards.fragmentation import Fragmentation, fragmentation
from solvers.shards.lookahead import wire
from solvers.shards.moves import greedy_moves
from solvers.shards.several import place_in_order, place_jobs
from solvers.shards.waiting import MoveDecision, decide, wait_s

__all__ = [
    "Fragmentation",
    "MoveDecision",
    "ShardSearch",
    "Verdict",
    "decide",
    "disproof",
    "find_shard",
    "fragmentation",
    "greedy_moves",
    "place_in_order",
    "place_jobs",
    "search_shard",
    "wait_s",
    "wire",
]
