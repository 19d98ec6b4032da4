#include <iconv.h>

#include <cerrno>

#include "tools/ingest/charset_converter.h"

namespace lectern::tools {

struct CharsetConverter::State {
  explicit State(iconv_t opened) : descriptor(opened) {}
  ~State() { iconv_close(descriptor); }
  State(const State&) = delete;
  const iconv_t descriptor;
};

CharsetConverter::CharsetConverter(const std::string& encoding) {
  const iconv_t opened = iconv_open("UTF-8", encoding.c_str());
  if (opened != reinterpret_cast<iconv_t>(-1)) state_ = std::make_unique<State>(opened);
}

CharsetConverter::~CharsetConverter() = default;

int CharsetConverter::Convert(std::string_view* in, std::string& out) {
  char buffer[1 << 14];
  char* to = buffer;
  size_t room = sizeof buffer, left = in ? in->size() : 0;
  char* from = in ? const_cast<char*>(in->data()) : nullptr;  // iconv does not write to it
  const size_t result = iconv(state_->descriptor, in ? &from : nullptr, &left, &to, &room);
  const int error = result == static_cast<size_t>(-1) ? errno : 0;
  out.append(buffer, to);
  if (in) in->remove_prefix(in->size() - left);
  return error;
}

}  // namespace lectern::tools
