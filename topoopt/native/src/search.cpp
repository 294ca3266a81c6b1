#include "border.hpp"

namespace topoopt {

void bind_search(nb::module_ &) {}

}  // namespace topoopt
