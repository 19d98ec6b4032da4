// Turns text into tokens and tokens into text: the interface of all vocabularies. Chat templates,
// indexing and asking use it; vocabulary_tokenizer.cc implements it.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/formats/sha256.h"
#include "engine/model/tokenizer/control_tokens.h"
#include "engine/model/tokenizer/tokenizer_model.h"
#include "store/env.h"
#include "store/status.h"

namespace lectern {

// The tokens of a text, and the part of the text that each stands for.
struct TokenizedText {
  std::vector<int32_t> ids;
  // Byte range [begin, end) of each token in the text. Ranges ascend; byte-fallback pieces of one
  // character all carry that character's range; if there are tokens, every byte of the text is in
  // some range.
  struct Range {
    uint64_t begin, end;
  };
  std::vector<Range> ranges;
  // Bytes that became no token, because the vocabulary has no piece for them.
  uint64_t dropped_bytes = 0;
};

// Longest text that can be encoded at once, in bytes: offsets in words have 32 bits.
inline constexpr size_t kMaxTokenizedBytes = size_t{16} << 20;

// A vocabulary with its rules. Immutable; thread-safe.
class Tokenizer {
 public:
  // `path`: a file whose name ends with ".json" is read as tokenizer_json.h says, any other as a
  // SentencePiece tokenizer.model (file <= 64 MiB, piece <= 1 KiB, <= 1 M pieces, what
  // SentencePiece asks of a vocabulary; tokenizer_model.h, charsmap.h). User-defined pieces that
  // look like a control mark, <...> or [...], are never made from text (TakeMarksFromText).
  // added_tokens.json and tokenizer_config.json beside a tokenizer.model are read (added_tokens.h).
  // kMissingFile, kMalformedModel, kLimitExceeded, kUnsupportedModel, other codes of Env.
  static Result<std::unique_ptr<Tokenizer>> Load(Env& env, const std::string& path);
  // Makes a tokenizer of a vocabulary that is from another file, `path`; it is checked as in Load,
  // with the same codes. User-defined pieces that are marks become control pieces.
  static Result<std::unique_ptr<Tokenizer>> Make(TokenizerModel model, const std::string& path);
  virtual ~Tokenizer() = default;

  virtual std::string_view kind() const = 0;  // "SentencePiece", "byte-level BPE", "BPE"
  virtual size_t vocab_size() const = 0;
  virtual int32_t bos_id() const = 0;  // -1: none is put before a text
  virtual int32_t eos_id() const = 0;  // -1: none
  // The piece that stands for characters that have none; -1: they become nothing.
  virtual int32_t unknown_id() const { return -1; }
  // The control token with this text, such as "<|im_end|>"; -1: none.
  virtual int32_t ControlId(std::string_view text) const = 0;
  // The text of a control token; "" for every other id; valid as long as the tokenizer. Control
  // tokens are the pieces that no document's text becomes: those of type control or unknown, and
  // user-defined ones that look like marks of a chat template.
  virtual std::string_view ControlText(int32_t) const { return {}; }
  // Finds the longest control token that `text` begins with, to read a template's own text into
  // tokens; nothing: it begins with none.
  virtual std::optional<ControlToken> FindControl(std::string_view) const { return std::nullopt; }
  virtual bool has_dummy_prefix() const = 0;  // Encode puts a space before a text

  // Encodes the beginning of a text (with the model's dummy prefix). Valid UTF-8 only. Control
  // pieces such as "<s>" in the text are ordinary characters: no control token comes back, except
  // unknown_id() for characters without a piece. Where the normaliser removes white space, or bytes
  // have no piece, the tokens beside them have these bytes; a text of nothing else, or an empty
  // one, has no tokens. No bos token is put before it. kInvalidArgument: not UTF-8. kLimitExceeded:
  // more than 16 MiB, more than 64 MiB when it is normalised, or too many steps of an expression
  // that the vocabulary brings. Other codes of RegexMatcher::FindAll. May throw std::bad_alloc.
  Result<TokenizedText> Encode(std::string_view text) const;
  // Encodes text that continues what came before: no dummy prefix. Codes of Encode.
  Result<TokenizedText> EncodeContinuation(std::string_view text) const;

  // Returns the bytes that a token stands for in running text: "▁" as a space, byte pieces as their
  // byte, control pieces as nothing, SentencePiece's unknown piece as " ⁇ ". Nothing for an id that
  // is not of the vocabulary. Valid as long as the tokenizer.
  virtual std::string_view TokenBytes(int32_t id) const = 0;

  virtual void AddTo(Sha256& hash) const = 0;  // the file's bytes, or all that Make was given

  // Clauses for the user, without a full stop, about settings of the vocabulary that its files
  // leave out, so that a default was taken, and about tokens that they name and the vocabulary
  // lacks or has as ordinary text. Mostly empty.
  const std::vector<std::string>& assumptions() const { return assumptions_; }

 protected:
  enum class Place { kBeginning, kContinuation };
  void SetAssumptions(std::vector<std::string> sentences) { assumptions_ = std::move(sentences); }

 private:
  // `text` is valid UTF-8 and not too long.
  virtual Result<TokenizedText> EncodeValid(std::string_view text, Place place) const = 0;
  Result<TokenizedText> EncodeAt(std::string_view text, Place place) const;

  std::vector<std::string> assumptions_;
};

// Turns tokens into text that is valid UTF-8 at every step: bytes of an unfinished character are
// held back, and what can never become one is replaced by U+FFFD. One thread; the tokenizer must
// outlive it.
class TokenStream {
 public:
  // `strip_leading_space`: a space that is the stream's first byte is dropped (answers after
  // "Answer:").
  TokenStream(const Tokenizer& tokenizer, bool strip_leading_space)
      : tokenizer_(tokenizer), strip_leading_space_(strip_leading_space) {}
  std::string Push(int32_t id);  // what can be shown now
  std::string Flush();           // the end: unfinished bytes become U+FFFD

 private:
  const Tokenizer& tokenizer_;
  bool strip_leading_space_;
  std::string pending_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_H_
