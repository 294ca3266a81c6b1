"""Arrays as hot loops take them: where they are and how long, nothing else.

A kernel passes an array as seven values, a state of seventy arrays as five hundred, at every call of a piece; the
compiler takes most of its time to see through that. A view is two values, and nobody counts references to it.
"""

from __future__ import annotations

import operator
from typing import Any, TypeVar

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.cpython import slicing
from numba.extending import intrinsic, lower_builtin, models, register_model
from numba.np.arrayobj import fix_integer_index

from topoopt.simulate.jit import piece


class ArrayView(types.Type):
    """The type of an array that lies in memory without holes, row after row, borrowed of its owner."""

    def __init__(self, items: Any, dimensions: int) -> None:
        self.items, self.dimensions = items, dimensions
        super().__init__(name=f"ArrayView({items}, {dimensions})")


@register_model(ArrayView)
class _Model(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        lengths = types.UniTuple(types.intp, kind.dimensions)
        super().__init__(manager, kind, [("data", types.CPointer(kind.items)), ("lengths", lengths)])


def _parts_of(kind: Any) -> list[Any]:
    """The types in a tuple; of anything else, its own."""
    parts: Any = kind
    return list(parts.types) if isinstance(kind, types.BaseTuple) else [kind]


def _place(view: Any, place: Any) -> Any:
    """The type of an index of one item, or of some that follow each other; None if it is neither."""
    if not isinstance(view, ArrayView):
        return None
    if place == types.slice2_type and view.dimensions == 1:
        return place
    parts = _parts_of(place)
    if len(parts) != view.dimensions or not all(isinstance(part, types.Integer) for part in parts):
        return None
    plain = [types.unliteral(part) for part in parts]
    return types.Tuple(plain) if isinstance(place, types.BaseTuple) else plain[0]


@infer_global(len)
class _Length(AbstractTemplate):
    def generic(self, positional: Any, named: Any) -> Any:
        return signature(types.intp, *positional) if isinstance(positional[0], ArrayView) else None


@infer_global(operator.getitem)
class _Read(AbstractTemplate):
    def generic(self, positional: Any, named: Any) -> Any:
        view, place = positional[0], _place(*positional)
        if place is None:
            return None
        return signature(view if place == types.slice2_type else view.items, view, place)


@infer_global(operator.setitem)
class _Write(AbstractTemplate):
    def generic(self, positional: Any, named: Any) -> Any:
        view, place = positional[0], _place(*positional[:2])
        if place is None or place == types.slice2_type:
            return None
        return signature(types.void, view, place, view.items)


def _parts(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return cgutils.create_struct_proxy(kind)(context, builder, value=value)


def _address(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
    view, at = _parts(context, builder, kinds[0], arguments[0]), ir.Constant(ir.IntType(64), 0)
    places = cgutils.unpack_tuple(builder, arguments[1]) if isinstance(kinds[1], types.BaseTuple) else [arguments[1]]
    for length, kind, place in zip(
        cgutils.unpack_tuple(builder, view.lengths), _parts_of(kinds[1]), places, strict=True
    ):
        at = builder.add(builder.mul(at, length), fix_integer_index(context, builder, kind, place, length))
    return builder.gep(view.data, [at])


@lower_builtin(len, ArrayView)
def _length(context: Any, builder: Any, call: Any, arguments: Any) -> Any:
    return builder.extract_value(_parts(context, builder, call.args[0], arguments[0]).lengths, 0)


@lower_builtin(operator.getitem, ArrayView, types.Any)
def _read(context: Any, builder: Any, call: Any, arguments: Any) -> Any:
    return context.unpack_value(builder, call.return_type, _address(context, builder, call.args, arguments))


@lower_builtin(operator.getitem, ArrayView, types.slice2_type)
def _slice(context: Any, builder: Any, call: Any, arguments: Any) -> Any:
    view = _parts(context, builder, call.args[0], arguments[0])
    part = context.make_helper(builder, call.args[1], arguments[1])
    slicing.fix_slice(builder, part, builder.extract_value(view.lengths, 0))
    view.data = builder.gep(view.data, [part.start])
    view.lengths = cgutils.pack_array(builder, [slicing.get_slice_length(builder, part)])
    return view._getvalue()


@lower_builtin(operator.setitem, ArrayView, types.Any, types.Any)
def _write(context: Any, builder: Any, call: Any, arguments: Any) -> Any:
    kind = call.args[0].items
    context.pack_value(builder, kind, arguments[2], _address(context, builder, call.args, arguments))


def _view(kind: Any) -> Any:
    """The type of what is borrowed of a value."""
    if isinstance(kind, types.Array):
        if kind.layout != "C":
            raise TypingError(f"cannot borrow {kind}")
        return ArrayView(kind.dtype, kind.ndim)
    if isinstance(kind, types.BaseNamedTuple):
        made: Any = kind
        return types.NamedTuple([_view(part) for part in _parts_of(kind)], made.instance_class)
    if isinstance(kind, types.BaseTuple):
        return types.Tuple([_view(part) for part in _parts_of(kind)])
    if isinstance(kind, types.Number | types.Boolean | ArrayView):
        return kind
    raise TypingError(f"cannot borrow {kind}")


def _viewed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value=value)
        view = cgutils.create_struct_proxy(_view(kind))(context, builder)
        view.data, view.lengths = array.data, array.shape
        return view._getvalue()
    if isinstance(kind, types.BaseTuple):
        whole: Any = ir.Constant(context.get_value_type(_view(kind)), ir.Undefined)
        for place, part in enumerate(_parts_of(kind)):
            inner = _viewed(context, builder, part, builder.extract_value(value, place))
            whole = builder.insert_value(whole, inner, place)
        return whole
    return value


@intrinsic
def _borrowed(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, call: Any, arguments: Any) -> Any:
        return _viewed(context, builder, call.args[0], arguments[0])

    return _view(value)(value), generate


Arrays = TypeVar("Arrays")

_UNCOMPILED = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]
"""Whether kernels run as plain Python (NUMBA_DISABLE_JIT=1)."""


@piece
def borrowed(arrays: Arrays) -> Arrays:
    """Views of the arrays of nested tuples, which somebody else keeps alive.

    What is borrowed must be an argument of the kernel, or be named once more after its last use: an array that is
    never named again is freed at once.
    """
    if _UNCOMPILED:
        return arrays
    same: Arrays = _borrowed(arrays)  # type: ignore[call-arg]
    return same
