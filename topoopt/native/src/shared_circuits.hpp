// When the steps of a graph begin and end, transfers of one direction of a pair sharing its circuits equally.
//
// Every channel (a pair in one direction) keeps how much each transfer on it has got since it began to carry: its
// level. A transfer that starts at level L is done at level L + volume, whatever else begins or ends. So a change costs
// a look at those under way on that channel only.
#pragma once
#include <limits>

#include "events.hpp"
#include "stop.hpp"

namespace topoopt::flows {

class SharedCircuits {
    struct Channel {
        double rate, level = 0.0, changed = 0.0, due = std::numeric_limits<double>::infinity();
        std::int64_t first, under_way = 0;  // in `member`
    };
    std::vector<std::int64_t> first, successor, waits, channel_of;
    std::vector<double> duration, volume;
    std::vector<std::int64_t> channel_ptr{0};  // by channel, how many transfers earlier ones have
    Index steps, transfers;

    class Run {
        const SharedCircuits &graph;
        std::vector<Channel> channels;
        std::vector<std::int64_t> waiting, ready, member;
        std::vector<double> done_at;
        EventQueue q;
        double now = 0.0;

        double least(const Channel &channel) const {
            double level = std::numeric_limits<double>::infinity();
            for (Index i = 0; i < channel.under_way; ++i) level = std::min(level, done_at[member[channel.first + i]]);
            return level;
        }
        void set_due(Channel &channel) {
            double distance = std::max(least(channel) - channel.level, 0.0);
            channel.due = now + distance * double(channel.under_way) / channel.rate;
            q.add(channel.due, graph.steps + (&channel - channels.data()));
        }
        void begin(Index step) {
            start[step] = now;
            if (step >= graph.transfers) return q.add(now + graph.duration[step], step);
            Channel &channel = channels[graph.channel_of[step]];
            if (channel.under_way > 0)
                channel.level += (now - channel.changed) * channel.rate / double(channel.under_way);
            channel.changed = now;
            done_at[step] = channel.level + graph.volume[step];
            member[channel.first + channel.under_way++] = step;
            set_due(channel);
        }
        void finish(Index step) {
            end[step] = now;
            for (Index k = graph.first[step]; k < graph.first[step + 1]; ++k)
                if (--waiting[graph.successor[k]] == 0) ready.push_back(graph.successor[k]);
        }
        void finish_least(Channel &channel) {  // all transfers on it that are done at the lowest level
            double level = channel.level = least(channel);
            channel.changed = now;
            for (Index k = channel.first; k < channel.first + channel.under_way;) {
                Index step = member[k];
                if (done_at[step] > level) {
                    ++k;
                } else {
                    member[k] = member[channel.first + --channel.under_way];
                    finish(step);
                }
            }
            channel.due = std::numeric_limits<double>::infinity();
            if (channel.under_way > 0) set_due(channel);
        }

      public:
        std::vector<double> start, end;

        Run(const SharedCircuits &graph, Ints circuits, double rate)
            : graph(graph),
              waiting(graph.waits),
              member(graph.transfers),
              done_at(graph.transfers),
              start(graph.steps),
              end(graph.steps) {
            Index count = Index(graph.channel_ptr.size()) - 1;
            require(2 * circuits.size == count, "circuits", "a number for every pair is needed");
            channels.reserve(count);
            for (Index c = 0; c < count; ++c)
                channels.push_back({.rate = double(circuits[c / 2]) * rate, .first = graph.channel_ptr[c]});
            q.reset(0, 0);
            for (Index step = 0; step < graph.steps; ++step)
                if (waiting[step] == 0) ready.push_back(step);
            StopWatch look;
            double at;
            while (true) {
                while (!ready.empty()) {
                    look();
                    Index step = ready.back();
                    ready.pop_back();
                    begin(step);
                }
                if (!q.first(at)) return;
                look();
                Index code = q.take();
                if (code < graph.steps) {
                    now = at;
                    finish(code);
                    continue;
                }
                Channel &channel = channels[code - graph.steps];
                if (channel.under_way == 0 || at != channel.due) continue;  // something began or ended there since
                now = at;
                finish_least(channel);
            }
        }
    };

  public:
    // Transfers are the first steps; `channel` is twice their pair, plus 1 in the other direction.
    SharedCircuits(Ints first, Ints successor, Ints waits, Floats duration, Floats volume, Ints channel, Index pairs)
        : first(first.begin(), first.end()),
          successor(successor.begin(), successor.end()),
          waits(waits.begin(), waits.end()),
          channel_of(channel.begin(), channel.end()),
          duration(duration.begin(), duration.end()),
          volume(volume.begin(), volume.end()),
          steps(waits.size),
          transfers(volume.size) {
        require(0 <= pairs && pairs < (Index(1) << 20), "pairs", "out of range");
        require_offsets(first, steps, successor.size, "first");
        require_within(successor, 0, steps, "successor");
        require_within(waits, 0, successor.size + 1, "waits");
        require_size(duration, steps, "duration");
        require(transfers <= steps, "volume", "there are more than steps");
        require_size(channel, transfers, "channel");
        require_within(channel, 0, 2 * pairs, "channel");
        channel_ptr.resize(2 * pairs + 1);
        for (Index c : channel) ++channel_ptr[c + 1];
        for (Index c = 0; c < 2 * pairs; ++c) channel_ptr[c + 1] += channel_ptr[c];
    }
    // When steps begin and end, all as early as they can; a circuit carries `rate` in a unit of time.
    std::pair<std::vector<double>, std::vector<double>> follow(Ints circuits, double rate) const {
        Run run(*this, circuits, rate);
        return {std::move(run.start), std::move(run.end)};
    }
    double makespan(Ints circuits, double rate) const {  // when the last step ends
        std::vector<double> end = Run(*this, circuits, rate).end;
        return end.empty() ? 0.0 : *std::max_element(end.begin(), end.end());
    }
};

}  // namespace topoopt::flows
