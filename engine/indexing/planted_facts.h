// Facts that are planted in a text, with a question about each, to see which attention heads of a
// model find them.
#ifndef LECTERN_ENGINE_INDEXING_PLANTED_FACTS_H_
#define LECTERN_ENGINE_INDEXING_PLANTED_FACTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lectern {

// A fact in one sentence, and a question whose words are mostly others, so that heads which find
// equal words do not find every fact.
struct PlantedFact {
  const char* fact;
  const char* question;
};
// 48 facts about 48 things, in no order. Live forever.
std::span<const PlantedFact> PlantedFacts();

// The facts as one text, four to a paragraph.
struct PlantedText {
  std::string text;
  struct Range {
    uint64_t begin, end;
  };
  std::vector<Range> facts;  // the bytes of each fact, without the gap after it
};
// May throw std::bad_alloc.
PlantedText MakePlantedText();

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_PLANTED_FACTS_H_
