// The tables of options: one for each kind of request, its rows in the order of --help. What a row
// says and what is made of it: engine/requests/option.h.
#ifndef LECTERN_ENGINE_REQUESTS_OPTIONS_H_
#define LECTERN_ENGINE_REQUESTS_OPTIONS_H_

#include <span>

#include "engine/lectern.h"
#include "engine/lectern_c.h"
#include "engine/requests/option.h"
#include "engine/requests/requests.h"

namespace lectern {

using EngineOptionRow = OptionRow<lectern_engine_options, api::EngineOptions, EngineOptions>;
using AskOptionRow = OptionRow<lectern_ask_options, api::AskOptions, AskOptions>;
using IndexOptionRow = OptionRow<lectern_index_options, api::IndexOptions, IndexOptions>;
using CiteOptionRow = OptionRow<lectern_cite_options, api::CiteOptions, CiteRequest>;
using PlanOptionRow = OptionRow<lectern_plan_options, api::PlanChange, PlanChange>;

std::span<const EngineOptionRow> EngineOptionRows();
// By hand, beside the table: what was said before (turns, instructions), logit_bias, top_logprobs'
// callback and the other callbacks.
std::span<const AskOptionRow> AskOptionRows();
// By hand: pages and the callback.
std::span<const IndexOptionRow> IndexOptionRows();
// By hand: the text.
std::span<const CiteOptionRow> CiteOptionRows();
std::span<const PlanOptionRow> PlanOptionRows();

using GivenEngineOptions = GivenOptions<lectern_engine_options, api::EngineOptions, EngineOptions>;
using GivenAskOptions = GivenOptions<lectern_ask_options, api::AskOptions, AskOptions>;
using GivenIndexOptions = GivenOptions<lectern_index_options, api::IndexOptions, IndexOptions>;
using GivenCiteOptions = GivenOptions<lectern_cite_options, api::CiteOptions, CiteRequest>;
using GivenPlanOptions = GivenOptions<lectern_plan_options, api::PlanChange, PlanChange>;

}  // namespace lectern

#endif  // LECTERN_ENGINE_REQUESTS_OPTIONS_H_
