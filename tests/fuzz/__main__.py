"""`python -m tests.fuzz`: a long campaign; damaged files that fail are kept in a folder."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.fuzz.campaign import mutants
from tests.fuzz.targets import TARGETS

BATCH = 200


def main() -> int:
    """Run; the exit code says whether a fault was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--mutants", type=int, default=1_000_000, help="damaged files in all")
    parser.add_argument("--seed", type=int, default=1_000_000, help="the first one")
    parser.add_argument("--target", choices=list(TARGETS), action="append", help="only these")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="where files that fail are kept")
    options = parser.parse_args()
    names = options.target or list(TARGETS)
    began, done, found = time.monotonic(), 0, 0
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="topoopt-fuzz-") as folder:
        while done < options.mutants:
            for name in names:
                first = options.seed + done
                own = Path(folder) / name.replace(" ", "-")
                own.mkdir(exist_ok=True)
                for fault in mutants(name, range(first, first + BATCH), own):
                    found += 1
                    stem = f"{fault.target.replace(' ', '-')}-{fault.seed}"
                    (options.out / f"{stem}-{fault.file}").write_bytes(fault.content)
                    (options.out / f"{stem}.txt").write_text(fault.what)
                    print(f"\n{fault}", flush=True)
                done += BATCH
            rate = done / (time.monotonic() - began)
            print(f"\r{done:,} of {options.mutants:,} files, {found} faults, {rate:.0f} a second", end="", flush=True)
    print()
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
