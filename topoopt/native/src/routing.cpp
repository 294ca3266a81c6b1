#include "border.hpp"

namespace topoopt {

void bind_routing(nb::module_ &) {}

}  // namespace topoopt
