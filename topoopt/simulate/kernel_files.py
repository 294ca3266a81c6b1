"""How a compiled kernel stands on disk, so that reading it costs a few milliseconds.

numba on its own loads the whole compiler before it reads the first kernel, imports every module of its own that the
kernel was compiled from (with them SciPy), and parses the intermediate code of the kernel. To run it, none of that is
needed; the compiler loads itself, and the intermediate code is parsed, once something else is compiled.
"""

from __future__ import annotations

from typing import Any

from numba.core import codegen as native
from numba.core.caching import CompileResultCacheImpl
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
        return super()._get_module_for_linking()  # type: ignore[no-untyped-call]

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Any:
        name, kind, data = state
        if kind != "object":
            return super()._unserialize(codegen, state)  # type: ignore[no-untyped-call]
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
        (name, kind, code), *rest, environments = super().reduce(compiled)  # type: ignore[no-untyped-call]
        module = compiled.library._get_module_for_linking()
        parts = (*module.functions, *module.global_variables)
        symbols = frozenset(part.name for part in parts if not part.is_declaration)
        used = tuple(each for each in environments if each.consts)
        return ((name, kind, (*code, symbols)), *rest, used)

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """The kernel, ready to run."""
        rtsys.initialize(target_context)
        target_context.codegen()._library_class = _Library
        return super().rebuild(target_context, payload)  # type: ignore[no-untyped-call]
