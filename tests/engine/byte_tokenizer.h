// A tokenizer without a file whose tokens are bytes, so that tests of chat templates can read them
// back.
#ifndef LECTERN_TESTS_ENGINE_BYTE_TOKENIZER_H_
#define LECTERN_TESTS_ENGINE_BYTE_TOKENIZER_H_

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer/tokenizer.h"

namespace lectern {

// Every byte is a token of its own number, and so is every text that is asked for as a control
// token: ControlId gives it the next id from 256 on, so that it never fails. Ids that were never
// given are not checked. One thread.
class ByteTokenizer : public Tokenizer {
 public:
  // The texts of the tokens that begin and end a document; "": there is no such token (-1).
  ByteTokenizer(const std::string& bos, const std::string& eos)
      : bos_id_(bos.empty() ? -1 : ControlId(bos)), eos_id_(eos.empty() ? -1 : ControlId(eos)) {}
  std::string_view kind() const override { return "bytes"; }
  size_t vocab_size() const override { return 256 + controls_.size(); }
  int32_t bos_id() const override { return bos_id_; }
  int32_t eos_id() const override { return eos_id_; }
  int32_t ControlId(std::string_view text) const override {
    const auto at = std::find(controls_.begin(), controls_.end(), text);
    const auto index = at - controls_.begin();
    if (at == controls_.end()) controls_.emplace_back(text);
    return 256 + static_cast<int32_t>(index);
  }
  std::string_view ControlText(int32_t id) const override {
    return id < 256 ? std::string_view() : controls_[static_cast<size_t>(id) - 256];
  }
  std::optional<ControlToken> FindControl(std::string_view text) const override {
    for (size_t i = 0; i < controls_.size(); ++i) {
      if (text.starts_with(controls_[i])) {
        return ControlToken{256 + static_cast<int32_t>(i), controls_[i].size()};
      }
    }
    return std::nullopt;
  }
  bool has_dummy_prefix() const override { return false; }
  std::string_view TokenBytes(int32_t id) const override {
    static const std::string bytes = [] {
      std::string all;
      for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
      return all;
    }();
    return id < 0 || id > 255 ? std::string_view()
                              : std::string_view(bytes).substr(static_cast<size_t>(id), 1);
  }
  void AddTo(Sha256&) const override {}

  // The bytes of all tokens, one after the other, control tokens as their texts.
  std::string TextOf(const std::vector<int32_t>& ids) const {
    std::string text;
    for (const int32_t id : ids) {
      text += id < 256 ? std::string(1, static_cast<char>(id))
                       : controls_[static_cast<size_t>(id) - 256];
    }
    return text;
  }

 private:
  Result<TokenizedText> EncodeValid(std::string_view text, Place) const override {
    TokenizedText tokens;
    for (size_t i = 0; i < text.size(); ++i) {
      tokens.ids.push_back(static_cast<uint8_t>(text[i]));
      tokens.ranges.push_back({i, i + 1});
    }
    return tokens;
  }
  mutable std::deque<std::string> controls_;
  int32_t bos_id_, eos_id_;
};

}  // namespace lectern

#endif  // LECTERN_TESTS_ENGINE_BYTE_TOKENIZER_H_
