"""Lets the tests of this folder import `network_cases` (test folders are not packages)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
