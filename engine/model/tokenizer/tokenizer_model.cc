// Fields and defaults: sentencepiece_model.proto of SentencePiece. Encoding of messages:
// protobuf.dev/programming-guides/encoding. As there, the last value of a field wins, and a message
// that appears twice is merged. A reader of our own, because the file is untrusted and has few
// fields.
#include "engine/model/tokenizer/tokenizer_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_set>

#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"
#include "engine/model/tokenizer/charsmap.h"
#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

// Limits of an untrusted file, several times published ones.
constexpr size_t kMaxFile = size_t{64} << 20;
constexpr size_t kMaxPieces = size_t{1} << 20;
constexpr size_t kMaxPiece = 1024;  // bytes

// How the bytes of a field are written (protobuf's wire types).
enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// A field of a message.
struct Field {
  uint32_t number = 0;
  Wire wire = Wire::kVarint;
  uint64_t varint = 0;     // kVarint, and kFixed32 as its bits
  std::string_view bytes;  // kBytes
  size_t offset = 0;       // in the file, of its tag
  size_t bytes_offset = 0;
};

// Reads the fields of one message one after another.
class MessageReader {
 public:
  // `offset`: of the message in the file.
  MessageReader(std::string_view message, size_t offset) : rest_(message), offset_(offset) {}

  bool done() const { return rest_.empty(); }

  // False: the bytes at offset() are not a field.
  bool Next(Field* field) {
    uint64_t tag = 0;
    field->offset = offset_;
    if (!Varint(&tag) || tag >> 32 != 0 || tag >> 3 == 0) return false;
    field->number = static_cast<uint32_t>(tag >> 3);
    field->wire = static_cast<Wire>(tag & 7);
    switch (field->wire) {
      case Wire::kVarint:
        return Varint(&field->varint);
      case Wire::kFixed32:
        return Fixed(4, &field->varint);
      case Wire::kFixed64:
        return Fixed(8, &field->varint);
      case Wire::kBytes:
        return Bytes(field);
    }
    return false;  // groups, which no SentencePiece file has
  }

  size_t offset() const { return offset_; }

 private:
  // Goes on behind bytes that were read.
  void Skip(size_t bytes) {
    rest_.remove_prefix(bytes);
    offset_ += bytes;
  }

  // Reads a number of seven bits a byte, the lowest first. False: it is cut short or has more than
  // 64 bits.
  bool Varint(uint64_t* value) {
    *value = 0;
    for (unsigned i = 0; i < 10 && i < rest_.size(); ++i) {
      const uint8_t byte = static_cast<uint8_t>(rest_[i]);
      if (i == 9 && byte > 1) return false;
      *value |= static_cast<uint64_t>(byte & 0x7F) << (7 * i);
      if (byte < 0x80) {
        Skip(i + 1);
        return true;
      }
    }
    return false;
  }

  // Reads a little-endian number of fixed size. False: it is cut short.
  bool Fixed(size_t bytes, uint64_t* value) {
    if (rest_.size() < bytes) return false;
    *value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      *value |= static_cast<uint64_t>(static_cast<uint8_t>(rest_[i])) << (8 * i);
    }
    Skip(bytes);
    return true;
  }

  // Reads a length and so many bytes, as a view. False: they are cut short.
  bool Bytes(Field* field) {
    uint64_t length = 0;
    if (!Varint(&length) || length > rest_.size()) return false;
    field->bytes = rest_.substr(0, static_cast<size_t>(length));
    field->bytes_offset = offset_;
    Skip(static_cast<size_t>(length));
    return true;
  }

  std::string_view rest_;
  size_t offset_;
};

// Whether a text is a tag of HTML, such as "<td>" or "</h1>". <s> does not count: it ends or begins
// a text in most vocabularies.
bool IsHtmlTag(std::string_view text) {
  constexpr std::string_view kNames =
      " a b bbox blockquote body caption code div em footer h1 h2 h3 h4 h5 h6 html i iframe img li "
      "ol p span strong sub sup table tbody td tfoot th thead tr u ul ";
  if (text.size() < 3 || text.front() != '<' || text.back() != '>') return false;
  text = text.substr(1, text.size() - 2);
  if (text.front() == '/') text.remove_prefix(1);
  return text.find(' ') == std::string_view::npos &&
         kNames.find(' ' + std::string(text) + ' ') != std::string_view::npos;
}

// A text for a message, cut to 100 bytes.
std::string Shown(std::string_view text) { return Json(text.substr(0, 100)).Dump(); }

// Reads the protobuf into a TokenizerModel, without judging what it says.
class ModelReader {
 public:
  explicit ModelReader(const std::string& path) : path_(path) {}

  Result<TokenizerModel> Read(std::string_view bytes) {
    LECTERN_RETURN_IF_ERROR(ReadMessage(bytes, 0, &ModelReader::TakeModelField));
    // Both are optional in protobuf, but every file that the trainer wrote has them, after the
    // pieces: without this a file cut between two pieces would pass for a smaller vocabulary.
    if (!has_trainer_ || !has_normalizer_) {
      return Malformed(bytes.size(), "the file ends before its " +
                                         std::string(has_trainer_ ? "normalizer" : "trainer") +
                                         "_spec");
    }
    return std::move(model_);
  }

 private:
  // A function that takes a field of a message and ignores unknown ones, as protobuf wants it.
  using Taker = Status (ModelReader::*)(const Field&);

  // Reads all fields of a message; `take` gets each one. `offset`: of the message in the file.
  Status ReadMessage(std::string_view bytes, size_t offset, Taker take) {
    MessageReader reader(bytes, offset);
    Field field;
    while (!reader.done()) {
      if (!reader.Next(&field)) return Malformed(reader.offset(), "no protobuf field here");
      LECTERN_RETURN_IF_ERROR((this->*take)(field));
    }
    return Status();
  }

  // Reads a message in a field.
  Status ReadNested(const Field& field, std::string_view name, Taker take) {
    LECTERN_RETURN_IF_ERROR(Expect(field, name, Wire::kBytes));
    return ReadMessage(field.bytes, field.bytes_offset, take);
  }

  // A field of the whole file's message. The two specs are noted, because a model without one is
  // malformed.
  Status TakeModelField(const Field& field) {
    switch (field.number) {
      case 1:
        return TakePiece(field);
      case 2:
        has_trainer_ = true;
        return ReadNested(field, "trainer_spec", &ModelReader::TakeTrainerField);
      case 3:
        has_normalizer_ = true;
        return ReadNested(field, "normalizer_spec", &ModelReader::TakeNormalizerField);
      default:
        return Status();  // self tests, the denormaliser, extensions: not for encoding
    }
  }

  // Each "pieces" field is one more piece.
  Status TakePiece(const Field& field) {
    if (model_.pieces.size() == kMaxPieces) {
      return Status(Code::kLimitExceeded,
                    path_ + ": more than " + std::to_string(kMaxPieces) + " pieces");
    }
    model_.pieces.emplace_back();
    return ReadNested(field, "pieces", &ModelReader::TakePieceField);
  }

  // Fields of SentencePiece: text, score and type.
  Status TakePieceField(const Field& field) {
    TokenizerPiece& piece = model_.pieces.back();
    switch (field.number) {
      case 1:
        return Text(field, "piece", &piece.text);
      case 2:
        LECTERN_RETURN_IF_ERROR(Expect(field, "score", Wire::kFixed32));
        piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.varint));
        return Status();
      case 3:
        LECTERN_RETURN_IF_ERROR(Expect(field, "type", Wire::kVarint));
        if (field.varint < 1 || field.varint > 6) {
          return Malformed(field.offset,
                           "piece type " + std::to_string(field.varint) + " does not exist");
        }
        piece.type = static_cast<PieceType>(field.varint);
        return Status();
      default:
        return Status();
    }
  }

  // Fields of TrainerSpec that change how text is encoded, by their numbers in the .proto file.
  Status TakeTrainerField(const Field& field) {
    switch (field.number) {
      case 3:
        return TakeKind(field);
      case 24:
        return Bool(field, "treat_whitespace_as_suffix", &model_.treat_whitespace_as_suffix);
      case 35:
        return Bool(field, "byte_fallback", &model_.byte_fallback);
      case 46:
        return Text(field, "bos_piece", &model_.bos_piece);
      case 47:
        return Text(field, "eos_piece", &model_.eos_piece);
      default:
        return Status();
    }
  }

  // Reads trainer_spec.model_type; words and characters are not supported.
  Status TakeKind(const Field& field) {
    LECTERN_RETURN_IF_ERROR(Expect(field, "model_type", Wire::kVarint));
    if (field.varint != 1 && field.varint != 2) {
      const std::string kind = field.varint == 3   ? "word"
                               : field.varint == 4 ? "char"
                                                   : std::to_string(field.varint);
      return Status(Code::kUnsupportedModel,
                    path_ + ": model_type is " + kind + "; supported: unigram, bpe");
    }
    model_.kind = static_cast<TokenizerModel::Kind>(field.varint);
    return Status();
  }

  // Fields of NormalizerSpec.
  Status TakeNormalizerField(const Field& field) {
    switch (field.number) {
      case 2:
        return Text(field, "precompiled_charsmap", &model_.charsmap);
      case 3:
        return Bool(field, "add_dummy_prefix", &model_.add_dummy_prefix);
      case 4:
        return Bool(field, "remove_extra_whitespaces", &model_.remove_extra_whitespaces);
      case 5:
        return Bool(field, "escape_whitespaces", &model_.escape_whitespaces);
      default:
        return Status();
    }
  }

  Status Text(const Field& field, std::string_view name, std::string* out) {
    LECTERN_RETURN_IF_ERROR(Expect(field, name, Wire::kBytes));
    *out = field.bytes;
    return Status();
  }

  Status Bool(const Field& field, std::string_view name, bool* out) {
    LECTERN_RETURN_IF_ERROR(Expect(field, name, Wire::kVarint));
    *out = field.varint != 0;
    return Status();
  }

  // `name`: as in sentencepiece_model.proto.
  Status Expect(const Field& field, std::string_view name, Wire wire) const {
    if (field.wire == wire) return Status();
    return Malformed(field.offset, "field " + std::to_string(field.number) + " (" +
                                       std::string(name) + ") has wire type " +
                                       std::to_string(static_cast<int>(field.wire)));
  }

  Status Malformed(size_t offset, const std::string& what) const {
    return Status(Code::kMalformedModel, path_ + ": not a SentencePiece model at byte " +
                                             std::to_string(offset) + ": " + what);
  }

  const std::string& path_;
  TokenizerModel model_;
  bool has_trainer_ = false, has_normalizer_ = false;
};

// Checks that the vocabulary can be used as its trainer meant it.
class ModelChecker {
 public:
  ModelChecker(const TokenizerModel& model, const std::string& path) : model_(model), path_(path) {}

  Status Check() {
    std::unordered_set<std::string_view> seen;
    for (size_t id = 0; id < model_.pieces.size(); ++id) {
      LECTERN_RETURN_IF_ERROR(CheckPiece(id));
      if (!is_strict_) continue;
      LECTERN_RETURN_IF_ERROR(CheckRole(id));
      if (!seen.insert(model_.pieces[id].text).second) return Malformed(id, "appears twice");
    }
    if (is_strict_) LECTERN_RETURN_IF_ERROR(CheckCounts());
    if (model_.charsmap.empty()) return Status();
    if (const auto fault = FindCharsmapFault(model_.charsmap)) {
      return Status(Code::kMalformedModel, path_ + ": precompiled_charsmap: " + *fault);
    }
    return Status();
  }

 private:
  // Checks that a piece's text and score can be used. A score that is not finite would break the
  // search for the best sum.
  Status CheckPiece(size_t id) const {
    const TokenizerPiece& piece = model_.pieces[id];
    if (is_strict_ && piece.text.empty()) return Malformed(id, "is empty");
    if (piece.text.size() > kMaxPiece) {
      return Make(Code::kLimitExceeded, id,
                  "is longer than " + std::to_string(kMaxPiece) + " bytes");
    }
    if (!IsValidUtf8(piece.text)) return Malformed(id, "is not valid UTF-8");
    if (!std::isfinite(piece.score)) return Malformed(id, "has a score that is not finite");
    return Status();
  }

  // SentencePiece allows one unknown piece, and byte pieces of one form.
  Status CheckRole(size_t id) {
    const TokenizerPiece& piece = model_.pieces[id];
    if (piece.type == PieceType::kUnknown && ++num_unknown_ > 1) {
      return Malformed(id, "is a second unknown piece");
    }
    if (piece.type != PieceType::kByte) return Status();
    ++num_bytes_;
    return piece.byte() >= 0 ? Status() : Malformed(id, "is not of the form <0xNN>");
  }

  // SentencePiece needs the unknown piece, and all bytes or none.
  Status CheckCounts() const {
    if (num_unknown_ == 0) {
      return Status(Code::kMalformedModel, path_ + ": it has no unknown piece");
    }
    const size_t wanted = model_.byte_fallback ? 256 : 0;  // each once: pieces are unique
    if (num_bytes_ == wanted) return Status();
    return Status(Code::kMalformedModel, path_ + ": it has " + std::to_string(num_bytes_) +
                                             " byte pieces; with byte_fallback " +
                                             (model_.byte_fallback ? "true" : "false") +
                                             " there must be " + std::to_string(wanted));
  }

  Status Make(Code code, size_t id, const std::string& what) const {
    return Status(code, path_ + ": piece " + std::to_string(id) + " " +
                            Shown(model_.pieces[id].text) + " " + what);
  }
  Status Malformed(size_t id, const std::string& what) const {
    return Make(Code::kMalformedModel, id, what);
  }

  const TokenizerModel& model_;
  const std::string& path_;
  const bool is_strict_ = model_.rules == TokenizerModel::Rules::kSentencePiece;
  size_t num_unknown_ = 0, num_bytes_ = 0;
};

// Writers of protobuf's fields, for SerializeTokenizerModel.
void AppendVarint(std::string* out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

void AppendNumber(std::string* out, uint32_t field, uint64_t value) {
  AppendVarint(out, field << 3);
  AppendVarint(out, value);
}

void AppendBytes(std::string* out, uint32_t field, std::string_view bytes) {
  AppendVarint(out, field << 3 | static_cast<uint32_t>(Wire::kBytes));
  AppendVarint(out, bytes.size());
  out->append(bytes);
}

// The bytes of a varint.
size_t VarintBytes(uint64_t value) { return (std::bit_width(value | 1) + 6) / 7; }

// Appends the field "pieces": its message has the text, the score as a float, and the type. A
// vocabulary has up to a million, so a piece's numbers are appended in one go.
constexpr size_t kMostAroundPiece = 16;  // bytes beside its text
void AppendPiece(std::string* out, const TokenizerPiece& piece) {
  const auto tag = [](uint32_t field, Wire wire) {
    return static_cast<char>(field << 3 | static_cast<uint32_t>(wire));
  };
  const size_t text = piece.text.size();
  const uint32_t score = std::bit_cast<uint32_t>(static_cast<float>(piece.score));
  const char behind[] = {tag(2, Wire::kFixed32),         static_cast<char>(score),
                         static_cast<char>(score >> 8),  static_cast<char>(score >> 16),
                         static_cast<char>(score >> 24), tag(3, Wire::kVarint),
                         static_cast<char>(piece.type)};
  out->push_back(tag(1, Wire::kBytes));
  AppendVarint(out, 1 + VarintBytes(text) + text + sizeof behind);
  out->push_back(tag(1, Wire::kBytes));
  AppendVarint(out, text);
  out->append(piece.text);
  out->append(behind, sizeof behind);
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

bool LooksLikeMark(std::string_view text) {
  while (text.starts_with(kSpaceMark)) text.remove_prefix(kSpaceMark.size());
  text.remove_prefix(std::min(text.find_first_not_of(" _"), text.size()));
  while (text.ends_with(kSpaceMark)) text.remove_suffix(kSpaceMark.size());
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text.size() >= 2 && ((text.front() == '<' && text.back() == '>') ||
                              (text.front() == '[' && text.back() == ']') ||
                              (text.starts_with(">>") && text.ends_with("<<")));
}

bool IsTemplateMark(std::string_view text) { return LooksLikeMark(text) && !IsHtmlTag(text); }

std::string RunningText(std::string_view piece) {
  std::string text;
  for (size_t at = 0; at < piece.size();) {
    const size_t mark = std::min(piece.find(kSpaceMark, at), piece.size());
    text += piece.substr(at, mark - at);
    if (mark < piece.size()) text += ' ';
    at = mark + kSpaceMark.size();
  }
  return text;
}

int TokenizerPiece::byte() const {
  if (type != PieceType::kByte || text.size() != 6) return -1;
  const int high = HexDigit(text[3]), low = HexDigit(text[4]);
  if (!text.starts_with("<0x") || text[5] != '>' || high < 0 || low < 0) return -1;
  return high * 16 + low;
}

int32_t TokenizerModel::ControlId(std::string_view text) const {
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type == PieceType::kControl && pieces[id].text == text) {
      return static_cast<int32_t>(id);
    }
  }
  return -1;
}

int32_t TokenizerModel::UnknownId() const {
  if (unknown_id >= 0) return unknown_id;
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type == PieceType::kUnknown) return static_cast<int32_t>(id);
  }
  return -1;
}

Result<TokenizerModel> ParseTokenizerModel(std::string_view bytes, const std::string& path) {
  if (bytes.size() > kMaxFile) {
    return Status(Code::kLimitExceeded,
                  path + ": larger than " + std::to_string(kMaxFile) + " bytes");
  }
  LECTERN_ASSIGN(TokenizerModel model, ModelReader(path).Read(bytes));
  TakeMarksFromText(&model);
  LECTERN_RETURN_IF_ERROR(CheckTokenizerModel(model, path));
  return model;
}

void TakeMarksFromText(TokenizerModel* model) {
  // Beside other tags of HTML, and where a text begins with another piece, <s> is one of them. The
  // same may hold for a tokenizer.model; there it stays what documents were indexed with.
  const bool has_html =
      std::any_of(model->pieces.begin(), model->pieces.end(), [](const TokenizerPiece& piece) {
        return piece.type == PieceType::kUserDefined && IsHtmlTag(piece.text);
      });
  const bool strikes = has_html && model->rules == TokenizerModel::Rules::kLlamaCpp &&
                       !model->bos_piece.empty() && model->bos_piece != "<s>";
  for (TokenizerPiece& piece : model->pieces) {
    if (piece.type != PieceType::kUserDefined || !IsTemplateMark(piece.text)) continue;
    if (!strikes || piece.text != "<s>") piece.type = PieceType::kControl;
  }
}

Status CheckTokenizerModel(const TokenizerModel& model, const std::string& path) {
  if (model.pieces.size() > kMaxPieces) {
    return Status(Code::kLimitExceeded,
                  path + ": more than " + std::to_string(kMaxPieces) + " pieces");
  }
  return ModelChecker(model, path).Check();
}

std::string SerializeTokenizerModel(const TokenizerModel& model, bool add_dummy_prefix) {
  size_t bytes = 0;
  for (const TokenizerPiece& piece : model.pieces) bytes += piece.text.size();
  std::string out;
  out.reserve(bytes + kMostAroundPiece * model.pieces.size());
  for (const TokenizerPiece& piece : model.pieces) AppendPiece(&out, piece);
  std::string message;
  AppendNumber(&message, 3, static_cast<uint64_t>(model.kind));
  if (model.treat_whitespace_as_suffix) AppendNumber(&message, 24, true);
  AppendNumber(&message, 35, model.byte_fallback);
  AppendBytes(&out, 2, message);
  message.clear();
  if (!model.charsmap.empty()) AppendBytes(&message, 2, model.charsmap);
  AppendNumber(&message, 3, add_dummy_prefix);
  AppendNumber(&message, 4, model.remove_extra_whitespaces);
  AppendNumber(&message, 5, model.escape_whitespaces);
  AppendBytes(&out, 3, message);
  return out;
}

}  // namespace lectern
