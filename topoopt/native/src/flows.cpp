#include "border.hpp"

namespace topoopt {

void bind_flows(nb::module_ &) {}

}  // namespace topoopt
