"""Shards for jobs at run time: fast searches that say when they prove that there is none, moves, look-ahead wiring."""

from __future__ import annotations

from solvers.heuristics.shards.find import ShardSearch, Verdict, disproof, find_shard, search_shard
from solvers.heuristics.shards.fragmentation import Fragmentation, fragmentation
from solvers.heuristics.shards.lookahead import wire
from solvers.heuristics.shards.moves import greedy_moves
from solvers.heuristics.shards.several import place_in_order, place_jobs
from solvers.heuristics.shards.waiting import MoveDecision, decide, wait_s

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
