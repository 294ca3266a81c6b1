#include "border.hpp"

namespace topoopt {

void bind_exact(nb::module_ &) {}

}  // namespace topoopt
