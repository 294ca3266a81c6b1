"""`python -m tests.fuzz`: a long campaign; damaged files that fail are kept in a folder."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from tests.fuzz.campaign import Issue, batches, issues_of
from tests.fuzz.targets import TARGETS


def main() -> int:
    """Run; the exit code says whether a fault was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--mutants", type=int, default=1_000_000, help="damaged files in all")
    parser.add_argument("--seed", type=int, default=1_000_000, help="the first one, of each target")
    parser.add_argument("--target", choices=list(TARGETS), action="append", help="only these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--output", type=Path, default=Path("out/fuzz"), help="where files that fail are kept")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    plan = batches(options.target or tuple(TARGETS), options.mutants, options.seed)
    began, found, done = time.monotonic(), 0, Counter[str]()
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(issues_of, batch): batch for batch in plan}
        try:
            for future in as_completed(waiting):
                batch = waiting.pop(future)
                for issue in future.result():
                    found += 1
                    keep(issue, options.out)
                done[batch.target] += len(batch.seeds)
                rate = done.total() / (time.monotonic() - began)
                print(f"\r{done.total():,} files, {found} faults, {rate:.0f} a second", end="", flush=True)
        except BrokenProcessPool:
            found += 1
            print("\na process died: what it was at is printed above, or the system took it for its memory")
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            print("\ninterrupted", end="")
    print(f"\n{done.total():,} files from seed {options.seed:,} on, {found} faults in {time.monotonic() - began:.0f} s")
    for name, count in sorted(done.items()):
        print(f"{count:>9,} {name}")
    return 1 if found else 0


def keep(issue: Issue, folder: Path) -> None:
    """The file and what it does, for whoever mends it."""
    stem = f"{issue.target.replace(' ', '-')}-{issue.seed}"
    (folder / f"{stem}-{Path(issue.file).name}").write_bytes(issue.content)
    (folder / f"{stem}.txt").write_text(issue.what)
    print(f"\n{issue}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
