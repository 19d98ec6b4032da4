// Prints what the doctor found: one line of text for each finding, or one object of JSON.
#ifndef LECTERN_TOOLS_DOCTOR_FINDINGS_H_
#define LECTERN_TOOLS_DOCTOR_FINDINGS_H_

#include <string>
#include <vector>

#include "engine/model/formats/json.h"

namespace lectern::doctor {

enum class Verdict { kOk, kWarn, kFail };
std::string_view VerdictName(Verdict verdict);  // "ok", "warn", "fail"

struct Finding {
  std::string name;  // "memory"
  Verdict verdict = Verdict::kOk;
  std::string text;          // what there is
  std::string way_out = {};  // what to do about it; empty where nothing is to be done
  Json::Object values = {};  // the same as numbers and names
  Code code = Code::kOk;     // of a failure: the tool's exit status

  static Finding Failed(std::string name, const Status& status, std::string do_this);
  Finding& Worsen(Verdict to, std::string do_this);
};

using Findings = std::vector<Finding>;

Verdict WorstOf(const Findings& findings);
std::string FindingsText(const Findings& findings);
// {"version", "verdict", "findings": [{"name", "verdict", "text", "way_out", "values"}]}
std::string FindingsJson(const Findings& findings, const std::string& version);
int ExitStatusOf(const Findings& findings);  // of the first failure; 0: there is none

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_FINDINGS_H_
