"""Where tests find the shipped instances, and the reference data that stand beside a checkout (or not)."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The project."""

INSTANCES = ROOT / "instances"

SHARED_DATA = ROOT.parent / "shared" / "data"
"""Real inputs of public repositories; tests that need them skip where the folder is absent."""
