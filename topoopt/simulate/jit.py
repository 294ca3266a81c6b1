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
from numba.core.errors import TypingError
from numba.extending import intrinsic

from topoopt.simulate.compilation import LISTENERS
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
        super().__init__(function)  # type: ignore[no-untyped-call]
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
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except OSError:
            return None
        except Exception:  # a damaged file fails as it likes; so does one that names a class of another name by now
            with suppress(OSError):
                self._cache_file.flush()  # type: ignore[no-untyped-call]  # or saving would meet the same
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it for the next run, if the disk takes it."""
        with suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


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


event.register("numba:compile", _Telling())  # type: ignore[no-untyped-call]


def piece(function: Function) -> Function:
    """Compile `function` into every kernel that calls it, as if it stood there: a named part of a hot loop.

    Python cannot call it: the code for that would take longer to compile than the part itself.
    """
    options: dict[str, Any] = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiled: Function = njit(function, error_model="numpy", **options)
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
    dispatcher = njit(function, error_model="numpy", nogil=True, **options)  # no zero-division checks in hot loops
    with suppress(RuntimeError):  # nowhere to keep it
        dispatcher._cache = _Cache(function)
    compiled: Function = dispatcher
    return compiled


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value=value)
        array.meminfo = array.meminfo.type(None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts: Any = kind
        for place, part in enumerate(parts):
            inner = _without_owner(context, builder, part, builder.extract_value(value, place))
            value = builder.insert_value(value, inner, place)
        return value
    if not isinstance(kind, types.Number | types.Boolean):  # it would be freed without having been counted
        raise TypingError(f"cannot borrow {kind}")
    return value


@intrinsic
def _borrowed(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, signature.args[0], arguments[0])

    return value(value), generate


Arrays = TypeVar("Arrays")

_UNCOMPILED = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]
"""Whether kernels run as plain Python (NUMBA_DISABLE_JIT=1)."""


@piece
def borrowed(arrays: Arrays) -> Arrays:
    """The same nested tuples of arrays, whose references are not counted: somebody else keeps them alive.

    Counting at every access to a field would cost a hot loop more than its work. What is borrowed must be an argument
    of the kernel, or be named once more after its last use: an array that is never named again is freed at once.
    """
    if _UNCOMPILED:
        return arrays
    same: Arrays = _borrowed(arrays)  # type: ignore[call-arg]
    return same
