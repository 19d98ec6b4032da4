#include "engine/constraint/json_text.h"

#include "engine/model/formats/json.h"

namespace lectern {
namespace {

class Lines : public JsonEvents {
 public:
  Status Scalar(Json value) override {
    if (value.is_null() || value.boolean()) return {};
    text += value.string() ? *value.string() : value.Dump();
    text += '\n';
    return {};
  }
  Status Key(std::string) override { return {}; }
  Status Begin(bool) override { return {}; }
  Status End() override { return {}; }

  std::string text;
};

}  // namespace

std::string TextOfJson(std::string_view json) {
  Lines lines;
  // Where the text is cut short, what was read before counts.
  (void)ReadJson(json, {.max_depth = 256}, lines);
  return std::move(lines.text);
}

}  // namespace lectern
