// Whatever our reader of tokenizer.json passes must encode any text: ids of the vocabulary, none of
// them a control token, that spell the text (its NFC), with ranges that cover it.
//
// Input: u16 little-endian n, n bytes of text, then the tokenizer.json. Where nothing is wrong with
// it but that "vocab" lacks bytes, they are added: a mutation seldom keeps 256 pieces whole, and
// one that breaks something else is told so sooner without them.
#include <algorithm>
#include <cstdlib>

#include "engine/bpe_tokenizer.h"
#include "engine/compose.h"
#include "engine/text.h"
#include "engine/tokenizer_json.h"

namespace {

void Check(const lectern::Tokenizer& tokenizer, const std::string& text, bool composes) {
  const auto tokens = tokenizer.Encode(text);
  if (!tokens.ok()) std::abort();
  uint64_t begin = 0, end = 0;
  std::string spelt;
  for (size_t i = 0; i < tokens->ids.size(); ++i) {
    const auto& range = tokens->ranges[i];
    if (range.begin >= range.end || range.end > text.size()) std::abort();
    if (range.begin < begin || range.begin > end || range.end < end) std::abort();
    begin = range.begin, end = range.end;
    if (static_cast<size_t>(tokens->ids[i]) >= tokenizer.vocab_size()) std::abort();
    const std::string_view bytes = tokenizer.TokenBytes(tokens->ids[i]);
    if (bytes.empty()) std::abort();  // a control token
    spelt += bytes;
  }
  if (end != text.size()) std::abort();
  if (spelt != (composes ? lectern::ComposedText(text).text() : text)) std::abort();
}

// `json` with every byte's piece inserted after `"vocab":{`, from id 1000 on.
std::string WithBytes(std::string json) {
  constexpr std::string_view kVocab = "\"vocab\":{\"~\":0";
  const size_t at = json.find(kVocab);
  if (at == std::string::npos) return json;
  std::string pieces;
  int next = 0x100, id = 1000;
  for (int byte = 0; byte < 256; ++byte, ++id) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    const int c = printable ? byte : next++;
    if (c == '~') continue;
    pieces += ",\"";
    if (c == '"' || c == '\\') pieces += '\\';
    if (c < 0x80) {
      pieces += static_cast<char>(c);
    } else {
      pieces += static_cast<char>(0xC0 | c >> 6);
      pieces += static_cast<char>(0x80 | (c & 63));
    }
    pieces += "\":" + std::to_string(id);
  }
  return json.insert(at + kVocab.size(), pieces);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t split = std::min(input.size(), static_cast<size_t>(data[0] | data[1] << 8));
  const std::string text = lectern::CleanUtf8(input.substr(0, split)).text;
  std::string json(input.substr(split));
  auto model = lectern::ParseTokenizerJson(json, "m/tokenizer.json");
  if (!model.ok()) {
    if (model.status().message().find("no piece is the byte") == std::string::npos) return 0;
    json = WithBytes(std::move(json));
    model = lectern::ParseTokenizerJson(json, "m/tokenizer.json");
  }
  if (!model.ok()) return 0;
  const bool composes = model->composes();
  const auto tokenizer = lectern::MakeBpeTokenizer(std::move(model).value(), json);
  if (!tokenizer.ok()) std::abort();
  Check(**tokenizer, text, composes);
  return 0;
}
