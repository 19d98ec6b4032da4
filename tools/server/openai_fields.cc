#include "tools/server/openai_fields.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "engine/requests/options.h"
#include "tools/server/option_fields.h"
#include "tools/server/system.h"

namespace lectern::server {
namespace {

// A seed that differs from request to request; the clock's time in a system without randomness.
uint64_t RandomSeed() {
  uint64_t seed = 0;
  if (!FillRandom(&seed, sizeof seed)) {
    seed = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return seed;
}

// Negative numbers but -1 are seeds too: their bits count.
uint64_t ReadSeed(RequestFields& fields) {
  const Json* const seed = fields.Any("seed");
  if (!seed) return RandomSeed();
  if (const auto number = seed->unsigned_integer()) return *number;
  const auto number = seed->integer();
  if (!number) fields.Fail("seed", "must be a whole number, or -1 for another one each time");
  return number && *number != -1 ? static_cast<uint64_t>(*number) : RandomSeed();
}

// The value of a field with which it changes nothing: false or empty, 0, 1, or true.
enum class Neutral { kEmpty, kZero, kOne, kTrue };

// Whether `value` changes nothing. With kEmpty: false, "", [] and {}.
bool IsNeutral(const Json& value, Neutral neutral) {
  const std::optional<double> number = value.number();
  switch (neutral) {
    case Neutral::kZero:
      return number == 0.0;
    case Neutral::kOne:
      return number == 1.0;
    case Neutral::kTrue:
      return value.boolean() && *value.boolean();
    case Neutral::kEmpty:
      break;
  }
  if (value.boolean()) return !*value.boolean();
  if (value.string()) return value.string()->empty();
  if (value.array()) return value.array()->empty();
  return value.object() && value.object()->empty();
}

// A field that is refused unless it has its neutral value, and the rest of the error's sentence.
struct NotDone {
  const char* name;
  Neutral neutral;
  const char* message;
};
constexpr char kNoFormat[] = "cannot be kept to; use response_format with a JSON schema";
constexpr char kNoSampler[] =
    "is not known here; use temperature, top_p, top_k, min_p or the "
    "frequency and presence penalties";
constexpr char kNoEnd[] = "is not done here; leave it out";
// Fields of llama.cpp's and vLLM's servers, whose clients find this one by the same address.
constexpr NotDone kNotDone[] = {
    {"grammar", Neutral::kEmpty, kNoFormat},
    {"guided_regex", Neutral::kEmpty, kNoFormat},
    {"guided_choice", Neutral::kEmpty, kNoFormat},
    {"guided_grammar", Neutral::kEmpty, kNoFormat},
    {"repetition_penalty", Neutral::kOne, kNoSampler},
    {"repeat_penalty", Neutral::kOne, kNoSampler},
    {"typical_p", Neutral::kOne, kNoSampler},
    {"mirostat", Neutral::kZero, kNoSampler},
    {"xtc_probability", Neutral::kZero, kNoSampler},
    {"dry_multiplier", Neutral::kZero, kNoSampler},
    {"use_beam_search", Neutral::kEmpty, kNoSampler},
    {"min_tokens", Neutral::kZero, kNoEnd},
    {"ignore_eos", Neutral::kEmpty, kNoEnd},
    {"stop_token_ids", Neutral::kEmpty, "is not done here; use stop"},
    {"include_stop_str_in_output", Neutral::kEmpty, kNoEnd},
    {"bad_words", Neutral::kEmpty, "is not done here; use logit_bias"},
    {"echo", Neutral::kEmpty, kNoEnd},
    {"continue_final_message", Neutral::kEmpty, kNoEnd},
    {"add_generation_prompt", Neutral::kTrue, kNoEnd},
    {"chat_template", Neutral::kEmpty, "is the document's: it is chosen when that is indexed"},
};

}  // namespace

std::vector<lectern_logit_bias> ReadLogitBias(RequestFields& fields) {
  const Json* const given = fields.Any("logit_bias");
  if (!given) return {};
  std::vector<lectern_logit_bias> read;
  const bool is_empty_list = given->array() && given->array()->empty();
  if (!given->object() && !is_empty_list) {
    fields.Fail("logit_bias", "must be an object of token ids and numbers");
  }
  for (const auto& [key, value] : given->object() ? *given->object() : Json::Object()) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool is_id = error == std::errc() && end == key.data() + key.size() && id >= 0;
    if (!is_id || !value.number()) {
      fields.Fail("logit_bias", "must be an object of token ids and numbers: \"" + key +
                                    "\" is no id, or has no number");
      return {};
    }
    read.push_back({id, static_cast<float>(std::clamp(*value.number(), -100.0, 100.0))});
  }
  return read;
}

void ReadSampling(RequestFields& fields, api::AskOptions& options) {
  GivenAskOptions given(AskOptionRows());
  ReadOptionFields(fields, kOpenAiRequest, given);
  given.PutInto(options);
  const auto top_p = static_cast<float>(fields.Number("top_p", 0, 1).value_or(1));
  if (top_p == 0) options.temperature = 0;  // the likeliest token alone
  options.top_p = top_p;
  const int64_t top_k = fields.Integer("top_k", -1).value_or(0);
  options.top_k = static_cast<uint32_t>(std::clamp<int64_t>(top_k, 0, INT32_MAX));
  options.logit_bias = ReadLogitBias(fields);
  options.seed = ReadSeed(fields);
}

uint32_t ReadMaxTokens(RequestFields& fields, std::initializer_list<const char*> names) {
  std::optional<int64_t> wanted;
  for (const char* const name : names) {
    const auto number = fields.Integer(name, -1);
    if (number == 0) fields.Fail(name, "must be at least 1, or -1 for as many as fit");
    if (!wanted) wanted = number;
  }
  return static_cast<uint32_t>(wanted.value_or(-1) > 0 ? std::min<int64_t>(*wanted, UINT32_MAX)
                                                       : UINT32_MAX);
}

void RefuseWhatIsNotDone(RequestFields& fields) {
  RefuseUnlessEmpty(fields, "moderation", "is not done here; leave it out");
  for (const NotDone& field : kNotDone) {
    const Json* const value = fields.Any(field.name);
    if (value && !IsNeutral(*value, field.neutral)) fields.Fail(field.name, field.message);
  }
}

void RefuseUnlessEmpty(RequestFields& fields, const char* name, const char* way_out) {
  const Json* const value = fields.Any(name);
  if (value && !IsNeutral(*value, Neutral::kEmpty)) fields.Fail(name, way_out);
}

void Logprobs::Add(const lectern_sampled_token& sampled) {
  const auto describe = [](const lectern_likely_token& token) {
    Json::Array bytes;
    for (size_t i = 0; i < token.bytes_len; ++i) {
      bytes.emplace_back(int{static_cast<unsigned char>(token.bytes[i])});
    }
    // OpenAI's number for what is as good as impossible: JSON has no infinity.
    const double logprob = std::isfinite(token.logprob) ? token.logprob : -9999.0;
    return Json::Object{{"token", std::string_view(token.bytes, token.bytes_len)},
                        {"logprob", logprob},
                        {"bytes", std::move(bytes)}};
  };
  Json::Array likeliest;
  for (size_t i = 0; i < sampled.num_likeliest; ++i) {
    likeliest.emplace_back(describe(sampled.likeliest[i]));
  }
  Json::Object token = describe(sampled.token);
  token["top_logprobs"] = std::move(likeliest);
  tokens_.emplace_back(std::move(token));
}

}  // namespace lectern::server
