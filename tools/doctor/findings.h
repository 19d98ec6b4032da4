// The result of a check of lectern-doctor: a verdict, a sentence, the way out, and the same as
// numbers. Every check returns one or more of them; the tool prints them as text or JSON.
#ifndef LECTERN_TOOLS_DOCTOR_FINDINGS_H_
#define LECTERN_TOOLS_DOCTOR_FINDINGS_H_

#include <string>
#include <vector>

#include "engine/model/formats/json.h"

namespace lectern::doctor {

// From good to bad, so that the larger of two is the worse. kWarn: works, but slowly or with
// mistakes; kFail: does not work.
enum class Verdict { kOk, kWarn, kFail };
std::string_view VerdictName(Verdict verdict);  // "ok", "warn", "fail"

struct Finding {
  std::string name;  // the line's label: "memory"
  Verdict verdict = Verdict::kOk;
  std::string text;          // what was found, as the rest of the line
  std::string way_out = {};  // what the user can do about it; empty: nothing is to be done
  Json::Object values = {};  // what was found, for programs
  Code code = Code::kOk;     // of a kFail: decides the tool's exit status

  // A kFail with the status' message (as command lines word it) and code, and with what the user
  // can do. Its values have "code" and, where there is one, "param". `status` is not OK.
  static Finding Failed(std::string name, const Status& status, std::string do_this);
  // Makes the verdict at least as bad as `to` and adds `do_this` to the way out, behind "; ". A
  // failure without a code gets kInternal. Returns *this.
  Finding& Worsen(Verdict to, std::string do_this);
};

using Findings = std::vector<Finding>;

Verdict WorstOf(const Findings& findings);  // kOk of none
// A line for each finding, "ok    memory  …", with the way out under it behind "->"; "" of none.
std::string FindingsText(const Findings& findings);
// {"version", "verdict", "findings": [{"name", "verdict", "text", "way_out", "values"}]}; no
// newline at its end.
std::string FindingsJson(const Findings& findings, const std::string& version);
int ExitStatusOf(const Findings& findings);  // of the first failure; 0: there is none

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_FINDINGS_H_
