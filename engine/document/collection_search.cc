#include <algorithm>
#include <climits>
#include <functional>
#include <map>
#include <new>
#include <numeric>
#include <optional>
#include <set>

#include "engine/document/collection.h"
#include "engine/document/collection_file.h"
#include "engine/document/word_scores.h"

namespace lectern {
namespace {

// A word of a question, in the forms that the two tables have it in.
struct AskedWord {
  std::string english;
  std::set<std::string> plain;
};

// The distinct words of a text; stop words only if it has no others.
Result<std::vector<AskedWord>> WordsOf(const Collection::Impl& file, std::string_view text) {
  if (text.size() > INT_MAX) return Status(Code::kLimitExceeded, "the question has 2 GiB or more");
  std::vector<std::string> english, plain;
  LECTERN_RETURN_IF_ERROR(
      file.english->ForEachWord(text, [&](const auto& word) { english.emplace_back(word.form); }));
  LECTERN_RETURN_IF_ERROR(
      file.plain->ForEachWord(text, [&](const auto& word) { plain.emplace_back(word.form); }));
  const auto is_stop = [&](const std::string& word) { return file.stop_words.contains(word); };
  const bool has_content = !std::ranges::all_of(english, is_stop);
  std::vector<AskedWord> words;
  std::map<std::string_view, size_t> known;
  for (size_t i = 0; i < english.size(); ++i) {
    if (has_content && is_stop(english[i])) continue;
    const auto [at, is_new] = known.try_emplace(english[i], words.size());
    if (is_new) words.push_back({english[i], {}});
    // Both forms cut a text at the same places.
    if (i < plain.size()) words[at->second].plain.insert(plain[i]);
  }
  return words;
}

// The passages that have a word, by their numbers among all, ascending.
Result<std::vector<uint64_t>> PassagesWith(const Collection::Impl& file, const AskedWord& word) {
  std::vector<uint64_t> passages;
  const auto add = [&](const char* sql, std::string_view form) {
    Statement s = file.Prepare(sql);
    s.Bind(form);
    while (s.Step()) passages.push_back(static_cast<uint64_t>(s.Int(0)));
    return s.status();
  };
  LECTERN_RETURN_IF_ERROR(add("SELECT doc FROM temp.english_places WHERE term=?", word.english));
  for (const std::string& form : word.plain) {
    LECTERN_RETURN_IF_ERROR(add("SELECT doc FROM temp.plain_places WHERE term=?", form));
  }
  std::ranges::sort(passages);
  passages.erase(std::unique(passages.begin(), passages.end()), passages.end());
  return passages;
}

// Calls `take` with each text that has some of the passages, and with these.
void ForEachText(const Collection::Texts& texts, std::span<const uint64_t> passages,
                 const std::function<void(uint32_t, std::span<const uint64_t>)>& take) {
  size_t at = 0;
  for (size_t begin = 0; begin < passages.size();) {
    // Texts that lie before the passage are passed over by a search that doubles its steps.
    size_t step = 1;
    const auto ends_before = [&](size_t i) {
      return texts[i].first_passage + texts[i].num_passages <= passages[begin];
    };
    while (at + step < texts.size() && ends_before(at + step)) at += step, step *= 2;
    while (at < texts.size() && ends_before(at)) ++at;
    if (at == texts.size()) return;
    const uint64_t end_of_text = texts[at].first_passage + texts[at].num_passages;
    size_t end = begin;
    while (end < passages.size() && passages[end] < end_of_text) ++end;
    if (passages[begin] >= texts[at].first_passage) {
      take(static_cast<uint32_t>(at), passages.subspan(begin, end - begin));
    }
    begin = end;
  }
}

// A word with where it is and its weight among passages.
struct FoundWord {
  std::vector<uint64_t> passages;
  double idf = 0;
};

// Adds to a text's score those of its two best passages.
Status LookAtPassages(const Collection::Impl& file, const CollectedText& text,
                      std::span<const FoundWord> words, double mean_length, TextScore& score) {
  Statement s = file.Prepare("SELECT lengths, passages FROM texts WHERE member=?");
  s.Bind(text.id);
  std::vector<uint16_t> lengths;
  std::vector<Passage> passages;
  if (!s.Step() || !ReadValues(s.Bytes(0), lengths) || !ReadValues(s.Bytes(1), passages) ||
      lengths.size() != text.num_passages || passages.size() != text.num_passages) {
    LECTERN_RETURN_IF_ERROR(s.status());
    return file.Corrupt("the passages of \"" + text.name + "\" are not those of its text");
  }
  std::vector<std::vector<uint32_t>> below(passages.size());  // passages below each heading
  for (uint32_t i = 0; i < passages.size(); ++i) {
    const uint32_t heading = passages[i].heading;
    if (heading > i) return file.Corrupt("a heading of \"" + text.name + "\" lies behind its text");
    if (heading > 0) below[heading - 1].push_back(i);
  }
  ScoreSum sum(lengths, mean_length);
  for (const FoundWord& word : words) {
    Postings postings;
    const auto first = std::ranges::lower_bound(word.passages, text.first_passage);
    std::vector<uint32_t> headings;
    for (auto at = first; at != word.passages.end(); ++at) {
      const uint64_t passage = *at - text.first_passage;
      if (passage >= passages.size()) break;
      postings.passages.emplace_back(static_cast<uint32_t>(passage), 1);
      headings.push_back(static_cast<uint32_t>(passage));
    }
    while (!headings.empty()) {  // headings below headings have others below them
      const uint32_t heading = headings.back();
      headings.pop_back();
      for (const uint32_t passage : below[heading]) {
        postings.headings.push_back(passage);
        headings.push_back(passage);
      }
    }
    std::ranges::sort(postings.headings);
    sum.Add(postings, word.idf);
  }
  const WordScores scores = std::move(sum).Take();
  for (size_t i = 0; i < passages.size(); ++i) {
    const float value = scores.bm25[i] + scores.covered[i] + scores.around[i];
    score.second = std::max(score.second, std::min(score.best, value));
    score.best = std::max(score.best, value);
  }
  return {};
}

// Scores the texts of an open collection in the transaction that runs.
Result<std::vector<TextScore>> ScoreTexts(const Collection::Impl& file, std::string_view question,
                                          size_t most) {
  const Collection::Texts& texts = *file.texts;
  uint64_t num_passages = 0, num_words = 0;
  for (const CollectedText& text : texts) {
    num_passages += text.num_passages, num_words += text.num_words;
  }
  const double mean_words = std::max(
      1.0, static_cast<double>(num_words) / std::max(1.0, static_cast<double>(texts.size())));
  const double mean_length = std::max(
      1.0, static_cast<double>(num_words) / std::max(1.0, static_cast<double>(num_passages)));
  LECTERN_ASSIGN(const std::vector<AskedWord> asked, WordsOf(file, question));
  std::vector<FoundWord> words;
  std::vector<double> wholes(texts.size());
  double total = 0;
  for (const AskedWord& word : asked) {
    FoundWord& found = words.emplace_back();
    LECTERN_ASSIGN(found.passages, PassagesWith(file, word));
    found.idf = InverseDocumentFrequency(num_passages, found.passages.size());
    total += found.idf;
    size_t num_texts = 0;
    ForEachText(texts, found.passages, [&](uint32_t, auto) { ++num_texts; });
    const double idf = InverseDocumentFrequency(texts.size(), num_texts);
    ForEachText(texts, found.passages, [&](uint32_t text, std::span<const uint64_t> in_text) {
      wholes[text] += GroupBm25(idf, static_cast<double>(in_text.size()),
                                static_cast<double>(texts[text].num_words), mean_words);
    });
  }
  std::vector<TextScore> scores;
  for (uint32_t i = 0; i < texts.size(); ++i) {
    if (wholes[i] > 0) scores.push_back({i, static_cast<float>(wholes[i] / total), 0, 0});
  }
  std::ranges::stable_sort(scores, std::greater(), &TextScore::whole);
  for (size_t i = 0; i < std::min(most, scores.size()); ++i) {
    LECTERN_RETURN_IF_ERROR(
        LookAtPassages(file, texts[scores[i].text], words, mean_length, scores[i]));
  }
  return scores;
}

// Whether the words of a phrase follow one another in a passage, in the forms of its text.
Result<bool> HasPhrase(WordTokenizer& tokenizer, std::string_view passage,
                       std::span<const std::string> phrase) {
  std::vector<std::string> words;
  LECTERN_RETURN_IF_ERROR(
      tokenizer.ForEachWord(passage, [&](const auto& word) { words.emplace_back(word.form); }));
  return std::search(words.begin(), words.end(), phrase.begin(), phrase.end()) != words.end();
}

// The most texts that are read to look for a phrase. Each takes about 0.1 ms.
constexpr size_t kMostRead = 2000;

// Keeps of each text the passages in which the words stand together, as they were given; changes
// nothing where there are none in any text, or too many texts to read. Numbers in `passages` are
// those of passages among all.
Status KeepPhrases(const Collection::Impl& file, std::string_view phrase,
                   std::vector<uint64_t>& passages) {
  const Collection::Texts& texts = *file.texts;
  size_t num_texts = 0;
  ForEachText(texts, passages, [&](uint32_t, auto) { ++num_texts; });
  std::vector<std::string> english, plain;
  LECTERN_RETURN_IF_ERROR(file.english->ForEachWord(
      phrase, [&](const auto& word) { english.emplace_back(word.form); }));
  LECTERN_RETURN_IF_ERROR(
      file.plain->ForEachWord(phrase, [&](const auto& word) { plain.emplace_back(word.form); }));
  if (num_texts > kMostRead || english.size() < 2) return {};
  std::vector<uint64_t> kept;
  Status status;
  ForEachText(texts, passages, [&](uint32_t number, std::span<const uint64_t> in_text) {
    if (!status.ok()) return;
    Statement s = file.Prepare(
        "SELECT passages, text, is_english FROM texts JOIN members ON id=member WHERE member=?");
    s.Bind(texts[number].id);
    std::vector<Passage> own;
    if (!s.Step() || !ReadValues(s.Bytes(0), own)) {
      status = s.status();
      return;
    }
    const std::string_view text = s.Bytes(1);
    const bool is_english = s.Int(2) != 0;
    for (const uint64_t passage : in_text) {
      const uint64_t i = passage - texts[number].first_passage;
      if (i >= own.size() || own[i].end > text.size() || own[i].begin > own[i].end) continue;
      const auto has = HasPhrase(is_english ? *file.english : *file.plain,
                                 text.substr(own[i].begin, own[i].end - own[i].begin),
                                 is_english ? english : plain);
      if (!has.ok()) status = has.status();
      if (has.ok() && *has) kept.push_back(passage);
    }
  });
  LECTERN_RETURN_IF_ERROR(status);
  if (!kept.empty()) passages = std::move(kept);
  return {};
}

}  // namespace

Result<Collection::Scores> Collection::Score(std::string_view question, size_t most) try {
  const std::lock_guard lock(impl_->mutex);
  const auto score = [&]() -> Result<std::vector<TextScore>> {
    Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kRead);
    LECTERN_RETURN_IF_ERROR(transaction.begun());
    LECTERN_RETURN_IF_ERROR(impl_->ReadTexts());
    return ScoreTexts(*impl_, question, most);
  };
  auto scores = score();
  if (!scores.ok()) return impl_->Told(std::move(scores).status());
  return Scores{impl_->texts, std::move(scores).value()};
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "searching a collection: out of memory");
}

Result<Collection::Mentions> Collection::FindMentions(std::string_view words) try {
  const std::lock_guard lock(impl_->mutex);
  const auto find = [&]() -> Result<std::vector<Mention>> {
    Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kRead);
    LECTERN_RETURN_IF_ERROR(transaction.begun());
    LECTERN_RETURN_IF_ERROR(impl_->ReadTexts());
    LECTERN_ASSIGN(const std::vector<AskedWord> asked, WordsOf(*impl_, words));
    std::optional<std::vector<uint64_t>> common;
    for (const AskedWord& word : asked) {
      LECTERN_ASSIGN(std::vector<uint64_t> passages, PassagesWith(*impl_, word));
      if (!common) {
        common = std::move(passages);
        continue;
      }
      std::vector<uint64_t> both;
      std::ranges::set_intersection(*common, passages, std::back_inserter(both));
      common = std::move(both);
    }
    std::vector<Mention> mentions;
    if (!common) return mentions;
    LECTERN_RETURN_IF_ERROR(KeepPhrases(*impl_, words, *common));
    ForEachText(*impl_->texts, *common, [&](uint32_t text, std::span<const uint64_t> in_text) {
      const uint64_t first = in_text.front() - (*impl_->texts)[text].first_passage;
      mentions.push_back(
          {text, static_cast<uint32_t>(in_text.size()), static_cast<uint32_t>(first)});
    });
    std::ranges::sort(mentions, [&](const Mention& a, const Mention& b) {
      if (a.num_passages != b.num_passages) return a.num_passages > b.num_passages;
      return (*impl_->texts)[a.text].name < (*impl_->texts)[b.text].name;
    });
    return mentions;
  };
  auto mentions = find();
  if (!mentions.ok()) return impl_->Told(std::move(mentions).status());
  return Mentions{impl_->texts, std::move(mentions).value()};
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "searching a collection: out of memory");
}

}  // namespace lectern
