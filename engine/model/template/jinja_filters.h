// The tables of Jinja's filters, in which jinja_tests.cc looks names up.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_FILTERS_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_FILTERS_H_

#include "engine/model/template/jinja_value.h"

namespace lectern::jinja {

// nullptr: there is none of this name.
Function TextFilter(std::string_view name);
Function SequenceFilter(std::string_view name);

}  // namespace lectern::jinja

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_FILTERS_H_
