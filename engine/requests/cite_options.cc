// The options of citations: which passages of a document support a given text. Those of questions
// are in options.cc.
#include "engine/requests/options.h"

namespace lectern {

std::span<const CiteOptionRow> CiteOptionRows() {
  using C = lectern_cite_options;
  using A = api::CiteOptions;
  using E = CiteRequest;
  static constexpr CiteOptionRow kRows[] = {
      {{.name = "question",
        .kind = OptionKind::kText,
        .surfaces = kRequest,
        .help = "The question that the text answers; it makes citations surer"},
       AtText<&C::question, &C::question_len>(),
       At<&A::question>(),
       At<&E::question>()},
      {{.name = "max_evidence",
        .kind = OptionKind::kWhole,
        .surfaces = kRequest,
        .range = {.least = 1, .most = 100},
        .most_of_request = 16,
        .help = "Most passages of the document to show for each sentence",
        .default_text = "3",
        .value_name = "N"},
       AtOrZero<&C::max_evidence>(),
       At<&A::max_evidence>(),
       At<&E::max_evidence>()},
  };
  return kRows;
}

}  // namespace lectern
