#include "border.hpp"

namespace topoopt {

void bind_jobs(nb::module_ &) {}

}  // namespace topoopt
