// Keys and values of a conversation (the tokens after the fixed context), exact and in memory,
// optionally compressed.
//
// A long conversation can be compressed as KV-Compress (arXiv:2410.00161) does while it decodes:
// blocks of rows of all layers and kv heads compete by the squared attention that later tokens paid
// to them. Heads then have different numbers of rows.
#ifndef LECTERN_ENGINE_ATTENTION_SESSION_ROWS_H_
#define LECTERN_ENGINE_ATTENTION_SESSION_ROWS_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/types.h"

namespace lectern {

// Compress always leaves the last kProtectedSessionRows rows of a head, and cannot be told to leave
// fewer than kLeastSessionRows per head. Both are by hand, and no measurement is on record; they
// count only where max_session_rows is given, for by default no row of a conversation is dropped.
inline constexpr uint32_t kProtectedSessionRows = 32, kLeastSessionRows = 64;

// Rows of heads; a head is one of layers * kv heads. One thread at a time, except that Keys,
// Values, tokens and num_rows may be read from many. Views of a head's rows hold until rows of it
// are reserved, appended or dropped.
class SessionRows {
 public:
  SessionRows(size_t num_heads, Dtype dtype, size_t head_dim);

  Dtype dtype() const { return dtype_; }
  // Makes room for so many rows of each head; until then Append allocates nothing.
  void Reserve(size_t num_rows);
  // Appends rows of the next tokens, rounded to the stored type: [tokens, head_dim] each. They
  // follow those that were appended before and not forgotten. Their squared attention is 0.
  void Append(const Backend& backend, size_t head, Rows<const float> keys,
              Rows<const float> values);
  // The same for rows that have the stored type already (asserted).
  void AppendStored(size_t head, const TypedRows& keys, const TypedRows& values);
  size_t num_rows(size_t head) const { return heads_[head].tokens.size(); }
  // The first rows of a head, at most num_rows(head) of them.
  TypedRows Keys(size_t head, size_t num_rows) const;
  TypedRows Values(size_t head, size_t num_rows) const;
  // [num_rows]: the token of each row, ascending; 0 is the first token after the fixed context.
  std::span<const uint32_t> tokens(size_t head) const { return heads_[head].tokens; }
  // [num_rows]: squared attention that each row has drawn so far; callers add to it.
  std::span<float> squared_attention(size_t head) { return heads_[head].squared_attention; }

  // Forgets the rows of token `num_tokens` and of all later ones; if there are none, nothing. Room
  // is kept.
  void Truncate(uint32_t num_tokens);
  // Leaves at most `max_rows` (>= kLeastSessionRows, asserted) rows per head in the mean: evicts
  // the blocks of least attention over all heads. Whole blocks go, except for the first block of a
  // head, which holds the remainder. The rows that stay keep their order and tokens. Does nothing
  // if there are no more rows than that.
  void Compress(uint32_t max_rows);
  // Number of rows over all heads.
  uint64_t total_rows() const;

 private:
  struct Head {
    std::vector<std::byte> keys, values;
    std::vector<uint32_t> tokens;
    std::vector<float> squared_attention;
    uint32_t num_tokens = 0;  // appended and not forgotten, whether their rows are left or not
  };
  // Adds rows for so many more tokens; returns where their keys and values go.
  std::pair<std::byte*, std::byte*> Grow(Head& rows, size_t num_rows);
  // Drops all rows of the head but these, which ascend.
  void Keep(Head& head, std::span<const uint32_t> rows);

  const Dtype dtype_;
  const size_t head_dim_, row_bytes_;
  std::vector<Head> heads_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_SESSION_ROWS_H_
