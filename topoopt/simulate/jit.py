"""One decorator for compiled kernels, whose cache on disk cannot go stale.

numba keys its cache on the file of the outermost kernel only; a kernel that calls one of another file would keep the
old callee after an edit. Here the key also holds a digest of all files of this package and of the kernel's own folder,
so kernels may call kernels of these two places.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from numba import njit
from numba.core.caching import FunctionCache

Function = TypeVar("Function", bound=Callable[..., Any])


@lru_cache(maxsize=64)
def sources_digest(folder: Path) -> str:
    """SHA-256 over the sources in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _Cache(FunctionCache):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        own = Path(function.__code__.co_filename).parent
        digests = tuple(sources_digest(folder) for folder in (Path(__file__).parent, own))
        self._cache_file._source_stamp = (self._cache_file._source_stamp, *digests)


def kernel(function: Function) -> Function:
    """Compile `function` on its first call, exactly as written (no fast-math), and keep the result on disk."""
    dispatcher = njit(function, error_model="numpy")  # no zero-division checks in hot loops
    dispatcher._cache = _Cache(function)
    compiled: Function = dispatcher
    return compiled
