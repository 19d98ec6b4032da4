#include "engine/bpe_model.h"

#include <algorithm>
#include <optional>

#include "engine/json.h"
#include "engine/text.h"

namespace lectern {
namespace {

constexpr size_t kMaxBpePieces = size_t{1} << 20;
constexpr size_t kMaxBpeMerges = size_t{1} << 22;
constexpr size_t kMaxBpePiece = 2048;  // bytes, as the file has it

// The byte that each character of GPT-2's alphabet stands for, -1 elsewhere: printable characters
// of Latin-1 are their own byte, and the other bytes follow from U+0100 on.
std::array<int16_t, 0x144> MakeAlphabet() {
  std::array<int16_t, 0x144> byte_of;
  byte_of.fill(-1);
  size_t next = 0x100;
  for (int16_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
    byte_of[printable ? static_cast<size_t>(byte) : next++] = byte;
  }
  return byte_of;
}

// The bytes of a piece; nothing when it has a character outside of GPT-2's alphabet.
std::optional<std::string> FromAlphabet(std::string_view piece) {
  static const std::array<int16_t, 0x144> alphabet = MakeAlphabet();
  std::string bytes;
  for (size_t at = 0; at < piece.size(); ++at) {
    size_t c = static_cast<uint8_t>(piece[at]);
    if (c >= 0x80) {  // its characters have at most two bytes
      if ((c & 0xE0) != 0xC0 || at + 1 == piece.size()) return std::nullopt;
      c = (c & 0x1F) << 6 | (static_cast<uint8_t>(piece[++at]) & 0x3F);
    }
    if (c >= alphabet.size() || alphabet[c] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(alphabet[c]));
  }
  return bytes;
}

bool IsInUtf8(int byte) { return byte < 0xC0 || (byte >= 0xC2 && byte <= 0xF4); }

std::string Quoted(std::string_view text) { return Json(text.substr(0, 100)).Dump(); }

}  // namespace

class BpeModelMaker {
 public:
  BpeModelMaker(BpeArrays arrays, const std::string& path)
      : arrays_(std::move(arrays)), path_(path) {}

  Result<BpeModel> Make() {
    model_.words_ = arrays_.words;
    model_.ignore_merges_ = arrays_.ignore_merges;
    model_.composes_ = arrays_.composes;
    LECTERN_RETURN_IF_ERROR(CheckCounts());
    LECTERN_RETURN_IF_ERROR(TakePieces());
    LECTERN_RETURN_IF_ERROR(FindBytes());
    LECTERN_RETURN_IF_ERROR(TakeMerges());
    LECTERN_RETURN_IF_ERROR(SortMerges());
    LECTERN_RETURN_IF_ERROR(TakeControl("bos", arrays_.bos_id, &model_.bos_id_));
    LECTERN_RETURN_IF_ERROR(TakeControl("eos", arrays_.eos_id, &model_.eos_id_));
    return std::move(model_);
  }

 private:
  Status CheckCounts() const {
    if (arrays_.types.size() != arrays_.tokens.size()) {
      return Malformed("it has " + std::to_string(arrays_.tokens.size()) + " pieces and " +
                       std::to_string(arrays_.types.size()) + " types of pieces");
    }
    if (arrays_.tokens.size() > kMaxBpePieces) {
      return Status(Code::kLimitExceeded,
                    path_ + ": more than " + std::to_string(kMaxBpePieces) + " pieces");
    }
    if (arrays_.merges.size() > kMaxBpeMerges) {
      return Status(Code::kLimitExceeded,
                    path_ + ": more than " + std::to_string(kMaxBpeMerges) + " merges");
    }
    return Status();
  }

  Status TakePieces() {
    model_.bytes_.resize(arrays_.tokens.size());
    model_.pieces_.reserve(arrays_.tokens.size());
    for (size_t id = 0; id < arrays_.tokens.size(); ++id) {
      LECTERN_RETURN_IF_ERROR(TakePiece(id));
    }
    return Status();
  }

  Status TakePiece(size_t id) {
    const std::string& text = arrays_.tokens[id];
    if (arrays_.types[id] == PieceType::kUnused) return Status();
    if (text.empty()) return MalformedPiece(id, "is empty");
    if (text.size() > kMaxBpePiece) {
      return Status(Code::kLimitExceeded,
                    PieceNamed(id) + " is longer than " + std::to_string(kMaxBpePiece) + " bytes");
    }
    switch (arrays_.types[id]) {
      case PieceType::kNormal:
        return TakeNormal(id, text);
      case PieceType::kUserDefined:
        if (!LooksLikeMark(text)) {
          return Status(Code::kUnsupportedModel,
                        PieceNamed(id) +
                            " is an added token that is found in raw text and no mark "
                            "of a template; such vocabularies are not supported");
        }
        [[fallthrough]];
      case PieceType::kControl:
        if (!IsValidUtf8(text)) return MalformedPiece(id, "is not valid UTF-8");
        if (model_.controls_.Find(text) >= 0) return MalformedPiece(id, "appears twice");
        model_.controls_.Add(static_cast<int32_t>(id), text);
        return Status();
      default:
        return Status(Code::kUnsupportedModel,
                      PieceNamed(id) + " has type " +
                          std::to_string(static_cast<int>(arrays_.types[id])) +
                          "; a byte-level BPE vocabulary has 1, 3, 4 and 5");
    }
  }

  Status TakeNormal(size_t id, const std::string& text) {
    std::optional<std::string> bytes = FromAlphabet(text);
    if (!bytes) return MalformedPiece(id, "has a character that stands for no byte");
    model_.bytes_[id] = *std::move(bytes);
    if (!model_.pieces_.emplace(model_.bytes_[id], static_cast<int32_t>(id)).second) {
      return MalformedPiece(id, "appears twice");
    }
    return Status();
  }

  Status FindBytes() {
    for (int byte = 0; byte < 256; ++byte) {
      const char text = static_cast<char>(byte);
      const int32_t id = model_.FindPiece({&text, 1});
      if (id < 0 && IsInUtf8(byte)) {
        return Malformed("no piece is the byte " + std::to_string(byte));
      }
      model_.byte_ids_[static_cast<size_t>(byte)] = id;
    }
    return Status();
  }

  Status TakeMerges() {
    model_.pairs_.reserve(arrays_.merges.size());
    for (size_t i = 0; i < arrays_.merges.size(); ++i) LECTERN_RETURN_IF_ERROR(TakeMerge(i));
    return Status();
  }

  Status TakeMerge(size_t i) {
    const std::string_view text = arrays_.merges[i];
    const size_t space = text.find(' ');  // not in GPT-2's alphabet
    if (space == std::string_view::npos) return MalformedMerge(i, "is not two pieces");
    const auto left = FromAlphabet(text.substr(0, space));
    const auto right = FromAlphabet(text.substr(space + 1));
    if (!left || !right) return MalformedMerge(i, "has a character that stands for no byte");
    const int32_t left_id = model_.FindPiece(*left), right_id = model_.FindPiece(*right);
    if (left_id < 0 || right_id < 0) return MalformedMerge(i, "is not of two pieces");
    const int32_t id = model_.FindPiece(*left + *right);
    if (id < 0) return MalformedMerge(i, "makes what is no piece, or a control token");
    model_.pairs_.push_back({left_id, right_id, {static_cast<uint32_t>(i), id}});
    return Status();
  }

  Status SortMerges() {
    auto& pairs = model_.pairs_;
    std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
      return std::pair(a.left, a.right) < std::pair(b.left, b.right);
    });
    model_.first_pair_.resize(model_.size() + 1);
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (i > 0 && pairs[i - 1].left == pairs[i].left && pairs[i - 1].right == pairs[i].right) {
        return MalformedMerge(std::max(pairs[i].merge.rank, pairs[i - 1].merge.rank),
                              "appears twice");
      }
      ++model_.first_pair_[static_cast<size_t>(pairs[i].left) + 1];
    }
    for (size_t id = 0; id < model_.size(); ++id) {
      model_.first_pair_[id + 1] += model_.first_pair_[id];
    }
    return Status();
  }

  // `role`: "bos" or "eos".
  Status TakeControl(std::string_view role, int32_t id, int32_t* out) const {
    *out = id;
    if (id == -1) return Status();
    const bool exists = id >= 0 && static_cast<size_t>(id) < model_.size();
    if (exists && model_.controls_.Find(arrays_.tokens[static_cast<size_t>(id)]) == id) {
      return Status();
    }
    return Malformed("the " + std::string(role) + " token " + std::to_string(id) +
                     " is not a control token");
  }

  std::string PieceNamed(size_t id) const {
    return path_ + ": piece " + std::to_string(id) + " " + Quoted(arrays_.tokens[id]);
  }
  Status Malformed(const std::string& what) const {
    return Status(Code::kMalformedModel, path_ + ": " + what);
  }
  Status MalformedPiece(size_t id, const std::string& what) const {
    return Status(Code::kMalformedModel, PieceNamed(id) + " " + what);
  }
  Status MalformedMerge(size_t i, const std::string& what) const {
    return Malformed("merge " + std::to_string(i) + " " + Quoted(arrays_.merges[i]) + " " + what);
  }

  BpeArrays arrays_;
  const std::string& path_;
  BpeModel model_;
};

Result<BpeModel> BpeModel::Make(BpeArrays arrays, const std::string& path) {
  return BpeModelMaker(std::move(arrays), path).Make();
}

int32_t BpeModel::FindPiece(std::string_view bytes) const {
  const auto at = pieces_.find(bytes);
  return at == pieces_.end() ? -1 : at->second;
}

const BpeModel::Merge* BpeModel::FindMerge(int32_t left, int32_t right) const {
  const Pair* begin = pairs_.data() + first_pair_[static_cast<size_t>(left)];
  const Pair* end = pairs_.data() + first_pair_[static_cast<size_t>(left) + 1];
  const Pair* at = std::lower_bound(
      begin, end, right, [](const Pair& pair, int32_t wanted) { return pair.right < wanted; });
  return at == end || at->right != right ? nullptr : &at->merge;
}

}  // namespace lectern
