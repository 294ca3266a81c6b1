"""Shards for jobs at run time: fast searches that say when they prove that there is none, and the exact program."""

from __future__ import annotations

from solvers.shards.find import ShardSearch, Verdict, disproof, find_shard, search_shard
from solvers.shards.several import place_in_order, place_jobs

__all__ = ["ShardSearch", "Verdict", "disproof", "find_shard", "place_in_order", "place_jobs", "search_shard"]
