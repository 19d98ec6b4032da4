// Gets documents that the store lacks from elsewhere when they are asked for.
#ifndef LECTERN_TOOLS_SERVER_DOCUMENT_FETCHER_H_
#define LECTERN_TOOLS_SERVER_DOCUMENT_FETCHER_H_

#include <functional>
#include <memory>
#include <string>

#include "engine/lectern.h"

namespace lectern::server {

// Thread-safe.
class DocumentFetcher {
 public:
  virtual ~DocumentFetcher() = default;

  // Puts the document into the store, by its name or id; blocks for as long as that takes, and ends
  // with CANCELLED soon after `stop` holds. Two calls for one document fetch it once. NOT_FOUND: it
  // is not known there either. Other errors are worded for clients, without paths and addresses.
  virtual api::Result<api::Done> Fetch(const std::string& document,
                                       const std::function<bool()>& stop) = 0;
  // A document of the store, by its id, was asked for: it is not the next one to go.
  virtual void Used(const std::string& document) = 0;
  // It is open while the object lives: it does not go before.
  virtual void Opened(const std::string& document, std::weak_ptr<const void> open) = 0;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_DOCUMENT_FETCHER_H_
