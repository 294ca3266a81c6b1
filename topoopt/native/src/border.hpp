// The border to Python: numpy arrays and named tuples in, numbers and numpy arrays out.
//
// An array is taken as it is or not at all: its type, its dimensions and its layout (row after row, without holes) must
// be those of the parameter, or the call raises TypeError; nothing is converted. A View or Table of const items takes
// arrays that cannot be written as well.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <string>

#include "arrays.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace topoopt {

template <class T, std::size_t dimensions> using Borrowed =
    nb::ndarray<T, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;

template <class T> nb::object array_of(std::vector<T> values) {
    auto *owner = new std::vector<T>(std::move(values));
    nb::capsule capsule(owner, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(owner->data(), {owner->size()}, capsule).cast();
}
template <class T> nb::object array_of(Matrix<T> values) {
    auto *owner = new std::vector<T>(std::move(values.items));
    nb::capsule capsule(owner, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
    std::size_t shape[2] = {std::size_t(values.rows), std::size_t(values.columns)};
    return nb::ndarray<nb::numpy, T, nb::ndim<2>>(owner->data(), 2, shape, capsule).cast();
}

// Reads the fields of a named tuple in their order.
class Fields {
    nb::tuple tuple;
    std::size_t next = 0;

  public:
    explicit Fields(nb::handle named) {
        if (!nb::isinstance<nb::tuple>(named)) throw nb::type_error("a named tuple is needed");
        tuple = nb::borrow<nb::tuple>(named);
    }
    nb::handle item() {
        if (next >= tuple.size()) throw nb::type_error("the tuple has too few fields");
        return tuple[next++];
    }
    template <class... Parts> void into(Parts &...parts) { (take(item(), parts), ...); }

    template <class T> static void take(nb::handle item, View<T> &view) {
        Borrowed<T, 1> array;
        if (!nb::try_cast(item, array, false)) refuse_array(item);
        view = {array.data(), Index(array.size())};
    }
    template <class T> static void take(nb::handle item, Table<T> &table) {
        Borrowed<T, 2> array;
        if (!nb::try_cast(item, array, false)) refuse_array(item);
        table = {array.data(), Index(array.shape(0)), Index(array.shape(1))};
    }
    template <class T> static void take(nb::handle item, T &value) {
        if (!nb::try_cast(item, value)) throw nb::type_error("a number or a truth value is needed");
    }

  private:
    [[noreturn]] static void refuse_array(nb::handle item) {
        nb::str type(nb::getattr(item, "dtype", item.type()));
        throw nb::type_error((std::string("an array of another type, shape or layout: ") + type.c_str()).c_str());
    }
};

}  // namespace topoopt

namespace nanobind::detail {

template <class T> struct type_caster<topoopt::View<T>> {
    NB_TYPE_CASTER(topoopt::View<T>, (make_caster<topoopt::Borrowed<T, 1>>::Name))

    bool from_python(handle source, std::uint32_t flags, cleanup_list *cleanup) noexcept {
        make_caster<topoopt::Borrowed<T, 1>> inner;
        if (!inner.from_python(source, flags & ~std::uint32_t(cast_flags::convert), cleanup)) return false;
        value = {inner.value.data(), topoopt::Index(inner.value.size())};
        return true;
    }
};

template <class T> struct type_caster<topoopt::Table<T>> {
    NB_TYPE_CASTER(topoopt::Table<T>, (make_caster<topoopt::Borrowed<T, 2>>::Name))

    bool from_python(handle source, std::uint32_t flags, cleanup_list *cleanup) noexcept {
        make_caster<topoopt::Borrowed<T, 2>> inner;
        if (!inner.from_python(source, flags & ~std::uint32_t(cast_flags::convert), cleanup)) return false;
        value = {inner.value.data(), topoopt::Index(inner.value.shape(0)), topoopt::Index(inner.value.shape(1))};
        return true;
    }
};

// Vectors and matrices that a function returns are handed over; only for return values.
template <class T> struct type_caster<std::vector<T>> {
    NB_TYPE_CASTER(std::vector<T>, (make_caster<nb::ndarray<nb::numpy, T, nb::ndim<1>>>::Name))
    bool from_python(handle, std::uint32_t, cleanup_list *) noexcept { return false; }
    static handle from_cpp(std::vector<T> &&values, rv_policy, cleanup_list *) {
        return topoopt::array_of(std::move(values)).release();
    }
};

template <class T> struct type_caster<topoopt::Matrix<T>> {
    NB_TYPE_CASTER(topoopt::Matrix<T>, (make_caster<nb::ndarray<nb::numpy, T, nb::ndim<2>>>::Name))
    bool from_python(handle, std::uint32_t, cleanup_list *) noexcept { return false; }
    static handle from_cpp(topoopt::Matrix<T> &&values, rv_policy, cleanup_list *) {
        return topoopt::array_of(std::move(values)).release();
    }
};

}  // namespace nanobind::detail

namespace topoopt {

using Unlocked = nb::call_guard<nb::gil_scoped_release>;  // for all that takes longer than some microseconds

}  // namespace topoopt
