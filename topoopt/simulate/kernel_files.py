"""How a compiled kernel stands on disk, so that reading it costs a few milliseconds.

numba on its own loads the whole compiler before it reads the first kernel, imports every module of its own that the
kernel was compiled from (with them SciPy), and parses the intermediate code of the kernel. To run it, none of that is
needed; the compiler loads itself, and the intermediate code is parsed, once something else is compiled.
"""

from __future__ import annotations

import glob
import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core import codegen as native
from numba.core.caching import CompileResultCacheImpl, IndexDataCacheFile
from numba.core.runtime.nrt import rtsys


class _Library(native.JITCodeLibrary):
    """Machine code from disk.

    Attributes:
        unparsed: intermediate code, for kernels that are compiled later and call this one.
    """

    unparsed: bytes | None = None

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None and self.unparsed is not None:
            self._shared_module = native.ll.parse_bitcode(self.unparsed)  # type: ignore[attr-defined]
        return super()._get_module_for_linking()

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Any:
        name, kind, data = state
        if kind != "object":
            return super()._unserialize(codegen, state)
        machine_code, bitcode, symbols = data
        library = codegen.create_library(name)
        library.enable_object_caching()
        library._set_compiled_object(machine_code)
        library.unparsed = bitcode
        library._finalize_final_module()
        codegen._engine._defined_symbols |= symbols
        return library


class KernelFile(CompileResultCacheImpl):
    """What of a compiled kernel is written, and how it is read."""

    def reduce(self, compiled: Any) -> Any:
        """What is pickled: with the names it defines, without environments that hold nothing."""
        (name, kind, code), *rest, environments = super().reduce(compiled)
        module = compiled.library._get_module_for_linking()
        parts = (*module.functions, *module.global_variables)
        symbols = frozenset(part.name for part in parts if not part.is_declaration)
        used = tuple(each for each in environments if each.consts)
        return ((name, kind, (*code, symbols)), *rest, used)

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """The kernel, ready to run."""
        rtsys.initialize(target_context)
        target_context.codegen()._library_class = _Library
        return super().rebuild(target_context, payload)


class KernelFiles(IndexDataCacheFile):
    """Where the compiled forms of one kernel stand: a file for each kind of arguments, named by what it holds.

    numba numbers its files and keeps an index of them. Of two processes that compile one kernel for different arguments
    at once, the index of one may then name the code of the other, and calling that crashes; so may the index of a
    process that was killed before it wrote the code, with that of an older source. Here a file is what its name says.
    """

    def save(self, key: Any, data: Any) -> None:
        """Write it, in one step, and remove what was compiled from other sources."""
        self._save_data(self._name(key), (key, data))
        self._remove(but=f"{self._base}.{self._sources()}.")

    def load(self, key: Any) -> Any:
        """What was saved for these arguments and sources; None if there is nothing."""
        try:
            saved, data = self._load_data(self._name(key))
        except FileNotFoundError:
            return None
        return data if saved == key else None

    def flush(self) -> None:
        """Remove all."""
        self._remove()

    @property
    def _base(self) -> str:
        return str(self._index_name).removesuffix(".nbi")

    def _sources(self) -> str:
        return _digest((self._version, self._source_stamp))

    def _name(self, key: Any) -> str:
        return f"{self._base}.{self._sources()}.{_digest(key)}.nbc"

    def _remove(self, but: str | None = None) -> None:
        for path in glob.glob(glob.escape(os.path.join(self._cache_path, self._base)) + ".*"):
            if but is None or not Path(path).name.startswith(but):
                with suppress(OSError):  # another process was faster
                    os.unlink(path)


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:20]
