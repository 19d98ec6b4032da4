// Counts what the server has done since it started, and writes that in the text format of
// Prometheus (version 0.0.4) for GET /metrics.
#ifndef LECTERN_TOOLS_SERVER_METRICS_H_
#define LECTERN_TOOLS_SERVER_METRICS_H_

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace lectern::server {

// Thread-safe.
class Metrics {
 public:
  // `route`: the path's pattern, "/v1/documents/{id}", or "other", so that clients cannot make
  // series without end; it is printed unescaped.
  void CountRequest(const std::string& route, int status);
  // One answer that came to its end.
  struct Asked {
    uint64_t question_tokens, answer_tokens;
    uint64_t bytes_read;                        // of the document's keys and values
    double first_token_seconds, total_seconds;  // since the question
  };
  void CountAnswer(const Asked& asked);  // adds to the sums, and to both histograms
  // One answer that was ended early, and the tokens that it had, which count among the others'.
  void CountCancelled(uint64_t answer_tokens);

  // The numbers that others know, at the time of Text.
  struct Now {
    uint32_t running, waiting;          // GenerationSlots::Load
    uint32_t sessions, connections;     // that are open
    uint64_t heap_bytes;                // allocated and not freed
    uint64_t step_passes, step_tokens;  // lectern_counts
  };
  // All metrics: the counts since the start, and `now`.
  std::string Text(const Now& now) const;

  // Upper limits of the histograms' buckets, in seconds.
  static constexpr std::array<double, 10> kSeconds = {0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

 private:
  struct Histogram {
    std::array<uint64_t, kSeconds.size() + 1> counts{};  // each bucket's own; the last: above all
    double sum = 0;
    void Add(double seconds);
    std::string Text(const std::string& name, const std::string& help) const;
  };

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, uint64_t> requests_;
  uint64_t question_tokens_ = 0, answer_tokens_ = 0, bytes_read_ = 0;
  uint64_t cancelled_ = 0;
  Histogram first_token_, total_;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_METRICS_H_
