#include "tools/batch/document_bundler.h"

#include <filesystem>
#include <utility>

#include "tools/batch/document_options.h"
#include "tools/batch/file_hash.h"
#include "tools/document_argument.h"
#include "tools/document_errors.h"
#include "tools/ingest/ingest.h"
#include "tools/input_file.h"

namespace lectern::batch {
namespace {

constexpr char kBundleFile[] = "/bundle.lectern";

// Removes the bundle, and the unfinished one of a worker that was killed, which Export would
// respect.
void RemoveBundle(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove(folder + kBundleFile, ignored);
  std::filesystem::remove(folder + kBundleFile + ".part", ignored);
}

BundleMaker::Made OfDocument(const api::Error& error) {
  return {error, error.code != LECTERN_CANCELLED};
}

// Reads the file and turns it into text. Every error but CANCELLED is the document's.
api::Result<tools::Ingested> Read(const Claim& claim, const DocumentOptions& options,
                                  uint64_t max_ram_bytes, const StopCheck& stop) {
  auto bytes = tools::ReadInputFile(claim.file);
  if (!bytes.ok()) return bytes.error();
  tools::IngestOptions ingest = {.format = options.format,
                                 .encoding = options.encoding,
                                 .file_name = claim.file,
                                 .is_cancelled = [&stop] { return IsStopped(stop); },
                                 .memory_bytes = max_ram_bytes,
                                 .ocr = options.ocr};
  return tools::Ingest(std::move(*bytes), ingest);
}

}  // namespace

DocumentBundler::DocumentBundler(api::Engine& engine, std::string folder, uint64_t max_ram_bytes)
    : engine_(engine), folder_(std::move(folder)), max_ram_bytes_(max_ram_bytes) {}

BundleMaker::Made DocumentBundler::Make(const Claim& claim, const StopCheck& stop) {
  auto options = ReadDocumentOptions(claim.options);
  if (!options.ok()) return OfDocument(options.error());
  auto document = Read(claim, *options, max_ram_bytes_, stop);
  if (!document.ok()) return OfDocument(document.error());
  const std::string source = tools::RealPath(claim.file);
  api::IndexOptions index;
  options->index.PutInto(index);
  index.name = claim.name;
  index.source = source;
  index.pages = document->pages;
  index.page_labels = document->page_labels;
  index.on_progress = [&stop](const api::Progress&) { return !IsStopped(stop); };
  auto report = engine_.Index(document->text, index);
  if (!report.ok()) {
    // An option that does not fit the text is one of the manifest, whatever its name.
    const bool is_of_document =
        tools::IsOfOneText(report.error()) || report.error().code == LECTERN_INVALID_ARGUMENT;
    return {report.error(), is_of_document};
  }
  return {Export(*report), false};
}

api::Result<Bundle> DocumentBundler::Export(const api::IndexReport& report) {
  Bundle bundle = {.path = folder_ + kBundleFile,
                   .document = std::string(report.document()),
                   .tokens = report.numbers().tokens};
  auto fingerprint = api::GetString(report.json(), "fingerprint");
  if (!fingerprint.ok()) return fingerprint.error();
  bundle.fingerprint = *fingerprint;
  RemoveBundle(folder_);
  if (auto written = engine_.Export(bundle.document, bundle.path); !written.ok()) {
    return written.error();
  }
  auto hash = HashFile(bundle.path);
  if (!hash.ok()) return hash.error();
  bundle.facts = {hash->bytes, hash->sha256};
  return bundle;
}

// By its name: a document that was not indexed to the end has no other. What cannot be removed now
// goes with the folder.
void DocumentBundler::Discard(const Claim& claim) {
  RemoveBundle(folder_);
  (void)engine_.Remove(claim.name).ok();
}

void DocumentBundler::DiscardAll() {
  RemoveBundle(folder_);
  auto list = engine_.List();
  if (!list.ok()) return;  // there is no store yet
  for (const api::Document& document : list->documents) (void)engine_.Remove(document.id).ok();
  (void)engine_.Collect().ok();
}

}  // namespace lectern::batch
