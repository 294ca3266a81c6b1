"""What LLVM does with kernels and pieces: everything once, in the kernel.

numba optimises every function where it stands, twice, makes machine code of it, and does so again in all that call it.
"""

from __future__ import annotations

from typing import Any

from numba.core import codegen as native
from numba.core.compiler import Compiler
from numba.core.errors import TypingError


class _KernelLibrary(native.JITCodeLibrary):
    """Intermediate code that is optimised once, whole."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class _PieceLibrary(_KernelLibrary):
    """Intermediate code that waits for the kernels it is a part of."""

    @property
    def codegen(self) -> Any:
        """What is told where the piece's Python objects stand: this."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Refuse Python objects.

        Raises:
            TypingError: the piece holds some.
        """
        if environment.consts:
            raise TypingError(f"a piece cannot hold Python objects: {environment.consts}")

    def get_pointer_to_function(self, name: str) -> int:
        """No machine code."""
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        """Later."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class KernelCompiler(Compiler):
    """numba's, into a library that is optimised once."""

    library: type[native.JITCodeLibrary] = _KernelLibrary

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        if library is None:
            library = self.library(target.codegen(), self.library.__name__)
            library.enable_object_caching()
        super().__init__(typing, target, library, *rest)


class PieceCompiler(KernelCompiler):
    """numba's, into a library that waits."""

    library = _PieceLibrary
