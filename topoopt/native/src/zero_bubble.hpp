// Zero-bubble orders under a limit of memory, by the greedy rounds of Qi et al. (arXiv:2401.10241, section 4).
//
// After a warm-up that fills the memory or lasts until the first micro-batch comes back, each round does one forward
// and one backward pass on every rank; gradients of weights fill the gaps before them, and are done early where memory
// is short or where waiting would make this rank the one that idles most.
#pragma once
#include <algorithm>

#include "pass_program.hpp"

namespace topoopt::pipeline {

class ZeroBubbleRounds {
    enum Kind { F, B, W, KINDS };  // forward, gradients of inputs, gradients of weights: rows of the tables
    Table<const std::int64_t> cost;
    Index transfer;
    Table<const double> adds;  // memory that a pass takes, or gives back if negative
    Floats capacity;           // of memory
    Index p, m;
    Matrix<std::int64_t> done, ended_forward, ended_back;  // passes by kind and rank; ends by rank and micro-batch
    std::vector<std::int64_t> end, idle;                   // of the last pass of each rank
    std::vector<double> held;                              // memory
    Matrix<std::int32_t> passes;

    // When what the next pass of a kind waits for has come; 0: it waits for nobody.
    Index arrival(Kind kind, Index j) const {
        Index i = done(kind, j);
        if (kind == F && j > 0) return ended_forward(j - 1, i) + transfer;
        if (kind == B && j + 1 < p) return ended_back(j + 1, i) + transfer;
        return 0;
    }
    // The next pass of a kind on rank j, as early as can be.
    void run(Kind kind, Index j) {
        Index i = done(kind, j), start = std::max(end[j], arrival(kind, j));
        if (done(F, j) > 0) idle[j] += start - end[j];
        end[j] = start + cost(kind, j);
        if (kind != W) (kind == F ? ended_forward : ended_back)(j, i) = end[j];
        held[j] += adds(kind, j);
        auto pass = passes.row(3 * m * j + done(F, j) + done(B, j) + done(W, j));
        pass[0] = kind == F ? PASS_FORWARD : kind == B ? PASS_INPUTS : PASS_WEIGHTS;
        pass[1] = std::int32_t(i), pass[2] = std::int32_t(j);
        ++done(kind, j);
    }
    bool weights_wait(Index j) const { return done(W, j) < done(B, j); }
    Index idle_gap(Index j) const { return *std::max_element(idle.begin(), idle.end()) - idle[j]; }

    // The first micro-batch, and as many more forward passes as fit before it comes back.
    void warm_up(bool overlap_first) {
        for (Index j = 0; j < p; ++j) run(F, j);
        std::vector<std::int64_t> more(p);
        Index back = ended_forward(p - 1, 0) + cost(B, p - 1);
        for (Index j = p - 2; j >= 0; --j) {
            double memory = held[j];
            Index until = end[j];
            while (done(F, j) + more[j] < m && memory + adds(F, j) <= capacity[j]) {
                if (overlap_first ? until + cost(F, j) > back + transfer : until >= back + transfer) break;
                memory += adds(F, j), until += cost(F, j), ++more[j];
            }
            back = std::max(until, back + transfer) + cost(B, j);
        }
        for (Index j = 1; j < p; ++j) {
            while (more[j] > 0 && more[j] >= more[j - 1] && done(F, j) + more[j] < m) --more[j];
            more[j] = std::min(more[j], more[j - 1]);  // what the rank before does not send cannot be done
        }
        for (Index j = 0; j < p; ++j)
            for (Index i = 0; i < more[j]; ++i) run(F, j);
        for (Index j = p - 1; j >= 0; --j) run(B, j);
    }
    // Whether rank j does a forward pass in this round, or leaves it for the sake of the backward pass.
    bool may_forward(Index j, bool backward_first) const {
        if (j + 1 >= p || !backward_first || done(F, j) < done(F, j + 1) + 2) return true;
        Index behind = end[j + 1] + cost(F, j + 1) + cost(B, j + 1) + transfer, spent = 0;
        if (end[j] >= behind) return false;
        double memory = held[j] + adds(F, j);
        for (Index i = done(W, j); memory > capacity[j] && i < done(B, j); ++i)
            spent += cost(W, j), memory += adds(W, j);
        return end[j] + cost(F, j) + spent <= behind || behind - end[j] > idle_gap(j);
    }
    // Gradients of weights before the next pass of a kind, for memory, then in its gap, and that pass; whether memory
    // suffices.
    bool fill_and_run(Kind kind, Index j, bool greedy) {
        while (held[j] + adds(kind, j) > capacity[j]) {
            if (!weights_wait(j)) return false;
            run(W, j);
        }
        Index earliest = arrival(kind, j);
        while (weights_wait(j) && end[j] + cost(W, j) <= earliest) run(W, j);
        bool late = greedy || earliest - end[j] > idle_gap(j);
        if (late && weights_wait(j) && end[j] < earliest) run(W, j);
        if (kind == B && j == 0 && done(F, 0) == m)
            while (weights_wait(0)) run(W, 0);
        run(kind, j);
        return true;
    }

  public:
    // Ticks of F, B and W, float64 memory that they take, both [3, p]; of m micro-batches.
    ZeroBubbleRounds(Table<const std::int64_t> cost, Index transfer, Table<const double> adds, Floats capacity, Index m)
        : cost(cost), transfer(transfer), adds(adds), capacity(capacity), p(capacity.size), m(m) {
        require_shape(cost, KINDS, p, "cost"), require_shape(adds, KINDS, p, "adds");
        require(p >= 1 && m >= 1 && p < Index(1) << 26 && m < (Index(1) << 26) / p, "m", "too many passes");
        double total = 2.0 * double(p) * double(transfer);
        for (auto ticks : cost.flat()) {
            require(ticks >= 0 && ticks < Index(1) << 60, "cost", "ticks below 2^60 are needed");
            total += double(ticks);
        }
        require(transfer >= 0 && total * double(m) < 0x1p60, "cost", "all passes have to end before 2^60 ticks");
        done = {KINDS, p}, ended_forward = {p, m}, ended_back = {p, m}, passes = {3 * p * m, 3};
        end.resize(p), idle.resize(p), held.resize(p);
    }
    // int32[3 p m, 3], passes rank by rank; none if memory does not suffice.
    Matrix<std::int32_t> operator()(bool overlap_first, bool backward_first, bool greedy) {
        warm_up(overlap_first);
        std::vector<char> forward(p);
        for (Index round = 1; round < m; ++round) {
            look_at_stop();
            for (Index j = 0; j < p; ++j) forward[j] = done(F, j) < m && may_forward(j, backward_first);
            for (Index j = p - 2; j >= 0; --j) forward[j] = forward[j] && forward[j + 1];
            for (Index j = 0; j < p; ++j)
                if (forward[j] && !fill_and_run(F, j, greedy)) return {0, 3};
            for (Index j = p - 1; j >= 0; --j)
                if (!fill_and_run(B, j, greedy)) return {0, 3};
        }
        for (Index j = 0; j < p; ++j)
            while (done(W, j) < m) run(W, j);
        return std::move(passes);
    }
};

}  // namespace topoopt::pipeline
