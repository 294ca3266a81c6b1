// A flag that long calls look at: whoever waited for a call may go on without it, and the call then ends soon.
#pragma once
#include <atomic>
#include <exception>
#include <memory>

namespace topoopt {

struct Stopped : std::exception {  // Python sees topoopt.native.Stopped
    const char *what() const noexcept override { return "nobody waits for this call any more"; }
};

using Flag = std::shared_ptr<std::atomic<bool>>;

inline thread_local Flag watched_flag;

// To be called every few thousand steps of a long loop.
inline void look_at_stop() {
    if (watched_flag && watched_flag->load(std::memory_order_relaxed)) throw Stopped{};
}

// Looks at the flag at every 1024th call.
class StopWatch {
    unsigned calls = 0;

  public:
    void operator()() {
        if ((++calls & 1023u) == 0) look_at_stop();
    }
};

}  // namespace topoopt
