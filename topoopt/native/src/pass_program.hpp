// Passes of a pipeline in a sequence in which each stands behind all that it waits for, run for many costs at once.
//
// Which pass waits for which follows from the orders alone; how long passes take does not matter. So a sequence is made
// once, and one sweep over it gives the ends of all passes, for as many sets of costs as there are, side by side. Times
// are whole numbers held in doubles, which are exact below 2^53.
#pragma once
#include <algorithm>
#include <array>

#include "arrays.hpp"
#include "stop.hpp"

namespace topoopt::pipeline {

enum Pass : std::int32_t { PASS_FORWARD, PASS_BACKWARD, PASS_INPUTS, PASS_WEIGHTS, PASS_JOINED, PASSES };

// Nodes in sequence: 0 is the start, then one for each stage, when its weights are there, then those of passes. A node
// ends at the later of two earlier nodes, each a transfer later where that is said, plus a cost.
class PassProgram {
    struct Node {
        std::int32_t own, own_late;  // the node before on the same rank; 1: a transfer later
        std::int32_t other, late;    // the node waited for, the same
        std::int32_t row;            // of the costs
    };
    std::vector<Node> nodes;
    std::vector<std::int32_t> node_of_pass;
    std::vector<std::pair<Index, Index>> pairs;  // stages whose forward and backward pass are joined
    Index copies, stages;                        // of all copies of the model, of the model

  public:
    // Puts the passes of orders into sequence. passes: int32[n, 3], kind, micro-batch and stage.
    PassProgram(Ints start, Table<const std::int32_t> passes, Ints rank_of_stage, Ints before, Ints after,
                Index model_stages, Index micro_batches, bool blocking)
        : node_of_pass(passes.rows), copies(rank_of_stage.size), stages(model_stages) {
        require(start.size > 0, "start", "one offset more than ranks is needed");
        require(passes.columns == 3 && passes.rows < Index(1) << 29, "passes", "wrong shape");
        require(copies < Index(1) << 24 && micro_batches >= 0 && micro_batches <= passes.rows &&
                    copies * micro_batches < Index(1) << 28,
                "micro_batches", "more than there are passes");
        require(stages >= 1 && stages <= copies, "model_stages", "more than there are in all copies");
        Index ranks = start.size - 1;
        require_offsets(start, ranks, passes.rows, "start"), require_within(rank_of_stage, 0, ranks, "rank_of_stage");
        require_size(before, copies, "before"), require_within(before, -1, copies, "before");
        require_size(after, copies, "after"), require_within(after, -1, copies, "after");
        for (Index rank = 0; rank < ranks; ++rank)
            for (Index i = start[rank]; i < start[rank + 1]; ++i) {
                require(passes(i, 0) >= 0 && passes(i, 0) < PASSES, "passes", "no such kind");
                require(passes(i, 1) >= 0 && passes(i, 1) < micro_batches, "passes", "no such micro-batch");
                require(passes(i, 2) >= 0 && passes(i, 2) < copies, "passes", "no such stage");
                require(passes(i, 0) != PASS_JOINED || i + 1 < start[rank + 1], "passes", "nothing to be joined with");
            }
        // The nodes of the forward and backward pass of each stage and micro-batch; -1: none yet.
        Matrix<std::int32_t> there(copies, micro_batches, -1), back(copies, micro_batches, -1);
        std::vector<char> waited(copies);
        std::vector<std::int64_t> at(start.begin(), start.end());
        std::vector<std::int32_t> last(ranks), late(ranks);
        Index rank = 0;
        auto away = [&](Index neighbour) { return neighbour >= 0 && rank_of_stage[neighbour] != rank; };
        // The node that a pass waits for; 0: nothing; -1: not known yet.
        auto source_of = [&](Index kind, Index i, Index stage) -> std::int32_t {
            if (kind == PASS_FORWARD) return before[stage] >= 0 ? there(before[stage], i) : 0;
            if (kind == PASS_WEIGHTS) return back(stage, i) >= 0 ? 0 : -1;
            if (there(stage, i) < 0) return -1;
            return after[stage] >= 0 ? back(after[stage], i) : 0;
        };
        auto add = [&](Node node) {
            nodes.push_back(node);
            return std::int32_t(nodes.size() - 1);
        };
        auto append = [&] {  // the next pass of the rank, or two joined ones; false: it has to wait
            Index pass = at[rank], kind = passes(pass, 0), i = passes(pass, 1), stage = passes(pass, 2);
            bool joined = kind == PASS_JOINED, ahead = joined || kind == PASS_FORWARD;
            Index partner_i = joined ? passes(pass + 1, 1) : 0, partner = joined ? passes(pass + 1, 2) : stage;
            std::int32_t source = source_of(joined ? Index(PASS_FORWARD) : kind, i, stage), made, other = 0;
            if (source >= 0 && joined) other = source_of(PASS_BACKWARD, partner_i, partner);
            if (source < 0 || other < 0) return false;
            std::int32_t moved = kind != PASS_WEIGHTS && away(ahead ? before[stage] : after[stage]);
            if (ahead && !waited[stage]) {
                waited[stage] = true;
                source = add({source, moved, std::int32_t(1 + stage), 0, 0}), moved = 0;
            }
            if (joined) {
                auto own = add({last[rank], late[rank], source, moved, 0});
                made = add({own, 0, other, away(after[partner]), row_of(stage % stages, partner % stages)});
                node_of_pass[pass + 1] = back(partner, partner_i) = made;
            } else {
                auto row = std::int32_t(1 + (ahead ? 0 : kind) * stages + stage % stages);
                made = add({last[rank], late[rank], source, moved, row});
            }
            node_of_pass[pass] = last[rank] = made;
            late[rank] = blocking && kind != PASS_WEIGHTS &&
                         (away(ahead ? after[stage] : before[stage]) || (joined && away(before[partner])));
            if (kind != PASS_WEIGHTS) (ahead ? there : back)(stage, i) = made;
            at[rank] += joined ? 2 : 1;
            return true;
        };
        nodes.reserve(1 + 2 * copies + passes.rows);
        nodes.resize(1 + copies);
        StopWatch watch;
        for (bool progress = true; progress;) {
            progress = false;
            for (Index turn = 0; turn < 2 * ranks; ++turn) {
                rank = turn < ranks ? turn : 2 * ranks - 1 - turn;
                for (; at[rank] < start[rank + 1] && append(); progress = true) watch();
            }
        }
        for (rank = 0; rank < ranks; ++rank)
            if (at[rank] < start[rank + 1]) throw std::invalid_argument("passes wait for each other in a circle");
    }

    // Ends of the passes that are asked for, [kept, R]; of R sets of costs by stage, of which ready: before when none
    // of its passes starts.
    Matrix<double> ends(Table<const double> forward, Table<const double> inputs, Table<const double> weights,
                        Floats transfer, Table<const double> ready, Ints kept) const {
        Index count = transfer.size;
        require_shape(forward, stages, count, "forward"), require_shape(inputs, stages, count, "inputs");
        require_shape(weights, stages, count, "weights"), require_shape(ready, copies, count, "ready");
        require_within(kept, 0, Index(node_of_pass.size()), "kept");
        Matrix<double> result(kept.size, count);
        if (count == 1) sweep<1>(forward, inputs, weights, transfer, ready, kept, result);
        else sweep<8>(forward, inputs, weights, transfer, ready, kept, result);  // as many as a processor adds at once
        return result;
    }

  private:
    std::int32_t row_of(Index first, Index second) {
        std::pair pair(first, second);
        auto position = std::find(pairs.begin(), pairs.end(), pair);
        Index row = 1 + 4 * stages + (position - pairs.begin());
        if (position == pairs.end()) pairs.push_back(pair);
        return std::int32_t(row);
    }

    template <int width> void sweep(Table<const double> forward, Table<const double> inputs,
                                    Table<const double> weights, Floats transfer, Table<const double> ready, Ints kept,
                                    Matrix<double> &result) const {
        using Lanes = std::array<double, width>;
        std::vector<Lanes> ends(nodes.size()), costs(1 + 4 * stages + Index(pairs.size()));
        std::array<Lanes, 2> hop{};
        Index count = transfer.size;
        for (Index begin = 0; begin < count; begin += width) {
            look_at_stop();
            for (Index lane = 0; lane < std::min<Index>(width, count - begin); ++lane) {
                Index at = begin + lane;
                hop[1][lane] = transfer[at];
                for (Index s = 0; s < stages; ++s) {
                    costs[1 + s][lane] = forward(s, at);
                    costs[1 + stages + s][lane] = inputs(s, at) + weights(s, at);
                    costs[1 + 2 * stages + s][lane] = inputs(s, at);
                    costs[1 + 3 * stages + s][lane] = weights(s, at);
                }
                for (Index i = 0; i < Index(pairs.size()); ++i)
                    costs[1 + 4 * stages + i][lane] =
                        costs[1 + pairs[i].first][lane] + costs[1 + stages + pairs[i].second][lane];
                for (Index s = 0; s < copies; ++s) ends[1 + s][lane] = ready(s, at);
            }
            for (Index i = 1 + copies; i < Index(nodes.size()); ++i) {
                const Node &node = nodes[i];
                Lanes own = ends[node.own], other = ends[node.other];
                const Lanes &first = hop[node.own_late], &second = hop[node.late], &cost = costs[node.row];
                for (int lane = 0; lane < width; ++lane) {
                    double a = own[lane] + first[lane], b = other[lane] + second[lane];
                    own[lane] = (a > b ? a : b) + cost[lane];
                }
                ends[i] = own;
            }
            for (Index i = 0; i < kept.size; ++i)
                for (Index lane = 0; lane < std::min<Index>(width, count - begin); ++lane)
                    result(i, begin + lane) = ends[node_of_pass[kept[i]]][lane];
        }
    }
};

}  // namespace topoopt::pipeline
