// Calls of codes, versions, errors, texts and JSON.
#include "tests/engine/api/misuse_calls.h"

namespace lectern::misuse {
namespace {

// --- codes and versions -------------------------------------------------------------------------

bool CodeName(Tape& tape) {
  const auto code = tape.random.Of<int32_t>(
      {0, 1, 25, 26, -1, 256, INT32_MIN, INT32_MAX, static_cast<int32_t>(tape.random.Bits())});
  const bool is_internal = std::strcmp(lectern_code_name(code), "internal") == 0;
  REQUIRE(is_internal == (code < 0 || code >= LECTERN_INTERNAL));
  return true;
}
bool ExitStatus(Tape& tape) {
  const auto code = static_cast<int32_t>(tape.random.Bits());
  const int32_t status = lectern_exit_status(code);
  REQUIRE(status >= 0 && status <= 255 && (status == 0) == (code == LECTERN_OK));
  return true;
}
bool Version(Tape&) { return std::strcmp(lectern_version(), LECTERN_VERSION) == 0; }
bool AbiVersion(Tape&) { return lectern_abi_version() == LECTERN_ABI_VERSION; }
bool BuildInfo(Tape&) { return lectern_build_info()[0] == '{'; }

bool ErrorCode(Tape& tape) {
  const auto picked = tape.handles.Pick<lectern_error>(tape.random);
  Finish(lectern_error_code(picked.handle), {.is_dead_handle = picked.is_dead, .is_wrong = true});
  return !picked.is_dead;
}

// --- JSON ---------------------------------------------------------------------------------------

bool ErrorJson(Tape& tape) {
  const auto code = tape.random.Of<int32_t>({0, 1, 11, 25, 26, -1, INT32_MIN});
  const Text message = AnyText(tape.random, {"busy"}), param = AnyText(tape.random, {"store"});
  Out<lectern_text> json(tape);
  Error error(tape);
  const lectern_code result = lectern_error_json(code, message.data(), message.len(), param.data(),
                                                 param.len(), json.place(), error.place());
  FinishJson(tape, json, result);
  return Finish(result, error,
                {.is_wrong = code == LECTERN_OK || message.is_wrong() || param.is_wrong(),
                 .has_place = json.has_place()});
}

const std::vector<std::string> kJson = {
    R"({"a":"b","n":1})", R"({"n":"1","a":"x","x":"y"})", "{", "[1]", R"({"a":"b","n":[1,{}]})",
    R"({"a":"\ud800"})",  std::string(20000, '[')};

bool JsonGet(Tape& tape) {
  const Text json = AnyText(tape.random, kJson), key = AnyText(tape.random, {"a", "n", "x"});
  Out<lectern_text> value(tape);
  Error error(tape);
  const lectern_code code = lectern_json_get_string(json.data(), json.len(), key.data(), key.len(),
                                                    value.place(), error.place());
  if (lectern_text* const text = value.Check(code)) Keep(tape, text);
  return Finish(code, error,
                {.is_wrong = json.len() == 0 || json.is_wrong(), .has_place = value.has_place()});
}
bool JsonSet(Tape& tape) {
  const Text json = AnyText(tape.random, kJson), key = AnyText(tape.random, {"a", "n", "x"});
  const Text value = AnyText(tape.random, {"y", "\"\n"});
  Out<lectern_text> result(tape);
  Error error(tape);
  const lectern_code code =
      lectern_json_set_string(json.data(), json.len(), key.data(), key.len(), value.data(),
                              value.len(), result.place(), error.place());
  FinishJson(tape, result, code);
  return Finish(
      code, error,
      {.is_wrong = json.len() == 0 || json.is_wrong() || key.is_wrong() || value.is_wrong(),
       .has_place = result.has_place()});
}

Function functions[] = {
    {"code_name", 2, CodeName},
    {"exit_status", 2, ExitStatus},
    {"version", 1, Version},
    {"abi_version", 1, AbiVersion},
    {"build_info", 1, BuildInfo},
    {"error_code", 4, ErrorCode},
    {"error_message", 4, GetString<lectern_error, lectern_error_message>},
    {"error_cli_message", 4, GetString<lectern_error, lectern_error_cli_message>},
    {"error_param", 4, GetString<lectern_error, lectern_error_param>},
    {"error_free", 12, FreeAny<lectern_error>},
    {"text_data", 4, GetString<lectern_text, lectern_text_data>},
    {"text_free", 8, FreeAny<lectern_text>},
    {"error_json", 4, ErrorJson},
    {"json_get_string", 4, JsonGet},
    {"json_set_string", 4, JsonSet},
};

}  // namespace

std::span<Function> ValueFunctions() { return functions; }

}  // namespace lectern::misuse
