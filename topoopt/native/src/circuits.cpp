#include "border.hpp"

namespace topoopt {

void bind_circuits(nb::module_ &) {}

}  // namespace topoopt
