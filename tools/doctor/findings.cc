#include "tools/doctor/findings.h"

#include <algorithm>

#include "tools/terminal.h"

namespace lectern::doctor {

std::string_view VerdictName(Verdict verdict) {
  constexpr std::string_view kNames[] = {"ok", "warn", "fail"};
  return kNames[static_cast<size_t>(verdict)];
}

Finding Finding::Failed(std::string name, const Status& status, std::string do_this) {
  Finding finding{.name = std::move(name),
                  .verdict = Verdict::kFail,
                  .text = status.wordings().cli_text(),
                  .way_out = std::move(do_this),
                  .code = status.code()};
  finding.values["code"] = CodeName(status.code());
  if (!status.param().empty()) finding.values["param"] = status.param();
  return finding;
}

Finding& Finding::Worsen(Verdict to, std::string do_this) {
  verdict = std::max(verdict, to);
  way_out += (way_out.empty() ? "" : "; ") + do_this;
  if (to == Verdict::kFail && code == Code::kOk) code = Code::kInternal;
  return *this;
}

Verdict WorstOf(const Findings& findings) {
  Verdict worst = Verdict::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.verdict);
  return worst;
}

std::string FindingsText(const Findings& findings) {
  size_t widest = 0;
  for (const Finding& finding : findings) widest = std::max(widest, finding.name.size());
  std::string text;
  for (const Finding& finding : findings) {
    std::string verdict(VerdictName(finding.verdict)), name = finding.name;
    verdict.resize(6, ' ');
    name.resize(widest + 2, ' ');
    text += verdict + name + finding.text + "\n";
    if (!finding.way_out.empty()) {
      text += std::string(6 + widest + 2, ' ') + "-> " + finding.way_out + "\n";
    }
  }
  return text;
}

std::string FindingsJson(const Findings& findings, const std::string& version) {
  Json::Array items;
  for (const Finding& finding : findings) {
    items.emplace_back(Json::Object{{"name", finding.name},
                                    {"verdict", VerdictName(finding.verdict)},
                                    {"text", finding.text},
                                    {"way_out", finding.way_out},
                                    {"values", finding.values}});
  }
  return Json(Json::Object{{"version", version},
                           {"verdict", VerdictName(WorstOf(findings))},
                           {"findings", std::move(items)}})
      .Dump();
}

int ExitStatusOf(const Findings& findings) {
  for (const Finding& finding : findings) {
    if (finding.verdict == Verdict::kFail) return ExitStatus(finding.code);
  }
  return 0;
}

}  // namespace lectern::doctor
