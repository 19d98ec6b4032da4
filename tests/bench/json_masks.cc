// json_masks MODEL: processor time that keeping an answer to a JSON schema takes per token, beside
// drawing a token without one. Logits are random, so that answers wander through the whole schema.
#include <ctime>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "engine/asking/answer_constraint.h"
#include "engine/forward/sampler.h"
#include "engine/model/model.h"
#include "engine/model/template/answer_text.h"
#include "store/env.h"

namespace {

using namespace lectern;

constexpr std::pair<const char*, std::string_view> kSchemas[] = {
    {"any object", kAnyObjectSchema},
    {"lease", R"({"type": "object", "properties": {"tenant": {"type": "string"},
      "rent": {"type": "integer", "minimum": 0}, "begins": {"type": "string", "format": "date"},
      "kind": {"enum": ["flat", "house", "shop"]}, "pets": {"type": "boolean"},
      "notes": {"type": "array", "items": {"type": "string"}}},
      "required": ["tenant", "rent", "begins", "kind", "pets", "notes"]})"},
    {"short strings", R"({"type": "array", "items": {"type": "object", "properties": {
      "name": {"type": "string", "maxLength": 40}, "id": {"type": "string",
      "pattern": "^[A-Z]{2}-[0-9]{3,5}$"}}, "required": ["name", "id"]}})"},
};

double Milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto loaded = Model::Load(Env::Default(), argv[1]);
  if (!loaded.ok()) {
    std::cerr << loaded.status().message() << "\n";
    return 1;
  }
  const auto& model = *loaded;
  double start = Milliseconds();
  const TokenTrie& trie = model->token_trie();
  std::cout << trie.num_nodes() << " nodes of " << trie.vocab_size() << " tokens, made in "
            << Milliseconds() - start << " ms\n";
  std::mt19937 random(1);
  std::vector<std::vector<float>> logits(16, std::vector<float>(model->config().vocab_size));
  for (auto& row : logits) {
    for (float& logit : row) logit = static_cast<float>(random() % 10000) * 1e-3f;
  }
  Sampler plain({});
  start = Milliseconds();
  int64_t sum = 0;
  for (int i = 0; i < 200; ++i) sum += plain.Sample(logits[static_cast<size_t>(i) % 16]);
  const double free_ms = (Milliseconds() - start) / 200;
  std::cout << "drawing without a schema: " << free_ms << " ms (" << sum % 10 << ")\n";
  for (const auto& [name, schema] : kSchemas) {
    int tokens = 0, forced = 0;
    double total = 0, most = 0, create = 0;
    for (int answer = 0; answer < 5; ++answer) {
      start = Milliseconds();
      auto constraint = AnswerConstraint::Create(model, schema, true, "\n", false, false);
      if (!constraint.ok()) return 1;
      create += Milliseconds() - start;
      AnswerText text(model->tokenizer(), model->chat_template().thinking(), false);
      Sampler sampler({});
      for (int i = 0; i < 200 && !(*constraint)->is_done(); ++i, ++tokens) {
        start = Milliseconds();
        const auto drawn = (*constraint)->Draw(logits[random() % 16], sampler);
        if (!drawn.ok()) return 1;
        forced += drawn->logits.empty();
        if (model->IsEndOfText(drawn->id)) break;
        (void)text.Push(drawn->id);
        (*constraint)->Push(drawn->id, text);
        const double took = Milliseconds() - start;
        total += took, most = std::max(most, took);
      }
    }
    std::cout << name << ": " << tokens << " tokens, " << forced << " forced; " << total / tokens
              << " ms a token, the slowest " << most << " ms, beginning " << create / 5 << " ms\n";
  }
  return 0;
}
