#include "engine/model/tokenizer/tokenizer.h"

#include <algorithm>

#include "engine/model/formats/text.h"
#include "engine/model/tokenizer/added_tokens.h"
#include "engine/model/tokenizer/piece_tokenizer.h"
#include "engine/model/tokenizer/tokenizer_json.h"

namespace lectern {
namespace {

// Removes the finished characters from `pending` and returns them, U+FFFD for what cannot become
// one. An unfinished character at the end stays.
std::string TakeFinished(std::string* pending) {
  std::string out;
  size_t at = 0;
  while (at < pending->size()) {
    const int length = Utf8CharLength(std::string_view(*pending).substr(at));
    if (length == 0) break;
    if (length < 0) {
      out.append(kReplacementCharacter);
      at += static_cast<size_t>(-length);
    } else {
      out.append(*pending, at, static_cast<size_t>(length));
      at += static_cast<size_t>(length);
    }
  }
  pending->erase(0, at);
  return out;
}

// Returns all that changes what text becomes, and which tokens begin and end it, as bytes to be
// hashed.
std::string Describe(const TokenizerModel& model) {
  return model.bos_piece + '\n' + model.eos_piece + '\n' +
         SerializeTokenizerModel(model, model.add_dummy_prefix);
}

// Reads a file whole; links are followed. The parsers limit its size.
Result<std::string> ReadSmallFile(Env& env, const std::string& path) {
  LECTERN_ASSIGN(const auto map, OpenWhole(env, env.Resolve(path), Io::kPread));
  return std::string(reinterpret_cast<const char*>(map->data()), static_cast<size_t>(map->size()));
}

// Reads the files beside `path` that change the vocabulary.
Status ReadAdditions(Env& env, const std::string& path, TokenizerModel* model) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  for (const auto& [name, read] : {std::pair("added_tokens.json", &ReadAddedTokens),
                                   std::pair("tokenizer_config.json", &ReadTokenizerConfig)}) {
    LECTERN_ASSIGN(const bool exists, env.Exists(folder + name));
    if (!exists) continue;
    LECTERN_ASSIGN(const std::string json, ReadSmallFile(env, folder + name));
    LECTERN_RETURN_IF_ERROR(read(json, folder + name, model));
  }
  return CheckTokenizerModel(*model, path);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::Load(Env& env, const std::string& path) {
  LECTERN_ASSIGN(std::string bytes, ReadSmallFile(env, path));
  if (path.ends_with(".json")) {
    return MakeJsonTokenizer(bytes, path);
  }
  LECTERN_ASSIGN(TokenizerModel model, ParseTokenizerModel(bytes, path));
  // The identity is the file's bytes, as in builds that read no other file. The description is
  // added only where the other files changed it, so that documents of those builds keep their
  // model.
  const std::string alone = Describe(model);
  LECTERN_RETURN_IF_ERROR(ReadAdditions(env, path, &model));
  if (std::string whole = Describe(model); whole != alone) bytes += '\n' + whole;
  TextRules rules = RulesOf(model);
  return MakePieceTokenizer(std::make_shared<const TokenizerModel>(std::move(model)),
                            std::move(rules), [&] { return std::move(bytes); });
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::Make(TokenizerModel model, const std::string& path) {
  TakeMarksFromText(&model);
  LECTERN_RETURN_IF_ERROR(CheckTokenizerModel(model, path));
  TextRules rules = RulesOf(model);
  const auto shared = std::make_shared<const TokenizerModel>(std::move(model));
  return MakePieceTokenizer(shared, std::move(rules), [&] { return Describe(*shared); });
}

Result<TokenizedText> Tokenizer::EncodeAt(std::string_view text, Place place) const {
  if (text.size() > kMaxTokenizedBytes) {
    return Status(Code::kLimitExceeded, "the text has " + std::to_string(text.size()) +
                                            " bytes; the tokenizer takes " +
                                            std::to_string(kMaxTokenizedBytes));
  }
  if (!IsValidUtf8(text)) return Status(Code::kInvalidArgument, "the text is not valid UTF-8");
  return EncodeValid(text, place);
}

Result<TokenizedText> Tokenizer::Encode(std::string_view text) const {
  return EncodeAt(text, Place::kBeginning);
}

Result<TokenizedText> Tokenizer::EncodeContinuation(std::string_view text) const {
  return EncodeAt(text, Place::kContinuation);
}

// Only the first byte of the whole stream may be the space that is dropped.
std::string TokenStream::Push(int32_t id) {
  std::string_view bytes = tokenizer_.TokenBytes(id);
  if (strip_leading_space_ && !bytes.empty()) {
    strip_leading_space_ = false;
    if (bytes.front() == ' ') bytes.remove_prefix(1);
  }
  pending_.append(bytes);
  return TakeFinished(&pending_);
}

std::string TokenStream::Flush() {
  std::string out = TakeFinished(&pending_);
  if (!pending_.empty()) out.append(kReplacementCharacter);
  pending_.clear();
  return out;
}

}  // namespace lectern
