#include "tools/index_report.h"

#include <algorithm>
#include <utility>

#include "engine/model/formats/json.h"
#include "tools/quantities.h"

namespace lectern::tools {
namespace {

constexpr const char* kResultNames[] = {"indexed", "unchanged",   "renewed", "skipped",
                                        "failed",  "interrupted", "deleted", "estimated"};
static_assert(std::size(kResultNames) == static_cast<size_t>(FileResult::kEstimated) + 1);

// The object that an API's text holds; empty where there is none.
Json::Object ObjectOf(const std::string& text) {
  if (text.empty()) return {};
  const auto json = ParseJson(text);
  return json.ok() && json->object() ? *json->object() : Json::Object();
}

// Whether a shell takes the text as one word and no tool takes it for an option.
bool IsPlainWord(std::string_view text) {
  return !text.empty() && !text.starts_with('-') &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/") == text.npos;
}

std::string RowJson(const FileRow& row) {
  Json::Object object = ObjectOf(row.json);
  if (row.error) {
    api::Error told = *row.error;
    told.message = CliMessage(told);
    if (auto json = api::ToJson(told); json.ok()) object.merge(ObjectOf(*json));
  }
  object["file"] = row.file;
  object["result"] = FileResultName(row.result);
  object["reason"] = row.reason.empty() ? Json() : Json(row.reason);
  return Json(std::move(object)).Dump() + "\n";
}

// `text` at the right end of a column of `width` characters.
std::string AtRight(std::string text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string RowText(const FileRow& row) {
  std::string result = FileResultName(row.result);
  result.resize(std::max<size_t>(result.size(), 11), ' ');
  const std::string tokens = row.tokens > 0 ? Grouped(row.tokens) : "";
  const std::string time = row.tokens > 0 && row.seconds > 0 ? Duration(row.seconds) : "";
  std::string line = result + AtRight(tokens, 11) + AtRight(time, 12) + "  " + row.file +
                     (row.reason.empty() ? "" : ": " + row.reason);
  std::replace(line.begin(), line.end(), '\n', ' ');  // names of files may have any character
  return line + "\n";
}

}  // namespace

std::string AskArgument(const api::IndexReport& report) {
  return std::string(IsPlainWord(report.name()) ? report.name() : report.document());
}

std::string ShellWord(const std::string& word) {
  if (IsPlainWord(word)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string EstimateText(const lectern_index_estimate& estimate) {
  if (estimate.existed) return "already indexed: nothing to do\n";
  return Grouped(estimate.tokens) + " tokens, about " + Duration(estimate.seconds) +
         "\ndisk: " + Bytes(estimate.bytes_on_disk) + ", while indexing " +
         Bytes(estimate.peak_bytes_on_disk) + " (" + Bytes(estimate.free_bytes) +
         " free)\nmemory: " + Bytes(estimate.anonymous_bytes) + "\n";
}

const char* FileResultName(FileResult result) { return kResultNames[static_cast<size_t>(result)]; }

bool FolderReport::Add(FileRow row) {
  files_.insert(row.file);
  ++counts_[static_cast<size_t>(row.result)];
  tokens_ += row.tokens;
  new_tokens_ += row.new_tokens;
  new_bytes_ += row.new_bytes;
  if (json()) return output_.Print(RowJson(row));
  if (is_table_printed_) return output_.Print(RowText(row));
  row.json.clear();
  rows_.push_back(std::move(row));
  return true;
}

bool FolderReport::PrintTable(size_t left, double seconds, const std::string& estimate) {
  if (!json() && !rows_.empty()) {
    output_.Print("result          tokens        time  file\n");
    for (const FileRow& row : rows_) output_.Print(RowText(row));
    rows_.clear();
  }
  is_table_printed_ = true;
  return PrintSums(left, seconds, estimate);
}

bool FolderReport::PrintSums(size_t left, double seconds, const std::string& estimate) {
  const size_t files = files_.size() + left;
  if (json()) {
    Json::Object sums = {
        {"files", uint64_t{files}},  {"left", uint64_t{left}},          {"tokens", tokens_},
        {"new_tokens", new_tokens_}, {"new_bytes_on_disk", new_bytes_}, {"seconds", seconds}};
    for (size_t i = 0; i < std::size(counts_); ++i) sums[kResultNames[i]] = uint64_t{counts_[i]};
    if (!estimate.empty()) sums["estimate"] = ObjectOf(estimate);
    return output_.Print(Json(Json::Object{{"summary", std::move(sums)}}).Dump() + "\n");
  }
  std::string text = Grouped(files) + (files == 1 ? " file" : " files");
  const char* separator = ": ";
  for (size_t i = 0; i < std::size(counts_); ++i) {
    if (counts_[i] == 0) continue;
    text += separator + Grouped(counts_[i]) + " " + kResultNames[i];
    separator = ", ";
  }
  if (left > 0) text += separator + Grouped(left) + " not reached";
  if (tokens_ > 0) text += "; " + Grouped(tokens_) + " tokens, " + Grouped(new_tokens_) + " new";
  if (new_bytes_ > 0) text += ", " + Bytes(new_bytes_) + " on disk";
  return output_.Print(text + ", in " + Duration(seconds) + "\n");
}

}  // namespace lectern::tools
