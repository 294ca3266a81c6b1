"""Shards for jobs at run time: fast searches that say when they prove that there is none."""

from __future__ import annotations

from solvers.heuristics.shards.find import ShardSearch, Verdict, find_shard, search_shard

__all__ = ["ShardSearch", "Verdict", "find_shard", "search_shard"]
