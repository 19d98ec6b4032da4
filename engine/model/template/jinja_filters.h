// Finds Jinja's filters by name: two tables, each beside its filters, which jinja_tests.cc looks
// names up in.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_FILTERS_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_FILTERS_H_

#include "engine/model/template/jinja_value.h"

namespace lectern::jinja {

// The filters for one value (jinja_filters.cc); nullptr: none has this name. A filter gets the
// value as `self`, checks its arguments, and behaves as jinja2/filters.py says, unless its comment
// says otherwise.
Function TextFilter(std::string_view name);
// The filters for values with items (jinja_sequence_filters.cc); nullptr: none has this name.
Function SequenceFilter(std::string_view name);

}  // namespace lectern::jinja

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_FILTERS_H_
