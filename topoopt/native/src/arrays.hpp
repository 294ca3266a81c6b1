// Borrowed and owned arrays. A View or Table never owns; TOPOOPT_CHECKED turns every index into a bounds check.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace topoopt {

using Index = std::int64_t;

template <class T> struct View {
    T *data = nullptr;
    Index size = 0;

    View() = default;
    View(T *data, Index size) : data(data), size(size) {}
    template <class U> View(std::vector<U> &owner) : data(owner.data()), size(Index(owner.size())) {}
    template <class U> View(const std::vector<U> &owner) : data(owner.data()), size(Index(owner.size())) {}
    template <class U> View(View<U> other) : data(other.data), size(other.size) {}

    T &operator[](Index i) const {
#ifdef TOPOOPT_CHECKED
        if (i < 0 || i >= size) throw std::out_of_range("index outside a view");
#endif
        return data[i];
    }
    T *begin() const { return data; }
    T *end() const { return data + size; }
    View part(Index first, Index last) const {  // the items first..last-1
#ifdef TOPOOPT_CHECKED
        if (first < 0 || last < first || last > size) throw std::out_of_range("part outside a view");
#endif
        return {data + first, last - first};
    }
};

// A matrix, row after row.
template <class T> struct Table {
    T *data = nullptr;
    Index rows = 0, columns = 0;

    Table() = default;
    Table(T *data, Index rows, Index columns) : data(data), rows(rows), columns(columns) {}
    template <class U> Table(Table<U> other) : data(other.data), rows(other.rows), columns(other.columns) {}

    T &operator()(Index row, Index column) const {
#ifdef TOPOOPT_CHECKED
        if (row < 0 || row >= rows || column < 0 || column >= columns) throw std::out_of_range("index outside a table");
#endif
        return data[row * columns + column];
    }
    View<T> row(Index at) const {
#ifdef TOPOOPT_CHECKED
        if (at < 0 || at >= rows) throw std::out_of_range("row outside a table");
#endif
        return {data + at * columns, columns};
    }
    View<T> flat() const { return {data, rows * columns}; }
};

// A matrix of one's own, row after row; crosses the border as a numpy array of two dimensions.
template <class T> struct Matrix {
    std::vector<T> items;
    Index rows = 0, columns = 0;

    Matrix() = default;
    Matrix(Index rows, Index columns, T value = T())
        : items(std::size_t(rows * columns), value), rows(rows), columns(columns) {}
    operator Table<T>() { return {items.data(), rows, columns}; }
    operator Table<const T>() const { return {items.data(), rows, columns}; }
    T &operator()(Index row, Index column) { return Table<T>(*this)(row, column); }
    const T &operator()(Index row, Index column) const { return Table<const T>(*this)(row, column); }
    View<T> row(Index at) { return Table<T>(*this).row(at); }
    View<const T> row(Index at) const { return Table<const T>(*this).row(at); }
};

using Ints = View<const std::int64_t>;
using Int32s = View<const std::int32_t>;
using Int8s = View<const std::int8_t>;
using Floats = View<const double>;
using Bools = View<const bool>;

// What callers may give: checked in all builds, so that wrong input raises ValueError and never crashes.

[[noreturn]] inline void refuse(const char *name, const char *what) {
    throw std::invalid_argument(std::string(name) + ": " + what);
}
inline void require(bool holds, const char *name, const char *what) {
    if (!holds) refuse(name, what);
}
// All items within low..high-1.
template <class T> void require_within(View<T> items, Index low, Index high, const char *name) {
    for (auto item : items)
        if (Index(item) < low || Index(item) >= high) refuse(name, "an index is out of range");
}
// Offsets of the rows of a table of `items` items: `rows` + 1 of them, from 0, never falling, to `items`.
template <class T> void require_offsets(View<T> offsets, Index rows, Index items, const char *name) {
    require(offsets.size == rows + 1, name, "one offset more than rows is needed");
    require(offsets[0] == 0 && Index(offsets[rows]) == items, name, "offsets go from 0 to the number of items");
    for (Index i = 0; i < rows; ++i) require(offsets[i] <= offsets[i + 1], name, "offsets never fall");
}
template <class T> void require_size(View<T> items, Index size, const char *name) {
    require(items.size == size, name, "wrong length");
}
template <class T> void require_shape(Table<T> items, Index rows, Index columns, const char *name) {
    require(items.rows == rows && items.columns == columns, name, "wrong shape");
}

}  // namespace topoopt
