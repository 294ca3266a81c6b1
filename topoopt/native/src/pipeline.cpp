#include "border.hpp"

namespace topoopt {

void bind_pipeline(nb::module_ &) {}

}  // namespace topoopt
