#include "tools/server/metrics.h"

#include <algorithm>
#include <sstream>

namespace lectern::server {
namespace {

// The two lines that begin a metric.
std::string Head(const std::string& name, const char* type, const std::string& help) {
  return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

// A metric of one number.
std::string One(const std::string& name, const char* type, const std::string& help,
                uint64_t value) {
  return Head(name, type, help) + name + " " + std::to_string(value) + "\n";
}

std::string Number(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

}  // namespace

void Metrics::Histogram::Add(double seconds) {
  const auto bucket = std::lower_bound(kSeconds.begin(), kSeconds.end(), seconds);
  ++counts[static_cast<size_t>(bucket - kSeconds.begin())];
  sum += seconds;
}

std::string Metrics::Histogram::Text(const std::string& name, const std::string& help) const {
  std::string text = Head(name, "histogram", help);
  uint64_t below = 0;  // buckets of Prometheus are cumulative: all observations up to the limit
  for (size_t i = 0; i < counts.size(); ++i) {
    below += counts[i];
    const std::string limit = i < kSeconds.size() ? Number(kSeconds[i]) : "+Inf";
    text += name + "_bucket{le=\"" + limit + "\"} " + std::to_string(below) + "\n";
  }
  text += name + "_sum " + Number(sum) + "\n";
  return text + name + "_count " + std::to_string(below) + "\n";
}

void Metrics::CountRequest(const std::string& route, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{route, status}];
}

void Metrics::CountAnswer(const Asked& asked) {
  const std::lock_guard lock(mutex_);
  question_tokens_ += asked.question_tokens;
  answer_tokens_ += asked.answer_tokens;
  bytes_read_ += asked.bytes_read;
  first_token_.Add(asked.first_token_seconds);
  total_.Add(asked.total_seconds);
}

void Metrics::CountCancelled(uint64_t answer_tokens) {
  const std::lock_guard lock(mutex_);
  ++cancelled_;
  answer_tokens_ += answer_tokens;
}

std::string Metrics::Text(const Now& now) const {
  const std::lock_guard lock(mutex_);
  std::string text = Head("lectern_requests_total", "counter", "Requests, by route and status.");
  for (const auto& [key, count] : requests_) {
    text += "lectern_requests_total{route=\"" + key.first + "\",status=\"" +
            std::to_string(key.second) + "\"} " + std::to_string(count) + "\n";
  }
  text += One("lectern_question_tokens_total", "counter", "Tokens of questions.", question_tokens_);
  text += One("lectern_answer_tokens_total", "counter", "Tokens generated.", answer_tokens_);
  text += One("lectern_kv_read_bytes_total", "counter",
              "Bytes of documents' keys and values read for answers.", bytes_read_);
  text += One("lectern_step_passes_total", "counter",
              "Passes over a model's weights, each for a token of one or more answers.",
              now.step_passes);
  text += One("lectern_step_tokens_total", "counter",
              "Tokens taken in these passes; tokens / passes: answers that shared one.",
              now.step_tokens);
  text += One("lectern_cancelled_total", "counter",
              "Answers ended by their client, a deadline or the server's end.", cancelled_);
  text += One("lectern_generations_running", "gauge", "Answers being generated.", now.running);
  text += One("lectern_generations_waiting", "gauge", "Questions waiting.", now.waiting);
  text += One("lectern_sessions", "gauge", "Sessions open, idle or in use.", now.sessions);
  text += One("lectern_connections", "gauge", "Connections open.", now.connections);
  text += One("lectern_heap_bytes", "gauge", "Memory allocated and not freed.", now.heap_bytes);
  text += first_token_.Text("lectern_first_token_seconds", "From the question to its first token.");
  return text + total_.Text("lectern_answer_seconds", "From the question to the whole answer.");
}

}  // namespace lectern::server
