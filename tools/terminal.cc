#include "tools/terminal.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iostream>

#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern::tools {
namespace {

// Unicode's bidirectional controls: LRM and RLM, the embeddings and overrides, the isolates.
bool IsControl(uint32_t c) {
  const bool reorders =
      c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
  return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0) || reorders;
}

// \x1B for what fits into a byte, \u{202E} for the rest.
std::string Escape(uint32_t c) {
  char text[16];
  std::snprintf(text, sizeof(text), c < 0x100 ? "\\x%02X" : "\\u{%04X}", static_cast<unsigned>(c));
  return text;
}

void PrintToStderr(std::string_view text) {
  const std::string line = Printable(text, stderr);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

std::string Printable(std::string_view text, std::FILE* file) {
  if (!IsTerminal(file)) return std::string(text);
  std::string printable;
  for (size_t at = 0; at < text.size();) {
    size_t length;
    uint32_t c = DecodeChar(text, at, &length);
    // A byte that is no valid UTF-8 counts as the character of its value: terminals may take it so.
    if (length == 1) c = static_cast<uint8_t>(text[at]);
    if (IsControl(c)) {
      printable += Escape(c);
    } else {
      printable += text.substr(at, length);
    }
    at += length;
  }
  return printable;
}

bool Output::Print(std::string_view text) {
  if (error_ != 0) return false;
  const std::string printable = Printable(text, stdout);
  if (std::fwrite(printable.data(), 1, printable.size(), stdout) == printable.size() &&
      std::fflush(stdout) == 0) {
    return true;
  }
  error_ = errno != 0 ? errno : EIO;  // some C libraries leave errno as it was
  return false;
}

int Output::Finish(std::string_view tool, int status) const {
  if (error_ == 0) return status;
  if (error_ == EPIPE) return 141;
  const lectern_code code = error_ == ENOSPC ? LECTERN_NO_SPACE : LECTERN_IO_ERROR;
  return PrintError(tool, {code, std::string("write the result: ") + std::strerror(error_), {}},
                    ErrorStyle::kText);
}

std::string CliMessage(const api::Error& error) {
  return error.cli_message.empty() ? error.message : error.cli_message;
}

int PrintError(std::string_view tool, const api::Error& error, ErrorStyle style) {
  if (style == ErrorStyle::kJson) {
    api::Error told = error;
    told.message = CliMessage(error);
    if (auto json = api::ToJson(told); json.ok()) PrintToStderr(*json + "\n");
  } else {
    PrintToStderr(std::string(tool) + ": " + CliMessage(error) + "\n");
  }
  return lectern_exit_status(error.code);
}

void PrintNote(std::string_view tool, std::string_view text) {
  PrintToStderr(std::string(tool).append(": ").append(text).append("\n"));
}

bool CanConfirm() { return IsTerminal(stdin) && IsTerminal(stderr); }

bool Confirm(std::string_view question) {
  PrintToStderr(std::string(question) + " [y/N] ");
  std::string line;
  std::getline(std::cin, line);
  return line == "y" || line == "Y" || line == "yes";
}

}  // namespace lectern::tools
