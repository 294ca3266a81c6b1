// A placement problem of objective latency: what a placement makes of transfers when nothing else is sent.
// Times ms, sizes bytes, rates bytes/ms; the fields are those of PlacementArrays and GroupGraph in Python.
#pragma once
#include <cmath>
#include <limits>
#include <memory>

#include "arrays.hpp"

namespace topoopt::placement {

constexpr double NEVER = std::numeric_limits<double>::infinity();

enum Sharing : Index { FAIR, FIFO, STATIC, ALONE };

inline void require_not_negative(Floats items, const char *name) {
    for (double item : items) require(item >= 0.0 && item < NEVER, name, "finite numbers are needed, none below zero");
}

struct PlacedGraph {
    Table<const double> time;
    Ints memory, room;
    Int32s group;
    Ints group_ptr;
    Int32s group_member;
    Ints tensor_ptr;
    Floats tensor_size;
    Ints user_ptr;
    Int32s user;
    Ints needs;
    Int32s topo;
    Ints server;
    Floats network, inside;
    double alpha = 0.0, alpha_inside = 0.0;
    Index sharing = FAIR;

    template <class Visit> void fields(Visit visit) {
        visit(time, memory, room, group, group_ptr, group_member, tensor_ptr, tensor_size, user_ptr, user, needs, topo,
              server, network, inside, alpha, alpha_inside, sharing);
    }
    Index operators() const { return time.rows; }
    Index devices() const { return time.columns; }
    Index servers() const { return network.size; }

    void check() const {
        Index n = operators(), groups = group_ptr.size - 1;
        constexpr Index MOST = Index(1) << 26, MOST_SERVERS = Index(1) << 15;
        require(n < MOST && user.size < MOST && servers() < MOST_SERVERS, "a", "too large");
        require(groups >= 0, "group_ptr", "too short");
        require_size(memory, n, "memory"), require_size(group, n, "group"), require_size(needs, n, "needs");
        require_size(topo, n, "topo"), require_size(room, devices(), "room"), require_size(server, devices(), "server");
        require_size(inside, servers(), "inside");
        require_offsets(group_ptr, groups, group_member.size, "group_ptr");
        require_offsets(tensor_ptr, n, tensor_size.size, "tensor_ptr");
        require_offsets(user_ptr, tensor_size.size, user.size, "user_ptr");
        require_within(group, 0, groups, "group"), require_within(group_member, 0, n, "group_member");
        require_within(user, 0, n, "user"), require_within(topo, 0, n, "topo");
        require_within(needs, 0, MOST, "needs");
        require_within(server, 0, servers(), "server");
        require_not_negative(tensor_size, "tensor_size"), require_not_negative(network, "network");
        require_not_negative(inside, "inside"), require_not_negative(Floats(&alpha, 1), "alpha");
        require_not_negative(Floats(&alpha_inside, 1), "alpha_inside");
        require(FAIR <= sharing && sharing <= ALONE, "sharing", "no such sharing");
    }
    void check(Ints device) const {
        check();
        require_size(device, operators(), "device"), require_within(device, 0, devices(), "device");
        for (Index i = 0; i < device.size; ++i) require(time(i, device[i]) >= 0.0, "time", "a time is below zero");
    }
    void check_times() const {
        for (double duration : time.flat()) require(duration >= 0.0, "time", "a time is below zero");
    }
    void check(Ints device, Table<const double> rates) const {
        check(device);
        check_rates(rates);
    }
    void check_rates(Table<const double> rates) const {
        require_shape(rates, servers(), servers(), "rates");
        require_not_negative(rates.flat(), "rates");
    }

    // Calls `use` with each user of a tensor.
    template <class Use> void each_user(Index tensor, Use use) const {
        for (Index u = user_ptr[tensor]; u < user_ptr[tensor + 1]; ++u) use(Index(user[u]));
    }
    // Time of a transfer between two devices when nothing else is sent; infinity if its servers have no rate.
    double send_time(double size, Index source, Index target, Table<const double> rates) const {
        if (source == target) return 0.0;
        Index s = server[source], t = server[target];
        if (s == t) return size > 0 ? alpha_inside + size / inside[s] : alpha_inside;
        if (size <= 0) return alpha;
        return alpha + size / (sharing == STATIC ? rates(s, t) : std::min(network[s], network[t]));
    }
};

struct GroupGraph {
    Ints neighbour_ptr, neighbour, memory;
    Table<const double> time;

    template <class Visit> void fields(Visit visit) { visit(neighbour_ptr, neighbour, memory, time); }
    Index degree(Index group) const { return neighbour_ptr[group + 1] - neighbour_ptr[group]; }

    void check(const PlacedGraph &a) const {
        Index groups = a.group_ptr.size - 1, free = Index(1) << 61;
        require_shape(time, groups, a.devices(), "time");
        require_size(memory, groups, "memory");
        for (Index bytes : memory) {
            require(0 <= bytes && bytes <= free, "memory", "a number of bytes is out of range");
            free -= bytes;  // sums of all cannot overflow
        }
        require_offsets(neighbour_ptr, groups, neighbour.size, "neighbour_ptr");
        require_within(neighbour, 0, groups, "neighbour");
    }
};

// The same with arrays of its own, which nobody can change.
template <class T> struct Owned : T {
    explicit Owned(const T &borrowed) : T(borrowed) {
        this->fields([this](auto &...field) { (own(field), ...); });
    }
    Owned(const Owned &) = delete;

  private:
    std::vector<std::shared_ptr<const void>> owners;
    template <class Item> void own(View<const Item> &view) {
        auto items = std::make_shared<std::vector<Item>>(view.begin(), view.end());
        owners.push_back(items);
        view = *items;
    }
    template <class Item> void own(Table<const Item> &table) {
        View<const Item> flat = table.flat();
        own(flat);
        table.data = flat.data;
    }
    void own(double &) {}
    void own(Index &) {}
};

// Longest path from the start of each operator to the end, with transfers as if each were alone.
inline void tails_into(const PlacedGraph &a, Ints device, Table<const double> rates, std::vector<double> &tail) {
    tail.assign(device.size, 0.0);
    for (Index at = device.size - 1; at >= 0; --at) {
        Index i = a.topo[at], d = device[i];
        double longest = 0.0;
        for (Index tensor = a.tensor_ptr[i]; tensor < a.tensor_ptr[i + 1]; ++tensor)
            a.each_user(tensor, [&](Index j) {
                double length = tail[j];
                if (device[j] != d) length += a.send_time(a.tensor_size[tensor], d, device[j], rates);
                longest = std::max(longest, length);
            });
        tail[i] = longest + a.time(i, d);
    }
}

// float64[S, S]: rates in proportion to power `power` of the bytes that servers send each other, then filled up.
inline Matrix<double> rates_by_volume(const PlacedGraph &a, Ints device, double power) {
    constexpr int FILL_ROUNDS = 8;
    Index servers = a.servers();
    Matrix<double> volume(servers, servers), rates(servers, servers);
    std::vector<double> out, into;
    std::vector<Index> stamp(a.devices(), -1);
    for (Index i = 0; i < device.size; ++i)
        for (Index tensor = a.tensor_ptr[i]; tensor < a.tensor_ptr[i + 1]; ++tensor)
            a.each_user(tensor, [&](Index j) {
                Index target = device[j], s = a.server[device[i]], t = a.server[target];
                if (target == device[i] || stamp[target] == tensor) return;
                stamp[target] = tensor;
                if (s != t) volume(s, t) += a.tensor_size[tensor];
            });
    auto sum = [&](const Matrix<double> &table) {
        out.assign(servers, 0.0), into.assign(servers, 0.0);
        for (Index s = 0; s < servers; ++s)
            for (Index t = 0; t < servers; ++t) out[s] += table(s, t), into[t] += table(s, t);
    };
    for (double &weight : volume.items) weight = weight > 0.0 ? std::pow(weight, power) : 0.0;
    sum(volume);
    for (Index s = 0; s < servers; ++s)
        for (Index t = 0; t < servers; ++t)
            if (volume(s, t) > 0.0)
                rates(s, t) = std::min(a.network[s] * volume(s, t) / out[s], a.network[t] * volume(s, t) / into[t]);
    for (int round = 0; round < FILL_ROUNDS; ++round) {
        sum(rates);
        for (Index s = 0; s < servers; ++s)
            for (Index t = 0; t < servers; ++t)
                if (rates(s, t) > 0.0)
                    rates(s, t) *= std::max(1.0, std::min(a.network[s] / out[s], a.network[t] / into[t]));
    }
    return rates;
}

}  // namespace topoopt::placement
