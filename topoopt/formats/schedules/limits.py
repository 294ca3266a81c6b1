"""How much of a schedule is read."""

from topoopt.core.arrays import MIB

MAX_FILE_BYTES = 512 * MIB
MAX_NODES = 30_000_000
MOST_CELLS = 20_000_000
MOST_ACTIONS = 4_000_000
MOST_RANKS = 8192
MOST_SHOWN = 5
