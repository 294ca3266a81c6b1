"""Lets the tests of this folder import `lab`, and `host_cases` of the exporters (test folders are not packages)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "export"))
sys.path.insert(0, str(Path(__file__).parent.parent / "report"))
