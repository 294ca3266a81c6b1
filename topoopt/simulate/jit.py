"""One decorator for compiled kernels, whose cache on disk cannot go stale.

numba keys its cache on the file of the outermost kernel only; a kernel that calls one of another file would keep the
old callee after an edit. Here the key also holds a digest of all files of this package and of the kernel's own part of
the house (`solvers/network`, say, with all folders in it), so kernels may call kernels of these two places.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from numba import config, njit, types
from numba.core import event
from numba.core.caching import FunctionCache

from topoopt.simulate.compilation import LISTENERS
from topoopt.simulate.jit_libraries import KernelCompiler, PieceCompiler
from topoopt.simulate.kernel_files import KernelFile, KernelFiles

Function = TypeVar("Function", bound=Callable[..., Any])


@lru_cache(maxsize=64)
def sources_digest(folder: Path) -> str:
    """SHA-256 over the sources in a folder and in all below it."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _Cache(FunctionCache):
    _impl_class = KernelFile

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        top, part = function.__module__.split(".")[:2]
        file = Path(function.__code__.co_filename)
        own = next(
            (folder for folder in file.parents if folder.parent.name == top and folder.name == part), file.parent
        )
        digests = tuple(sources_digest(folder) for folder in (Path(__file__).parent, own))
        stamp = (self._cache_file._source_stamp, *digests)
        files: Any = KernelFiles
        self._cache_file = files(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled before; None if it cannot be read, or names a class that has another name by now."""
        try:
            return self._load_overload(sig, target_context)
        except OSError:
            return None
        except Exception:  # a damaged file fails as it likes; so does one that names a class of another name by now
            with suppress(OSError):
                self._cache_file.flush()  # or saving would meet the same
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it for the next run, if the disk takes it."""
        with suppress(OSError):
            super().save_overload(sig, data)


class _Telling(event.Listener):
    """Tells the listeners of the outermost compilation; the compiler works on one at a time."""

    def __init__(self) -> None:
        self._depth = 0

    def on_start(self, event: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            for listener in tuple(LISTENERS):
                listener.began()

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            for listener in tuple(LISTENERS):
                listener.ended()


event.register("numba:compile", _Telling())


def piece(function: Function) -> Function:
    """Compile `function` into every kernel that calls it, as if it stood there: a named part of a hot loop.

    Python cannot call it: the code for that would take longer to compile than the part itself.
    """
    compiled: Function = _compiled(function, PieceCompiler, forceinline=True, no_cpython_wrapper=True)
    return compiled


def kernel(function: Function) -> Function:
    """Compile `function` on its first call, exactly as written (no fast-math), and keep the result on disk.

    It runs without the lock of the interpreter, so that another thread sees to limits and signals meanwhile.
    """
    return _kept(function)


def summing_kernel(function: Function) -> Function:
    """The same for sums that may be taken in any order, where the last digits do not count."""
    return _kept(function, fastmath={"reassoc", "contract", "nsz"})


def _kept(function: Function, **options: Any) -> Function:
    dispatcher = _compiled(function, KernelCompiler, nogil=True, **options)
    with suppress(RuntimeError):  # nowhere to keep it
        dispatcher._cache = _Cache(function)
    compiled: Function = dispatcher
    return compiled


def _compiled(function: Function, compiler: type[KernelCompiler], **options: Any) -> Any:
    """Compiled once for all constants that callers pass, and for all widths of integers: they are cast at the call."""
    options |= {"error_model": "numpy", "no_cfunc_wrapper": True}  # no zero-division checks in hot loops
    dispatcher: Any = njit(function, pipeline_class=compiler, **options)
    if config.DISABLE_JIT:  # type: ignore[attr-defined]  # then it is the function itself
        return dispatcher
    templates = dispatcher.get_call_template

    def template(positional: Any, named: Any) -> Any:
        return templates(tuple(map(_plain, positional)), {name: _plain(kind) for name, kind in named.items()})

    dispatcher.get_call_template = template
    return dispatcher


def _plain(kind: Any) -> Any:
    plain: Any = types.unliteral(kind)
    return types.int64 if plain in types.signed_domain else plain
