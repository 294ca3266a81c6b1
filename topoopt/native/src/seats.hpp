// Depth-first search: ranks of a shard to classes of servers, one after the other.
#pragma once
#include <optional>

#include "arrays.hpp"
#include "stop.hpp"

namespace topoopt::pipeline {

// Gives every rank a class so that each component stays under one switch.
//
// A component keeps servers for all its ranks under its switch as soon as its first rank is seated. Ranks alike take
// classes in the order of preference, which leaves out equal seatings.
class Seats {
    Table<const std::int64_t> switch_of, component;  // by line and class; by line and rank, -1: dark
    Ints size;                                       // ranks of each component
    std::vector<std::int64_t> counts;                // free servers of each class
    Matrix<std::int64_t> free;                       // free servers by line and switch
    std::vector<std::int64_t> fixed, setter;         // switch of each component, and the rank that set it; -1: none

    bool fits(Index rank, Index c) const {
        if (counts[c] == 0) return false;
        for (Index line = 0; line < component.rows; ++line) {
            Index e = component(line, rank), s = switch_of(line, c);
            if (e >= 0 && fixed[e] >= 0 ? fixed[e] != s : free(line, s) < (e < 0 ? 1 : size[e])) return false;
        }
        return true;
    }
    void seat(Index rank, Index c) {
        --counts[c];
        for (Index line = 0; line < component.rows; ++line) {
            Index e = component(line, rank), s = switch_of(line, c);
            if (e < 0) --free(line, s);
            else if (fixed[e] < 0) fixed[e] = s, setter[e] = rank, free(line, s) -= size[e];
        }
    }
    void leave(Index rank, Index c) {
        ++counts[c];
        for (Index line = 0; line < component.rows; ++line) {
            Index e = component(line, rank), s = switch_of(line, c);
            if (e < 0) ++free(line, s);
            else if (setter[e] == rank) fixed[e] = setter[e] = -1, free(line, s) += size[e];
        }
    }

  public:
    Seats(Table<const std::int64_t> switch_of, Table<const std::int64_t> component, Ints size, Ints counts,
          Table<const std::int64_t> free)
        : switch_of(switch_of),
          component(component),
          size(size),
          counts(counts.begin(), counts.end()),
          free(free.rows, free.columns),
          fixed(size.size, -1),
          setter(size.size, -1) {
        require_shape(switch_of, component.rows, counts.size, "switch_of");
        require(free.rows == component.rows, "free", "wrong shape");
        require_within(switch_of.flat(), 0, free.columns, "switch_of");
        require_within(component.flat(), -1, size.size, "component");
        require_within(size, 0, Index(1) << 40, "size"), require_within(counts, 0, Index(1) << 40, "counts");
        require_within(free.flat(), 0, Index(1) << 40, "free");
        std::copy(free.flat().begin(), free.flat().end(), this->free.items.begin());
    }
    // The class of each rank, if there is a seating, and whether none is a proof; alike: the rank stands in the same
    // components as the one before it; nodes: seats tried before the search is cut off.
    std::pair<std::optional<std::vector<std::int64_t>>, bool> search(Bools alike, Ints preference, Index nodes) {
        Index classes = Index(counts.size()), ranks = component.columns, rank = 0;
        require_size(alike, ranks, "alike"), require_size(preference, classes, "preference");
        require_within(preference, 0, classes, "preference");
        require(ranks > 0 && !alike[0], "alike", "the first rank has none before it");
        std::vector<std::int64_t> position(classes, -1), seated(ranks), tried(ranks);
        for (Index i = 0; i < classes; ++i) position[preference[i]] = i;
        for (auto i : position) require(i >= 0, "preference", "each class once is needed");
        StopWatch watch;
        while (true) {
            watch();
            Index chosen = -1, first = alike[rank] ? position[seated[rank - 1]] : 0;
            // Without a rank alike before, the class of the rank before is tried first, then all others in turn.
            Index extra = rank > 0 && !alike[rank], before = extra ? seated[rank - 1] : -1;
            while (chosen < 0 && first + tried[rank] < classes + extra) {
                Index i = tried[rank]++, c = extra && i == 0 ? before : preference[first + i - extra];
                if ((i == 0 || c != before) && fits(rank, c)) chosen = c;
            }
            if (chosen >= 0) {
                if (nodes <= 0) return {std::nullopt, false};
                --nodes;
                seated[rank] = chosen;
                seat(rank, chosen);
                if (++rank == ranks) return {std::move(seated), true};
                tried[rank] = 0;
            } else {
                if (--rank < 0) return {std::nullopt, true};
                leave(rank, seated[rank]);
            }
        }
    }
};

}  // namespace topoopt::pipeline
