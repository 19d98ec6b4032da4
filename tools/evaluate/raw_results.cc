#include "tools/evaluate/raw_results.h"

#include <cmath>
#include <filesystem>
#include <iostream>
#include <sstream>

namespace lectern::evaluate {
namespace {

constexpr char kQuestionErrors[] = "question_errors", kAnswerErrors[] = "answer_errors";

// Rounded to five decimals: enough for means over many errors, and less to write.
Json::Array Rounded(const std::vector<double>& values) {
  Json::Array rounded;
  for (const double value : values) rounded.emplace_back(std::round(value * 1e5) / 1e5);
  return rounded;
}

// The bytes of a file; empty where there is no file.
Result<std::string> ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::string();
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (file.bad()) return Status(Code::kIoError, "cannot read " + path);
  return std::move(bytes).str();
}

}  // namespace

Result<std::pair<Measurement, RawResults::Sum>> RawResults::Parse(const std::string& line) {
  LECTERN_ASSIGN(const Json json, ParseJson(line));
  const Json *document = json.Find("document"), *mode = json.Find("mode");
  const Json *question = json.Find("question"), *seed = json.Find("seed");
  const Json* budget = json.Find("budget");
  if (!document || !document->string() || !mode || !mode->string() || !question ||
      !question->unsigned_integer() || !seed || !seed->unsigned_integer() || !budget ||
      !budget->number()) {
    return Status(Code::kCorrupt, "a line is none of lectern-evaluate's");
  }
  Sum sum;
  for (const char* name : {kQuestionErrors, kAnswerErrors}) {
    const Json* errors = json.Find(name);
    if (!errors || !errors->array()) continue;
    for (const Json& error : *errors->array()) {
      sum.errors += error.number().value_or(0);
      ++sum.count;
    }
  }
  const auto what = json.Find(kQuestionErrors)       ? Measurement::What::kErrors
                    : json.Find("continuation_nats") ? Measurement::What::kContinuation
                                                     : Measurement::What::kAnswer;
  return std::pair(Measurement{what, *document->string(), *question->unsigned_integer(),
                               *mode->string(), *seed->unsigned_integer(), *budget->number()},
                   sum);
}

Result<RawResults> RawResults::Open(const std::string& path) {
  RawResults results;
  results.path_ = path;
  if (path.empty()) return results;
  LECTERN_ASSIGN(const std::string text, ReadAll(path));
  // A rest behind the last newline: a run was killed while it wrote, and the next line must not be
  // glued to it.
  const size_t end = text.rfind('\n');
  const size_t whole = end == text.npos ? 0 : end + 1;
  if (whole == 0 && !text.empty()) {
    return Status(Code::kCorrupt,
                  path + ": has no whole line of lectern-evaluate's; remove it to begin anew");
  }
  std::istringstream lines(text.substr(0, whole));
  for (std::string line; std::getline(lines, line);) {
    auto parsed = Parse(line);
    if (!parsed.ok()) return Status(Code::kCorrupt, path + ": " + parsed.status().message());
    results.measured_.insert(std::move(parsed).value());
  }
  if (whole < text.size()) {
    std::error_code error;
    std::filesystem::resize_file(path, whole, error);
    if (error) return Status(Code::kIoError, "cannot shorten " + path + ": " + error.message());
  }
  results.file_.open(path, std::ios::app | std::ios::binary);
  if (!results.file_) return Status(Code::kIoError, "cannot write " + path);
  return results;
}

Status RawResults::Add(const Measurement& measurement, Json::Object figures) {
  figures["document"] = Json(measurement.document);
  figures["question"] = Json(measurement.question);
  figures["mode"] = Json(measurement.mode);
  figures["seed"] = Json(measurement.seed);
  figures["budget"] = Json(measurement.budget);
  const std::string line = Json(std::move(figures)).Dump();
  std::ostream& out = path_.empty() ? std::cout : file_;
  out << line << '\n' << std::flush;
  if (!out) {
    return {Code::kIoError, "cannot write " + (path_.empty() ? std::string("the results") : path_)};
  }
  LECTERN_ASSIGN(const auto parsed, Parse(line));
  measured_.insert(parsed);
  return {};
}

Status RawResults::AddErrors(const Measurement& measurement, const Errors& errors,
                             Json::Object figures) {
  figures[kQuestionErrors] = Json(Rounded(errors.question));
  figures[kAnswerErrors] = Json(Rounded(errors.answer));
  return Add(measurement, std::move(figures));
}

double RawResults::MeanError(const std::string& document, const std::string& mode, uint64_t seed,
                             double budget) const {
  Sum all;
  for (const auto& [measurement, sum] : measured_) {
    if (measurement.document != document || measurement.mode != mode || measurement.seed != seed ||
        measurement.budget != budget) {
      continue;
    }
    all.errors += sum.errors;
    all.count += sum.count;
  }
  return all.count ? all.errors / static_cast<double>(all.count) : NAN;
}

}  // namespace lectern::evaluate
