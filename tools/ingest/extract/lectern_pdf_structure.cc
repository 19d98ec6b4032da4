// lectern-pdf-structure: reads a PDF from stdin, which is a file that can be sought in, and writes
// the labels of its pages and its outline to stdout, in the form of pdf_structure.h. The tools
// start it with limits (limited_child.h), one PDF a process; it opens no other file.
#include <poppler.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "tools/ingest/pdf_structure.h"

namespace {

using namespace lectern::tools;

template <auto kFree>
struct FreeBy {
  template <typename Type>
  void operator()(Type* object) const {
    kFree(object);
  }
};
using DestPointer = std::unique_ptr<PopplerDest, FreeBy<poppler_dest_free>>;
using IterPointer = std::unique_ptr<PopplerIndexIter, FreeBy<poppler_index_iter_free>>;
using ActionPointer = std::unique_ptr<PopplerAction, FreeBy<poppler_action_free>>;
using TextPointer = std::unique_ptr<char, FreeBy<g_free>>;

// The page that an action goes to, from 1; 0: to none of this document.
uint64_t PageOf(PopplerDocument* document, const PopplerAction& action, uint64_t num_pages) {
  if (action.type != POPPLER_ACTION_GOTO_DEST || action.goto_dest.dest == nullptr) return 0;
  const PopplerDest* dest = action.goto_dest.dest;
  DestPointer found;
  if (dest->type == POPPLER_DEST_NAMED) {
    found.reset(poppler_document_find_dest(document, dest->named_dest));
    dest = found.get();
  }
  const bool is_page =
      dest != nullptr && dest->page_num >= 1 && static_cast<uint64_t>(dest->page_num) <= num_pages;
  return is_page ? static_cast<uint64_t>(dest->page_num) : 0;
}

// Appends the items from `iter` on with those inside of them. Items may lie in themselves in a
// hostile PDF, so that both depth and number are limited.
void AppendItems(PopplerDocument* document, PopplerIndexIter* iter, uint32_t level,
                 PdfStructure& structure) {
  if (level > kMaxOutlineLevel) return;
  do {
    if (structure.outline.size() >= kMaxOutlineItems) return;
    const ActionPointer action(poppler_index_iter_get_action(iter));
    if (action != nullptr && action->any.title != nullptr) {
      structure.outline.push_back(
          {level, PageOf(document, *action, structure.num_pages), action->any.title});
    }
    const IterPointer child(poppler_index_iter_get_child(iter));
    if (child != nullptr) AppendItems(document, child.get(), level + 1, structure);
  } while (poppler_index_iter_next(iter));
}

void AppendLabels(PopplerDocument* document, PdfStructure& structure) {
  for (uint64_t number = 1; number <= structure.num_pages; ++number) {
    PopplerPage* const page = poppler_document_get_page(document, static_cast<int>(number - 1));
    if (page == nullptr) continue;
    const TextPointer label(poppler_page_get_label(page));
    if (label != nullptr && *label != '\0' && std::to_string(number) != label.get()) {
      structure.labels.push_back({number, label.get()});
    }
    g_object_unref(page);
  }
}

}  // namespace

int main() {
  GError* error = nullptr;
  PopplerDocument* const document =
      poppler_document_new_from_fd(dup(STDIN_FILENO), nullptr, &error);
  if (document == nullptr) {
    std::fprintf(stderr, "lectern-pdf-structure < FILE: %s\n", error->message);
    g_error_free(error);
    return 1;
  }
  PdfStructure structure;
  structure.num_pages = static_cast<uint64_t>(poppler_document_get_n_pages(document));
  AppendLabels(document, structure);
  const IterPointer outline(poppler_index_iter_new(document));
  if (outline != nullptr) AppendItems(document, outline.get(), 1, structure);
  const std::string output = WritePdfStructure(structure);
  const bool is_written = std::fwrite(output.data(), 1, output.size(), stdout) == output.size();
  return is_written && std::fflush(stdout) == 0 ? 0 : 1;
}
