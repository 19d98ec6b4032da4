#include "engine/constraint/ordered_json.h"

#include <algorithm>

namespace lectern {
namespace {

// Builds the tree from the reader's events. Containers under construction are in `open_`, the
// innermost last; a container is moved into the one around it when it ends.
class OrderedBuilder : public JsonEvents {
 public:
  Status Scalar(Json value) override {
    OrderedJson scalar;
    scalar.scalar = std::move(value);
    return Add(std::move(scalar));
  }
  Status Key(std::string name) override {
    if (open_.back().value.Find(name) != nullptr) {
      return {Code::kMalformedModel, "key \"" + name.substr(0, 100) + "\" appears twice"};
    }
    open_.back().key = std::move(name);
    return {};
  }
  Status Begin(bool is_object) override {
    open_.emplace_back();
    open_.back().value.kind = is_object ? OrderedJson::Kind::kObject : OrderedJson::Kind::kArray;
    return {};
  }
  Status End() override {
    OrderedJson done = std::move(open_.back().value);
    open_.pop_back();
    return Add(std::move(done));
  }
  OrderedJson Take() { return std::move(root_); }

 private:
  struct Open {
    OrderedJson value;
    std::string key;
  };
  Status Add(OrderedJson value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().value.is_object()) {
      open_.back().value.members.push_back({std::move(open_.back().key), std::move(value)});
    } else {
      open_.back().value.items.push_back(std::move(value));
    }
    return {};
  }

  std::vector<Open> open_;
  OrderedJson root_;
};

}  // namespace

const OrderedJson* OrderedJson::Find(std::string_view key) const {
  const auto at = std::ranges::find_if(members, [&](const auto& one) { return one.key == key; });
  return at == members.end() ? nullptr : &at->value;
}

Result<OrderedJson> ParseOrderedJson(std::string_view text, const JsonLimits& limits) {
  OrderedBuilder builder;
  LECTERN_RETURN_IF_ERROR(ReadJson(text, limits, builder));
  return builder.Take();
}

std::string QuotedJson(std::string_view text) { return Json(text).Dump(); }

std::string DumpOrdered(const OrderedJson& value) {
  if (value.kind == OrderedJson::Kind::kScalar) return value.scalar.Dump();
  std::string text(1, value.is_object() ? '{' : '[');
  for (const OrderedJson& item : value.items) {
    if (text.size() > 1) text += ", ";
    text += DumpOrdered(item);
  }
  for (const auto& [key, member] : value.members) {
    if (text.size() > 1) text += ", ";
    text += QuotedJson(key) + ": " + DumpOrdered(member);
  }
  return text + (value.is_object() ? '}' : ']');
}

std::string ComparedJson(const OrderedJson& value) {
  if (value.kind == OrderedJson::Kind::kScalar) {
    const bool is_number = !value.string() && value.scalar.number();
    const auto whole = is_number ? value.scalar.integer() : std::nullopt;
    return whole ? std::to_string(*whole) : value.scalar.Dump();
  }
  std::string text(1, value.is_object() ? '{' : '[');
  for (const OrderedJson& item : value.items) text += ComparedJson(item) + ",";
  std::vector<std::string> members;
  for (const auto& [key, member] : value.members) {
    members.push_back(QuotedJson(key) + ":" + ComparedJson(member) + ",");
  }
  std::ranges::sort(members);
  for (const std::string& member : members) text += member;
  return text + (value.is_object() ? '}' : ']');
}

}  // namespace lectern
