// Finds where the latest tokens of a conversation occurred before, in the document or in the
// conversation itself: what followed them there may follow again (lookup decoding; prompt lookup in
// other engines: https://github.com/apoorvumang/prompt-lookup-decoding).
#ifndef LECTERN_ENGINE_ASKING_TOKEN_RUNS_H_
#define LECTERN_ENGINE_ASKING_TOKEN_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lectern {

// A growing sequence of tokens with the places of all its pairs of neighbours: a table of the last
// place of each pair, and from each place a link to the one before, as in LZ77. Building it takes
// 1 ms for 100,000 tokens, so it is made when a session first needs it and is not stored. One
// thread at a time.
class TokenRuns {
 public:
  // Runs of fewer tokens are not found; of two runs that are at least kLongestRun tokens long none
  // counts as longer.
  static constexpr size_t kShortestRun = 2, kLongestRun = 64;

  // The end of the latest tokens as it occurred before.
  struct Run {
    size_t length = 0;  // kShortestRun .. kLongestRun; 0: there is none
    size_t next = 0;    // the place of the token that followed it
  };

  // Makes room for so many tokens; more take memory later.
  void Reserve(size_t num_tokens);
  // Appends tokens.
  void Append(std::span<const int32_t> ids);
  // Forgets the token at `num_tokens` and all later ones.
  void Truncate(size_t num_tokens);
  size_t size() const { return ids_.size(); }
  // The longest run of the latest tokens that occurred before; of several the latest. Takes as
  // many comparisons as the last two tokens have places.
  Run Latest() const;
  // The token at a place. Behind the last token the sequence is thought to go on as from
  // `run.next` on: a run may reach into its own continuation.
  int32_t At(const Run& run, size_t ahead) const;
  // Bytes of memory for so many tokens.
  static uint64_t Bytes(size_t num_tokens);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  size_t BucketOf(size_t place) const;  // of the pair that ends at `place` >= 1
  // Links the pair that ends at `place`.
  void Link(size_t place);
  // Makes the table as large as the sequence, and links all pairs again.
  void Rebuild(size_t num_buckets);

  std::vector<int32_t> ids_;
  std::vector<uint32_t> before_;  // [tokens]: place of the pair before in the same bucket, or kNone
  std::vector<uint32_t> last_;    // [buckets, a power of two]: place of the last pair, or kNone
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_TOKEN_RUNS_H_
