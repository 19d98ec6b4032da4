#include "tools/server/fetched_documents.h"

#include <algorithm>
#include <utility>

#include "tools/quantities.h"

namespace lectern::server {

void FetchedDocuments::Add(const std::string& document, uint64_t bytes) {
  documents_[document] = {.bytes = bytes, .last_use = ++num_uses_};
}

void FetchedDocuments::Use(const std::string& document) {
  const auto found = documents_.find(document);
  if (found != documents_.end()) found->second.last_use = ++num_uses_;
}

void FetchedDocuments::AddOpen(const std::string& document, std::weak_ptr<const void> open) {
  const auto found = documents_.find(document);
  if (found == documents_.end()) return;
  IsOpen(found->second);  // forgets those that are closed
  found->second.open.push_back(std::move(open));
}

bool FetchedDocuments::IsOpen(Document& document) {
  std::erase_if(document.open, [](const auto& open) { return open.expired(); });
  return !document.open.empty();
}

uint64_t FetchedDocuments::bytes() const {
  uint64_t sum = 0;
  for (const auto& [id, document] : documents_) sum += document.bytes;
  return sum;
}

std::vector<std::map<std::string, FetchedDocuments::Document>::const_iterator>
FetchedDocuments::ByLastUse() const {
  std::vector<std::map<std::string, Document>::const_iterator> order;
  for (auto it = documents_.begin(); it != documents_.end(); ++it) order.push_back(it);
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a->second.last_use < b->second.last_use; });
  return order;
}

std::vector<std::string> FetchedDocuments::documents() const {
  std::vector<std::string> ids;
  for (const auto& it : ByLastUse()) ids.push_back(it->first);
  return ids;
}

std::optional<std::vector<std::string>> FetchedDocuments::Victims(uint64_t bytes) {
  std::vector<std::string> victims;
  uint64_t left = this->bytes();
  const auto fits = [&] { return bytes <= limit_bytes_ && left <= limit_bytes_ - bytes; };
  for (const std::string& id : documents()) {
    if (fits()) break;
    Document& document = documents_[id];
    if (IsOpen(document)) continue;
    left -= document.bytes;
    victims.push_back(id);
  }
  if (!fits()) return std::nullopt;
  return victims;
}

std::string FetchedDocuments::Text() const {
  std::string text;
  for (const auto& it : ByLastUse()) {
    text += it->first + " " + std::to_string(it->second.bytes) + "\n";
  }
  return text;
}

void FetchedDocuments::Read(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || space == 0) continue;
    if (const auto bytes = tools::ParseNumber<uint64_t>(line.substr(space + 1))) {
      Add(std::string(line.substr(0, space)), *bytes);
    }
  }
}

}  // namespace lectern::server
