// The only file that includes SentencePiece. It loads bytes that tokenizer_model.cc wrote.
#include "engine/tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <new>

#include "engine/added_tokens.h"
#include "engine/bpe_tokenizer.h"
#include "engine/text.h"
#include "engine/tokenizer_json.h"

namespace lectern {
namespace {

using Processor = sentencepiece::SentencePieceProcessor;

// The library counts in 32-bit integers, and a byte may become kMaxReplacement bytes.
constexpr size_t kMaxText = size_t{16} << 20;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";      // U+2581
constexpr std::string_view kUnknownText = " \xE2\x81\x87 ";  // as SentencePiece decodes it

// Runs `call`, which may throw; what it throws becomes a Status.
template <typename Call>
Status Guard(const std::string& what, Call call) {
  try {
    const sentencepiece::util::Status status = call();
    if (status.ok()) return Status();
    return Status(Code::kInternal, what + ": " + status.error_message());
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, what + ": not enough memory");
  } catch (const std::exception& error) {
    return Status(Code::kInternal, what + ": " + error.what());
  }
}

std::string BytesOf(const TokenizerPiece& piece) {
  switch (piece.type) {
    case PieceType::kControl:
      return "";
    case PieceType::kUnknown:
      return std::string(kUnknownText);
    case PieceType::kByte:
      return std::string(1, static_cast<char>(piece.byte()));
    case PieceType::kNormal:
    case PieceType::kUserDefined:
    case PieceType::kUnused:
      break;
  }
  std::string bytes;
  for (size_t at = 0; at < piece.text.size();) {
    const bool is_space = piece.text.compare(at, kSpaceMark.size(), kSpaceMark) == 0;
    bytes.push_back(is_space ? ' ' : piece.text[at]);
    at += is_space ? kSpaceMark.size() : 1;
  }
  return bytes;
}

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

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(const TokenizerModel& model, std::string_view identity)
      : identity_(identity),
        bos_id_(model.ControlId(model.bos_piece)),
        eos_id_(model.ControlId(model.eos_piece)),
        has_dummy_prefix_(model.add_dummy_prefix) {
    for (const TokenizerPiece& piece : model.pieces) {
      if (piece.type == PieceType::kControl || piece.type == PieceType::kUnknown) {
        controls_.Add(static_cast<int32_t>(types_.size()), piece.text);
      }
      types_.push_back(piece.type);
      bytes_.push_back(BytesOf(piece));
    }
  }

  Status LoadProcessors(const TokenizerModel& model, const std::string& path);

  std::string_view kind() const override { return "SentencePiece"; }
  size_t vocab_size() const override { return types_.size(); }
  int32_t bos_id() const override { return bos_id_; }
  int32_t eos_id() const override { return eos_id_; }
  int32_t ControlId(std::string_view text) const override { return controls_.Find(text); }
  std::string_view ControlText(int32_t id) const override { return controls_.Text(id); }
  std::optional<ControlToken> FindControl(std::string_view text) const override {
    return controls_.FindPrefix(text);
  }
  bool has_dummy_prefix() const override { return has_dummy_prefix_; }
  std::string_view TokenBytes(int32_t id) const override {
    if (id < 0 || static_cast<size_t>(id) >= bytes_.size()) return {};
    return bytes_[static_cast<size_t>(id)];
  }
  void AddTo(Sha256& hash) const override { hash.UpdateText(identity_); }

 private:
  Result<TokenizedText> EncodeValid(std::string_view text, Place place) const override;
  size_t ByteGroup(const std::vector<int32_t>& ids, size_t first) const;

  std::string identity_;  // what AddTo hashes
  int32_t bos_id_ = -1, eos_id_ = -1;
  bool has_dummy_prefix_;
  std::vector<PieceType> types_;    // [vocab]
  std::vector<std::string> bytes_;  // [vocab]: TokenBytes
  ControlTokens controls_;
  Processor beginning_, continuation_;
};

Status SentencePieceTokenizer::LoadProcessors(const TokenizerModel& model,
                                              const std::string& path) {
  Status status = Guard(path, [&] {
    return beginning_.LoadFromSerializedProto(
        SerializeTokenizerModel(model, model.add_dummy_prefix));
  });
  if (status.ok()) {
    status = Guard(path, [&] {
      return continuation_.LoadFromSerializedProto(SerializeTokenizerModel(model, false));
    });
  }
  if (status.code() != Code::kInternal) return status;
  return Status(Code::kMalformedModel, status.message());  // what the library found and we did not
}

// Number of byte pieces from `first` on that are one character.
size_t SentencePieceTokenizer::ByteGroup(const std::vector<int32_t>& ids, size_t first) const {
  const uint8_t lead = static_cast<uint8_t>(bytes_[static_cast<size_t>(ids[first])][0]);
  const size_t length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return std::min(length, ids.size() - first);
}

Result<TokenizedText> SentencePieceTokenizer::EncodeValid(std::string_view text,
                                                          Place place) const {
  const Processor& processor = place == Place::kBeginning ? beginning_ : continuation_;
  TokenizedText tokens;
  LECTERN_RETURN_IF_ERROR(Guard("tokenizer", [&] {
    sentencepiece::ImmutableSentencePieceText pieces;
    const sentencepiece::util::Status status = processor.Encode(text, pieces.mutable_proto());
    if (!status.ok()) return status;
    for (const auto& piece : pieces.pieces()) {
      tokens.ids.push_back(static_cast<int32_t>(piece.id()));
      tokens.ranges.push_back({piece.begin(), piece.end()});
    }
    return status;
  }));
  if (tokens.ids.empty()) return tokens;

  // White space that the normaliser removed at the ends belongs to the outermost tokens.
  tokens.ranges.front().begin = 0;
  tokens.ranges.back().end = text.size();
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    const PieceType type = types_[static_cast<size_t>(tokens.ids[i])];
    if (type == PieceType::kControl) {
      return Status(Code::kInternal, "the tokenizer made a control token from text");
    }
    if (type != PieceType::kByte) continue;
    // The library gives the character's range to the last of its bytes only.
    const size_t end = i + ByteGroup(tokens.ids, i);
    const TokenizedText::Range whole = {tokens.ranges[i].begin, tokens.ranges[end - 1].end};
    for (; i < end; ++i) tokens.ranges[i] = whole;
    --i;
  }
  return tokens;
}

// Of a model that was checked; `identity`: what AddTo hashes.
Result<std::unique_ptr<Tokenizer>> MakeSentencePiece(const TokenizerModel& model,
                                                     std::string_view identity,
                                                     const std::string& path) {
  auto tokenizer = std::make_unique<SentencePieceTokenizer>(model, identity);
  LECTERN_RETURN_IF_ERROR(tokenizer->LoadProcessors(model, path));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

// All that changes what text becomes, and which tokens begin and end it.
std::string Describe(const TokenizerModel& model) {
  return model.bos_piece + '\n' + model.eos_piece + '\n' +
         SerializeTokenizerModel(model, model.add_dummy_prefix);
}

Result<std::string> ReadSmallFile(Env& env, const std::string& path) {
  LECTERN_ASSIGN(const auto map, OpenWhole(env, env.Resolve(path), Io::kPread));
  return std::string(reinterpret_cast<const char*>(map->data()), static_cast<size_t>(map->size()));
}

// What the files beside `path` say of it.
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
    LECTERN_ASSIGN(BpeModel model, ParseTokenizerJson(bytes, path));
    return MakeBpeTokenizer(std::move(model), std::move(bytes));
  }
  LECTERN_ASSIGN(TokenizerModel model, ParseTokenizerModel(bytes, path));
  // Documents of builds that read no other file keep their model, where it is what it was.
  const std::string alone = Describe(model);
  LECTERN_RETURN_IF_ERROR(ReadAdditions(env, path, &model));
  if (std::string whole = Describe(model); whole != alone) bytes += '\n' + whole;
  return MakeSentencePiece(model, bytes, path);
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::Make(TokenizerModel model, const std::string& path) {
  TakeMarksFromText(&model);
  LECTERN_RETURN_IF_ERROR(CheckTokenizerModel(model, path));
  return MakeSentencePiece(model, Describe(model), path);
}

Result<TokenizedText> Tokenizer::EncodeAt(std::string_view text, Place place) const {
  if (text.size() > kMaxText) {
    return Status(Code::kLimitExceeded, "the text has " + std::to_string(text.size()) +
                                            " bytes; the tokenizer takes " +
                                            std::to_string(kMaxText));
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
