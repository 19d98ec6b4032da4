// Prints what the tools say: results on stdout, everything else on stderr.
#ifndef LECTERN_TOOLS_TERMINAL_H_
#define LECTERN_TOOLS_TERMINAL_H_

#include <cstdio>
#include <string>
#include <string_view>

#include "engine/lectern.h"

namespace lectern::tools {

bool IsTerminal(std::FILE* file);

// `text` (UTF-8) with control characters as \xNN or \u{NNNN} when `file` is a terminal, so that a
// document cannot drive it; unchanged otherwise. Newlines and tabs stay. Controls are C0, DEL, C1
// and the marks that reorder text.
std::string Printable(std::string_view text, std::FILE* file);

// Stdout. One thread at a time.
class Output {
 public:
  // Writes and flushes, escaped for terminals. False: stdout is gone or full.
  bool Print(std::string_view text);
  // The exit status of the tool: `status`, or what a failed Print makes of it. That a reader went
  // away (EPIPE) is worth no message: 141, as if SIGPIPE had ended us.
  int Finish(std::string_view tool, int status) const;

 private:
  int error_ = 0;  // errno of the first failed Print
};

// An error's message as the tools print it, which names options by their flags.
std::string CliMessage(const api::Error& error);

enum class ErrorStyle { kText, kJson };
// "tool: message", or the JSON error object, on stderr; CliMessage. Returns the exit status of the
// code.
int PrintError(std::string_view tool, const api::Error& error, ErrorStyle style);
// "tool: text" on stderr.
void PrintNote(std::string_view tool, std::string_view text);

// Whether there is someone to ask: stdin and stderr are terminals.
bool CanConfirm();
// Asks "question [y/N] " on stderr and reads a line from stdin.
bool Confirm(std::string_view question);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_TERMINAL_H_
