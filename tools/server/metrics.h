// Counts what the server did since it started, in the form that Prometheus reads.
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
  void CountRequest(const std::string& route, int status);
  struct Asked {
    uint64_t question_tokens, answer_tokens, bytes_read;
    double first_token_seconds, total_seconds;
  };
  void CountAnswer(const Asked& asked);
  void CountCancelled(uint64_t answer_tokens);

  struct Now {
    uint32_t running, waiting, sessions, connections;
    uint64_t heap_bytes;  // allocated and not freed
    uint64_t step_passes, step_tokens;  // lectern_counts
  };
  std::string Text(const Now& now) const;

  static constexpr std::array<double, 10> kSeconds = {0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

 private:
  struct Histogram {
    std::array<uint64_t, kSeconds.size() + 1> counts{};
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
