#include "border.hpp"

namespace topoopt {

void bind_placement(nb::module_ &) {}

}  // namespace topoopt
