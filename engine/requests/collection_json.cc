#include "engine/requests/collection_json.h"

#include <utility>

namespace lectern {

std::string CollectionsJson(std::span<const CollectionSummary> collections) {
  Json::Array items;
  for (const CollectionSummary& one : collections) {
    items.emplace_back(Json::Object{{"name", one.name},
                                    {"documents", one.num_documents},
                                    {"indexed", one.num_indexed},
                                    {"text_bytes", one.text_bytes},
                                    {"bytes_on_disk", one.bytes_on_disk}});
  }
  return Json(Json::Object{{"collections", std::move(items)}}).Dump();
}

std::string CollectionDocumentsJson(std::string_view collection,
                                    std::span<const CollectionDocument> documents) {
  Json::Array items;
  for (const CollectionDocument& one : documents) {
    items.emplace_back(Json::Object{{"name", one.name},
                                    {"source", StringOrNull(one.source)},
                                    {"document", StringOrNull(one.document)},
                                    {"text_bytes", one.text_bytes}});
  }
  return Json(Json::Object{{"collection", collection}, {"documents", std::move(items)}}).Dump();
}

std::string_view ChangeName(AddedToCollection::Change change) {
  switch (change) {
    case AddedToCollection::Change::kNew:
      return "new";
    case AddedToCollection::Change::kRenewed:
      return "renewed";
    case AddedToCollection::Change::kUnchanged:
      return "unchanged";
  }
  return "";
}

std::string AddedJson(std::string_view collection, std::span<const AddedToCollection> added) {
  Json::Array items;
  for (const AddedToCollection& one : added) {
    items.emplace_back(Json::Object{{"name", one.name}, {"change", ChangeName(one.change)}});
  }
  return Json(Json::Object{{"collection", collection}, {"added", std::move(items)}}).Dump();
}

std::string MentionsJson(std::string_view collection, std::string_view words,
                         const Mentions& mentions, OffsetUnit unit) {
  OffsetsOfTexts offsets(unit, {}, mentions.texts);
  Json::Array items;
  for (const Mentions::One& one : mentions.documents) {
    Json::Object passage = EvidenceObject(one.passage, offsets.Of(one.name));
    passage.erase("mass"), passage.erase("score");  // no model and no question gave any
    items.emplace_back(Json::Object{{"name", one.name},
                                    {"source", StringOrNull(one.source)},
                                    {"document", StringOrNull(one.document)},
                                    {"passages", uint64_t{one.num_passages}},
                                    {"passage", std::move(passage)}});
  }
  return Json(Json::Object{{"collection", collection},
                           {"words", words},
                           {"count", mentions.num_documents},
                           {"documents", std::move(items)},
                           {"offset_unit", offsets.unit_name()}})
      .Dump();
}

std::string IndexedCollectionJson(std::string_view collection, const IndexedCollection& indexed) {
  return Json(Json::Object{{"collection", collection},
                           {"indexed", indexed.indexed},
                           {"existed", indexed.existed},
                           {"left", indexed.left},
                           {"failures", indexed.failures},
                           {"failed", StringOrNull(indexed.failed)},
                           {"note", StringOrNull(indexed.note.text())}})
      .Dump();
}

Json AskedCollectionValue(const Answer& answer) {
  if (answer.collection.empty()) return nullptr;
  Json::Array asked;
  for (const AskedDocument& one : answer.documents) {
    asked.emplace_back(Json::Object{{"document", StringOrNull(one.document)},
                                    {"name", one.name},
                                    {"source", StringOrNull(one.source)},
                                    {"probability", Rounded(one.probability, 4)},
                                    {"answer", one.answer},
                                    {"support", Rounded(one.support, 4)},
                                    {"logprob", Rounded(one.logprob, 4)},
                                    {"chosen", one.is_chosen},
                                    {"new", one.is_new},
                                    {"passages", uint64_t{one.num_passages}}});
  }
  return Json::Object{
      {"name", answer.collection}, {"count", answer.num_documents}, {"asked", std::move(asked)}};
}

}  // namespace lectern
