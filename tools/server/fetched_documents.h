// Knows which documents of a store were fetched, how large they are and when each was last used,
// and chooses those that go when room is needed.
#ifndef LECTERN_TOOLS_SERVER_FETCHED_DOCUMENTS_H_
#define LECTERN_TOOLS_SERVER_FETCHED_DOCUMENTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lectern::server {

// One thread at a time.
class FetchedDocuments {
 public:
  explicit FetchedDocuments(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  void Add(const std::string& document, uint64_t bytes);  // used now
  void Remove(const std::string& document) { documents_.erase(document); }
  bool Has(const std::string& document) const { return documents_.count(document) > 0; }
  // Does nothing for documents that were not fetched: they never go.
  void Use(const std::string& document);
  void AddOpen(const std::string& document, std::weak_ptr<const void> open);

  uint64_t bytes() const;
  uint64_t limit_bytes() const { return limit_bytes_; }
  std::vector<std::string> documents() const;  // in the order of their last use
  // The documents that have to go, the longest unused first, so that `bytes` more fit. Nothing:
  // those that are not open do not suffice.
  std::optional<std::vector<std::string>> Victims(uint64_t bytes);

  // The whole as text, a line a document, in the order of their last use; and back. Lines that are
  // none are left out: what they name stays in the store for good.
  std::string Text() const;
  void Read(std::string_view text);

 private:
  struct Document {
    uint64_t bytes = 0;
    uint64_t last_use = 0;  // counts uses
    std::vector<std::weak_ptr<const void>> open = {};
  };
  static bool IsOpen(Document& document);
  std::vector<std::map<std::string, Document>::const_iterator> ByLastUse() const;

  const uint64_t limit_bytes_;
  uint64_t num_uses_ = 0;
  std::map<std::string, Document> documents_;  // by id
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_FETCHED_DOCUMENTS_H_
