// The rules of a grammar that are made for a schema's parts, and those that still wait to be made.
#ifndef LECTERN_ENGINE_CONSTRAINT_SCHEMA_RULES_H_
#define LECTERN_ENGINE_CONSTRAINT_SCHEMA_RULES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/constraint/grammar.h"
#include "engine/constraint/schema_parts.h"

namespace lectern {

// Longer strings and lists are not written, whatever "maxLength" and "maxItems" allow.
inline constexpr uint32_t kMostCountedChars = 2000, kMostCountedItems = 1000;
// The text between a member's name and its value, and between members or items.
inline constexpr std::string_view kMemberMark = ": ", kNextMark = ", ";
inline constexpr uint32_t kRuleEnd = GrammarBuilder::kEndState,
                          kNoText = GrammarBuilder::kDeadState;

// One use, one thread. `reader` must outlive this.
class SchemaRules {
 public:
  explicit SchemaRules(SchemaReader& reader) : reader_(reader) {}

  SchemaReader& reader() { return reader_; }
  GrammarBuilder& builder() { return builder_; }
  // The number of the rule of values that fit all parts.
  uint32_t RuleOf(const SchemaParts& parts) {
    const auto [at, is_new] = rules_.try_emplace(parts, 0);
    if (is_new) {
      at->second = builder_.NewRule();
      waiting_.emplace_back(parts, at->second);
    }
    return at->second;
  }
  // A rule that is known by a text instead of a schema.
  template <typename Make>
  uint32_t RuleNamed(const std::string& name, Make make) {
    const auto [at, is_new] = named_.try_emplace(name, 0);
    if (!is_new) return at->second;
    const uint32_t rule = builder_.NewRule();
    at->second = rule;
    builder_.SetRule(rule, make());
    return rule;
  }
  // Parts that have a rule, which has to be made; each once. Nothing: all are made.
  std::optional<std::pair<SchemaParts, uint32_t>> TakeWaiting() {
    if (waiting_.empty()) return std::nullopt;
    auto next = std::move(waiting_.front());
    waiting_.pop_front();
    return next;
  }

 private:
  SchemaReader& reader_;
  GrammarBuilder builder_;
  std::map<SchemaParts, uint32_t> rules_;
  std::map<std::string, uint32_t> named_;
  std::deque<std::pair<SchemaParts, uint32_t>> waiting_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_SCHEMA_RULES_H_
