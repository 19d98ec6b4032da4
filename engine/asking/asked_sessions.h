// Puts one question to several documents and chooses the best answer.
#ifndef LECTERN_ENGINE_ASKING_ASKED_SESSIONS_H_
#define LECTERN_ENGINE_ASKING_ASKED_SESSIONS_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/asking/route.h"
#include "engine/asking/session.h"
#include "engine/requests/requests.h"
#include "kernels/function_ref.h"
#include "store/status.h"

namespace lectern {

// The turns of a session whose questions go to other sessions. One thread at a time.
class SharedConversation {
 public:
  // `open_ms`: time in ms that opening the session took, for the first answer's timings.
  explicit SharedConversation(double open_ms) : open_ms_(open_ms) {}

  const ChatHistory& history() const { return history_; }
  std::string_view last_question() const {
    return history_.turns.empty() ? std::string_view() : history_.turns.back().question;
  }
  // Returns the questions to which that for a value of an object may refer: that of the turn
  // before, and the whole question, unless the value is asked just that.
  std::string BeforeValue(std::string_view value_question, std::string_view question) const;
  // Takes over the turns of `options` before the first question, lets `ask` answer, and adds the
  // turn; after an error the conversation stands where it stood. Sets the times of opening and in
  // all. kInvalidArgument: an option is out of its range (param: the option), or turns come with a
  // later question (param "turns"), both before `ask` is called; codes of `ask`; kOutOfMemory.
  Result<Answer> Ask(std::string_view question, const AskOptions& options,
                     FunctionRef<Result<Answer>()> ask);

 private:
  const double open_ms_;
  ChatHistory history_;
  bool has_begun_ = false;
};

// The answer of one of the documents.
struct AskedSession {
  Answer answer;
  double probability = 0;  // by words, that the answer stands in this document; set by the caller
  // Mean over the answer's tokens of the natural logarithm of their probability; 0 without tokens.
  // It chooses nothing: wrong answers are as sure of their tokens as right ones.
  double logprob = 0;
  std::vector<std::function<void()>> shown;  // calls of the user's functions that were held back
};

// Asks a session that has answered nothing before, with the conversation so far as its history.
// `max_evidence`: the most passages to find, in place of AskOptions::max_evidence. `shows`: text,
// tokens and warnings go to the functions of `options` at once; else the calls wait in `shown`,
// which borrows `options`. Codes of Session::Ask.
Result<AskedSession> AskForOne(Session& session, std::string_view question,
                               const ChatHistory& history, const AskOptions& options,
                               uint32_t max_evidence, bool shows);

// The highest Evidence::score of an answer's passages; 0: it has none.
double SupportOf(const Answer& answer);
// The index of the best of the answers, of which there is at least one: the largest product of the
// probability by words and of what the answer tells about its document (AnswerChoice). Refusals and
// answers without evidence stand behind all others.
size_t ChooseAnswer(std::span<const AskedSession* const> asked);

// Decides after each answer whether another document is asked: words rank the documents, and an
// answer makes it likelier or less likely that its document has what the question is about, by the
// score of its best passage and, where the model has one, by the probability of its own refusal.
class AnswerChoice {
 public:
  // Most documents of which one question is asked.
  static constexpr size_t kMostAsked = 8;

  // `ranked`: the likeliest by words first; borrowed.
  explicit AnswerChoice(std::span<const RankedPart> ranked) : ranked_(ranked) {}
  // Whether words alone give the first document a probability of 0.9, so that no other one is asked
  // whatever it answers.
  bool is_sure() const { return !ranked_.empty() && ranked_.front().probability >= kSure; }
  // Whether the next document is to be asked: as long as its answer, with all support that there
  // can be, would go before the best one so far; kMostAsked at most.
  bool WantsMore() const;
  // The answer of the next document.
  void Add(const Answer& answer);

 private:
  static constexpr double kSure = 0.9;
  const std::span<const RankedPart> ranked_;
  size_t num_asked_ = 0;
  double most_factor_ = 0;  // by which an answer of this model can change a probability
  double best_ = 0;  // weight of the best answer that has evidence and is no refusal; 0: none is
};

// Adds the bytes and times that another answer took to those of the answer that was chosen.
void AddCosts(const Answer& other, Answer& answer);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_ASKED_SESSIONS_H_
