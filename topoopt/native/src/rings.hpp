// Short rings through all members of a group under given distances.
#pragma once
#include <algorithm>
#include <limits>
#include <vector>

#include "arrays.hpp"
#include "stop.hpp"

namespace topoopt::jobs {

using Order = std::vector<std::int64_t>;

inline void require_distances(Table<const double> distance) {
    require(0 < distance.rows && distance.rows == distance.columns, "distance", "a square is needed");
    for (double item : distance.flat()) require(item >= 0.0, "distance", "negative, or no number");
}

// A shortest ring, member 0 first, by dynamic programming: best[set, v] over paths from 0 through the set to v.
inline Order exact_ring(Table<const double> distance) {
    require_distances(distance);
    Index rest = distance.rows - 1, full = (Index(1) << std::min(rest, Index(20))) - 1;
    require(rest < 16, "distance", "too many members");
    Order order(distance.rows, 0);
    if (rest == 0) return order;
    constexpr double NEVER = std::numeric_limits<double>::infinity();
    Matrix<double> best(full + 1, rest, NEVER);
    Matrix<std::int8_t> before(full + 1, rest);
    for (Index v = 0; v < rest; ++v) best(Index(1) << v, v) = distance(0, v + 1);
    for (Index members = 1; members <= full; ++members)
        for (Index v = 0; v < rest; ++v) {
            double reach = best(members, v);
            if (reach == NEVER) continue;
            for (Index w = 0; w < rest; ++w) {
                if (members >> w & 1) continue;
                Index more = members | Index(1) << w;
                double value = reach + distance(v + 1, w + 1);
                if (value < best(more, w)) best(more, w) = value, before(more, w) = std::int8_t(v);
            }
        }
    Index last = 0;
    for (Index v = 0; v < rest; ++v)
        if (best(full, v) + distance(v + 1, 0) < best(full, last) + distance(last + 1, 0)) last = v;
    for (Index position = rest, members = full; position > 0; --position) {
        order[position] = last + 1;
        Index previous = before(members, last);
        members &= ~(Index(1) << last);
        last = previous;
    }
    return order;
}

// Moves segments of up to three members elsewhere in the ring while that shortens it (first improvement).
inline Order move_segments(Table<const double> distance, Ints start_order) {
    constexpr Index SEGMENT = 3;
    require_distances(distance);
    require_size(start_order, distance.rows, "order");
    require_within(start_order, 0, distance.rows, "order");
    Order order(start_order.begin(), start_order.end());
    Index size = distance.rows, held[SEGMENT];
    auto at = [&](Index i) -> std::int64_t & { return order[i < size ? i : i - size]; };
    View<const double> all = distance.flat();
    double tolerance = 1e-12 * *std::max_element(all.begin(), all.end());
    for (bool again = true; again;) {
        again = false;
        for (Index length = 1; length <= std::min(SEGMENT, size - 2); ++length)
            for (Index start = 0; start < size; ++start) {
                look_at_stop();
                Index first = order[start], last = at(start + length - 1);
                Index before = at(start + size - 1), after = at(start + length);
                double gain = distance(before, first) + distance(last, after) - distance(before, after);
                if (gain <= tolerance) continue;
                for (Index ahead = 0; ahead < size - length - 1; ++ahead) {
                    Index u = at(start + length + ahead), v = at(start + (length + ahead + 1) % size);
                    if (!(distance(u, first) + distance(last, v) - distance(u, v) < gain - tolerance)) continue;
                    for (Index k = 0; k < length; ++k) held[k] = at(start + k);
                    for (Index k = 0; k <= ahead; ++k) at(start + k) = at(start + length + k);
                    for (Index k = 0; k < length; ++k) at(start + ahead + 1 + k) = held[k];
                    again = true;
                    break;
                }
            }
    }
    return order;
}

}  // namespace topoopt::jobs
