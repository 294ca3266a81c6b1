// What bounds by the links around a server have in common.
#pragma once
#include <algorithm>

#include "arrays.hpp"

namespace topoopt {

// What of a demand goes over a link, or two, that has so many beside it.
inline double carried(double demand, Index beside, double theta) {
    return std::min(std::max(demand - double(beside) * theta, 0.0), theta);
}

}  // namespace topoopt
