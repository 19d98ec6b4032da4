// Converts text into UTF-8 piece by piece: by iconv, on Windows by its code pages.
// charset_conversion.h makes whole texts of it.
#ifndef LECTERN_TOOLS_INGEST_CHARSET_CONVERTER_H_
#define LECTERN_TOOLS_INGEST_CHARSET_CONVERTER_H_

#include <memory>
#include <string>
#include <string_view>

namespace lectern::tools {

// A converter of one text. One thread.
class CharsetConverter {
 public:
  // `encoding`: a name of iconv. On Windows: one of charset_conversion.cc, or "CP" and a number.
  explicit CharsetConverter(const std::string& encoding);
  ~CharsetConverter();
  CharsetConverter(const CharsetConverter&) = delete;
  CharsetConverter& operator=(const CharsetConverter&) = delete;

  bool is_open() const { return state_ != nullptr; }  // the system knows the encoding

  // Converts from the front of `in` into `out`, and takes the converted bytes off `in`. Returns 0
  // at the end of `in`, else an errno: E2BIG (call again), EILSEQ (no character begins here),
  // EINVAL (the last character is cut off). With `in` null it writes the characters that an
  // encoding of combining parts (windows-1258, Big5-HKSCS) still holds.
  int Convert(std::string_view* in, std::string& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_CHARSET_CONVERTER_H_
