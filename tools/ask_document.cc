// ask-document: answers questions about an indexed document, one from the command line, all of a
// file, or as a conversation over stdin. Answers go to stdout as they are decoded, then the
// passages that they rest on and what was read for them. Questions may also go to a collection of
// documents. With --cite it finds the passages for a text that is given, and with --mentions the
// documents that have some words, both without a model.
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/constraint/json_schema.h"
#include "engine/lectern.h"
#include "engine/requests/options.h"
#include "tools/answer_text.h"
#include "tools/command_line.h"
#include "tools/default_reader.h"
#include "tools/document_argument.h"
#include "tools/in_order.h"
#include "tools/index_collection.h"
#include "tools/input_file.h"
#include "tools/interrupts.h"
#include "tools/option_flags.h"
#include "tools/progress.h"
#include "tools/questions.h"
#include "tools/ranks.h"
#include "tools/system_start.h"
#include "tools/terminal.h"

namespace lectern::tools {
namespace {

constexpr char kTool[] = "ask-document";
constexpr uint64_t kMostMentions = 100;  // documents that --mentions lists

// The foot of --help.
constexpr char kExamples[] = R"(
Without QUESTION it holds a conversation: one question per line; /new begins another conversation,
Ctrl-D ends.

Examples:
  ask-document "Who pays for repairs?"                    the only document of the store
  ask-document --document contract.txt --exact "Who pays for repairs?"
  ask-document --document contract.txt --questions questions.jsonl --json
  ask-document --json-schema lease.schema.json "Extract the terms of the lease."
  ask-document --cite "The tenant pays." --question "Who pays for repairs?"
  ask-document --collection docs "Who pays for repairs?"  all documents of a collection
  ask-document --collection docs --mentions "repairs"     those that have the word

Exit status: 0 ok, 1 failure, 2 usage, 3 not found, 4 model mismatch, 5 disk or memory,
6 corrupt store, 130 Ctrl-C, 143 SIGTERM.)";

const std::map<std::string, lectern_offset_unit> kOffsetUnits = {
    {"utf8", LECTERN_OFFSET_UTF8},
    {"utf16", LECTERN_OFFSET_UTF16},
    {"codepoint", LECTERN_OFFSET_CODEPOINT}};

// Everything that the command line says. The question is optional because none means a
// conversation, while an empty one is an error.
struct AskFlags {
  EngineFlags engine;
  std::string document, questions;
  size_t parallel = 16;
  std::optional<std::string> collection, question, cited, cited_question, mentioned;
  bool exact = false;
  std::string offset_unit = "utf8";
  std::optional<std::string> schema_file;
  bool is_json_answer = false;
  std::string json_schema;  // text of the schema, read from its file
  GivenAskOptions options{AskOptionRows()};
};

// Adds the tool's flags, whose values go to `flags`; it must outlive `app`.
void AddFlags(CommandLine& app, AskFlags& flags) {
  AddStoreFlags(app, flags.engine);
  AddModelFlags(app, flags.engine);
  AddDeviceFlags(app, flags.engine);
  const Option document = app.AddOption(
      "--document", flags.document,
      "Name or id of the document, or path of its file (default: the only one in the store)");
  document.TypeName("NAME");
  const Option collection = app.AddOption(
      "--collection", flags.collection,
      "Ask the documents of a collection (index-document --collection; all: every document of the "
      "store). A document that is not indexed yet is indexed when it is first asked");
  collection.TypeName("NAME").Excludes(document);
  const std::map<std::string, Option> options = AddOptionFlags(app, flags.options);
  app.AddFlag("--exact", flags.exact,
              "Read the whole document for every token, as models usually do: slower")
      .Excludes(options.at("kv_budget"));
  app.AddOption("--offset-unit", flags.offset_unit,
                "Unit of the passages' begin and end in --json: utf8 (bytes), utf16, codepoint "
                "(default: utf8)")
      .TypeName("U")
      .Check(OneOf(kOffsetUnits));
  const Option schema = app.AddOption(
      "--json-schema", flags.schema_file,
      "Answer in JSON that fits the JSON schema in FILE (-: stdin): values of the document in the "
      "schema's form");
  schema.TypeName("FILE");
  app.AddFlag("--json-answer", flags.is_json_answer, "Answer with a JSON object of any form")
      .Excludes(schema);
  const Option questions = app.AddOption(
      "--questions", flags.questions,
      "Ask every question of a file that has one on each line: as it is, or as {\"question\": "
      "\"…\"}, with \"answer\": \"…\" if the expected one is to be printed");
  questions.TypeName("FILE");
  app.AddOption("--parallel", flags.parallel,
                "With --questions: answer up to N questions of a document at the same time, which "
                "takes less time because they share the reading of the model; 1 to 64, as far as "
                "--max-ram allows. Answers are the same (default: 16)")
      .TypeName("N")
      .Needs(questions)
      .Check(NumberBetween(1, 64));
  const Option cite = app.AddOption("--cite", flags.cited,
                                    "Find the passages that support TEXT, such as another "
                                    "program's answer, sentence by sentence; "
                                    "no model is used. -: read it from stdin");
  cite.TypeName("TEXT").Excludes(questions).Excludes(collection);
  const Option mentions = app.AddOption(
      "--mentions", flags.mentioned,
      "With --collection: list the documents with a passage that has all of the WORDS; no model is "
      "used");
  mentions.TypeName("WORDS").Needs(collection).Excludes(questions);
  app.AddOption("--question", flags.cited_question,
                "With --cite: the question that TEXT answers; it makes the passages surer")
      .TypeName("Q")
      .Needs(cite);
  app.AddOption("QUESTION", flags.question, "The question (default: hold a conversation)")
      .TypeName("")
      .Excludes(questions)
      .Excludes(cite)
      .Excludes(mentions);
}

// Asks and prints in each of the three ways of the command line. Every way returns the tool's exit
// status.
class AskDocument {
 public:
  AskDocument(const AskFlags& flags, Interrupts& interrupts, api::Engine engine)
      : flags_(flags), interrupts_(interrupts), engine_(std::move(engine)) {}

  // The one question of the command line.
  int AskOne(std::string_view question) {
    auto session = Open();
    if (!session.ok()) return Fail(session.error());
    return output_.Finish(kTool, Ask(*session, {0, std::string(question), std::nullopt}));
  }

  // Asks every question in a conversation of its own, so that none knows the one before. A question
  // that fails does not stop the others; the status of the first failure is returned. A signal, or
  // a stdout that is gone, does stop.
  int AskAll(const std::vector<Question>& questions) {
    // Kept: sessions share what is open, verified, and on the device.
    const auto document = Open();
    if (!document.ok()) return Fail(document.error());
    // Questions to a collection index documents on the way, and ranks answer one at a time.
    const bool is_together = flags_.parallel > 1 && !flags_.collection && !HasRanks();
    return output_.Finish(kTool, is_together ? AskTogether(questions) : AskInTurn(questions));
  }

  // Finds passages for a text; "-" is stdin.
  int Cite(std::string text) {
    if (text == "-") {
      text.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    }
    api::CiteOptions options;
    if (flags_.cited_question) options.question = *flags_.cited_question;
    options.max_evidence = Options([](const std::string&) {}).max_evidence;
    options.unit = kOffsetUnits.at(flags_.offset_unit);
    auto cited = engine_.Cite(flags_.document, text, options);
    if (!cited.ok()) return Fail(cited.error());
    Print(flags_.engine.json() ? cited->json + "\n" : CitedTextLines(text, *cited));
    return output_.Finish(kTool, 0);
  }

  // Lists the documents of the collection that have words.
  int Mentions(std::string_view words) {
    auto found = engine_.FindMentions(*flags_.collection, words, kMostMentions,
                                      kOffsetUnits.at(flags_.offset_unit));
    if (!found.ok()) return Fail(found.error());
    Print(flags_.engine.json() ? found->json + "\n" : MentionsText(*found));
    return output_.Finish(kTool, 0);
  }

  // Asks each line of stdin in one conversation, until stdin ends or stdout is gone. Blank lines
  // are skipped; /new begins another conversation. A failure becomes the exit status (the first
  // one's) only where questions come from a pipe: on a terminal the user has seen it and gone on.
  // Ctrl-C ends the answer, SIGTERM the tool.
  int Converse() {
    auto session = Open();
    if (!session.ok()) return Fail(session.error());
    const bool is_terminal = CanConfirm();
    int first_failure = 0;
    for (std::string line; !is_output_gone_ && ReadLine(line);) {
      if (line.find_first_not_of(" \t\r") == line.npos) continue;
      if (line == "/new") {
        session = Open();
        if (!session.ok()) return Fail(session.error());
        continue;
      }
      const int status = Ask(*session, {0, line, std::nullopt});
      if (interrupts_.exit_status() == 143) return 143;
      if (first_failure == 0 && !interrupts_.requested()) first_failure = status;
    }
    return output_.Finish(kTool, is_terminal ? 0 : first_failure);
  }

 private:
  // One question after the other. Answers are streamed.
  int AskInTurn(const std::vector<Question>& questions) {
    int first_failure = 0;
    for (const Question& question : questions) {
      auto session = Open();
      if (!session.ok()) return Fail(session.error());
      const int status = Ask(*session, question);
      if (first_failure == 0) first_failure = status;
      if (interrupts_.requested() || is_output_gone_) break;
    }
    return first_failure;
  }

  // Several questions at a time. Each answer is printed whole, with its notes in front, when those
  // before it are.
  int AskTogether(const std::vector<Question>& questions) {
    struct Asked {
      api::Result<std::string> text = std::string();
      std::vector<std::string> notes;
    };
    std::vector<Asked> asked(questions.size());
    std::stop_source stop;
    const Interrupts::Scope scope(interrupts_, [&stop] { stop.request_stop(); });
    int first_failure = 0;
    const auto ask = [&](size_t i, bool is_alone) {
      Asked& own = asked[i];
      own.notes.clear();
      api::AskOptions options =
          Options([&own](const std::string& note) { own.notes.push_back(note); });
      options.stop = stop.get_token();
      options.on_text = [this](std::string_view) { return !interrupts_.requested(); };
      options.on_part = [this](uint64_t, uint64_t) { return !interrupts_.requested(); };
      own.text = AnswerText(questions[i], options);
      return own.text.ok() || own.text.error().code != LECTERN_OUT_OF_MEMORY || is_alone;
    };
    const auto give = [&](size_t i) {
      Asked own = std::exchange(asked[i], {});
      PrintQuestion(questions[i]);
      for (const std::string& note : own.notes) PrintNote(kTool, note);
      if (own.text.ok()) Print(*own.text);
      const int status =
          own.text.ok() ? interrupts_.exit_status() : FailQuestion(questions[i], own.text.error());
      if (first_failure == 0) first_failure = status;
      return !interrupts_.requested() && !is_output_gone_;
    };
    RunInOrder(questions.size(), flags_.parallel, ask, give);
    return first_failure;
  }

  // Everything that is printed of an answer in a conversation of its own. Any thread.
  api::Result<std::string> AnswerText(const Question& question, const api::AskOptions& options) {
    auto session = engine_.Open(flags_.document);
    if (!session.ok()) return session.error();
    auto answer = session->Ask(question.text, options);
    if (!answer.ok()) return answer.error();
    if (flags_.engine.json()) return JsonLine(*answer, question);
    return std::string(answer->text()) + Rest(*answer, question);
  }

  // A new conversation about the document, or about the collection.
  api::Result<api::Session> Open() {
    if (flags_.collection) return engine_.OpenCollection(*flags_.collection);
    auto session = engine_.Open(flags_.document);
    if (session.ok()) NameBundledModel();
    return session;
  }

  // Tells once, where nobody chose a model and the document was indexed with the bundled one, whose
  // answers these are: a user would take them for the best that Lectern can do.
  void NameBundledModel() {
    if (std::exchange(is_model_named_, true) || flags_.engine.json()) return;
    if (!flags_.engine.model.empty()) return;
    auto found = engine_.Find(flags_.document);
    auto reader = BundledReader();
    if (!found.ok() || !reader.ok() || found->model != *reader) return;
    PrintNote(kTool, "answers are those of " + std::string(kBundledModel) +
                         "; index the document with --model to use another");
  }

  int Fail(const api::Error& error) const { return PrintError(kTool, error, flags_.engine.style); }

  // Reads one question, after a prompt on a terminal. False: stdin has ended. Lines of Windows
  // files lose their CR.
  static bool ReadLine(std::string& line) {
    if (CanConfirm()) std::cerr << "> " << std::flush;
    if (std::getline(std::cin, line)) {
      if (line.ends_with('\r')) line.pop_back();
      return true;
    }
    if (CanConfirm()) std::cerr << '\n';
    return false;
  }

  // Asks one question, prints the answer or the error, and returns the exit status of this
  // question.
  int Ask(api::Session& session, const Question& question) {
    PrintQuestion(question);
    const Interrupts::Scope scope(interrupts_, [&session] { session.Cancel(); });
    auto answer = session.Ask(question.text,
                              Options([](const std::string& note) { PrintNote(kTool, note); }));
    progress_.Clear();
    if (!answer.ok()) return FailQuestion(question, answer.error());
    if (flags_.engine.json()) {
      auto line = JsonLine(*answer, question);
      if (!line.ok()) return FailQuestion(question, line.error());
      Print(*line);
    } else {
      Print(Rest(*answer, question));
    }
    return interrupts_.exit_status();
  }

  // Says which question of a file comes next.
  void PrintQuestion(const Question& question) {
    if (question.line > 0 && !flags_.engine.json()) Print("? " + OnOneLine(question.text) + "\n");
  }

  // Prints the error, with file and line for a question from a file. After a signal, its status
  // counts and not the cancellation's that follows from it.
  int FailQuestion(const Question& question, api::Error error) const {
    if (question.line > 0) {
      const std::string where = flags_.questions + ":" + std::to_string(question.line) + ": ";
      error.cli_message = where + CliMessage(error);
    }
    const int status = Fail(error);
    return interrupts_.requested() ? interrupts_.exit_status() : status;
  }

  // The options of one question. With --json nothing is streamed: the whole answer is one object.
  // Returning false from on_text ends the answer, where stdout is gone or a signal came. `tell`
  // gets the warnings that come before the answer; the receipt says them once more.
  api::AskOptions Options(std::function<void(const std::string& note)> tell) {
    api::AskOptions options;
    flags_.options.PutInto(options);
    if (flags_.exact) options.kv_budget = 1;
    options.json_schema = flags_.json_schema;
    // With a fallback a question that draws on the whole document takes long.
    options.on_warning = [this, fallback = options.fallback, tell = std::move(tell)](
                             std::string_view warning, std::string_view note) {
      const bool is_long = warning == "whole_document" && fallback == LECTERN_FALLBACK_EXACT;
      const bool comes_first = warning == "low_budget" || warning == "schema_not_kept" || is_long;
      if (comes_first && !flags_.engine.json()) tell(std::string(note));
    };
    options.on_index = [this](const api::CollectionProgress& progress) {
      if (progress.document != indexed_) {
        indexed_ = progress.document;
        progress_.Clear();
        PrintNote(kTool, indexed_ + " is indexed for its first question");
      }
      progress_.Show(progress.progress);
      return !interrupts_.requested();
    };
    options.on_part = [this](uint64_t done, uint64_t count) {
      progress_.Show({.stage = "parts",
                      .done = done,
                      .total = count,
                      .tokens_per_second = 0,
                      .eta_seconds = -1});
      return !interrupts_.requested();
    };
    options.on_text = [this](std::string_view piece) {
      progress_.Clear();
      return (flags_.engine.json() || Print(piece)) && !interrupts_.requested();
    };
    return options;
  }

  // One line of JSON: the answer as the API has it, with the question and the expected answer where
  // they come from a file.
  api::Result<std::string> JsonLine(const api::Answer& answer, const Question& question) const {
    auto json = answer.Json(kOffsetUnits.at(flags_.offset_unit));
    if (json.ok() && question.line > 0) json = api::SetString(*json, "question", question.text);
    if (json.ok() && question.expected) {
      json = api::SetString(*json, "expected", *question.expected);
    }
    if (!json.ok()) return json.error();
    return WithRanks(*json) + "\n";
  }

  // The things that follow an answer's text. A cancelled answer gets no passages: they would be
  // those of its beginning.
  static std::string Rest(const api::Answer& answer, const Question& question) {
    if (answer.finish_reason() == "cancelled") return "\n";
    std::string text = "\n\n" + PassagesText(answer);
    if (question.expected) text += "expected: " + OnOneLine(*question.expected) + "\n";
    text += ReceiptText(answer);
    if (question.line > 0) text += "\n";
    return text;
  }

  // Remembers that stdout is gone, so that the loops over questions end.
  bool Print(std::string_view text) {
    is_output_gone_ = !output_.Print(text);
    return !is_output_gone_;
  }

  const AskFlags& flags_;
  Interrupts& interrupts_;
  api::Engine engine_;
  Output output_;
  ProgressDisplay progress_{ProgressStyle::kAuto};  // of documents indexed for a question
  std::string indexed_;                             // the last of these
  bool is_output_gone_ = false;
  bool is_model_named_ = false;
};

// Names a model for a collection of which nothing is indexed, where the user named none: the one
// that index-document takes.
api::Result<api::Done> ChooseReader(AskFlags& flags) {
  auto reader = DefaultReader();
  if (!reader.ok()) return reader.error();
  flags.engine.model = reader->model;
  if (flags.engine.adapter.empty()) flags.engine.adapter = reader->adapter;
  if (!flags.engine.json()) {
    PrintNote(kTool, "no --model is given: this uses " +
                         std::string(reader->is_bundled() ? kBundledModel : kReleasedModel));
  }
  return api::Done{};
}

// Everything after the command line was understood. Questions are read before the engine is opened:
// a mistake in their file costs no loading of a model.
int Run(AskFlags flags) {
  const auto fail = [&](const api::Error& error) {
    return PrintError(kTool, error, flags.engine.style);
  };
  if (flags.question && flags.question->empty()) {
    return fail({LECTERN_INVALID_ARGUMENT, "the question is empty", "question"});
  }
  Interrupts interrupts;
  std::vector<Question> questions;
  if (!flags.questions.empty()) {
    auto read = ReadQuestions(flags.questions);
    if (!read.ok()) return fail(read.error());
    questions = std::move(*read);
  }
  if (flags.is_json_answer) flags.json_schema = kAnyObjectSchema;
  if (flags.schema_file) {
    auto schema = ReadInputFile(*flags.schema_file);
    if (!schema.ok()) return fail(schema.error());
    flags.json_schema = std::move(*schema);
  }
  auto engine = CreateEngine(flags.engine);
  if (!engine.ok()) return fail(engine.error());
  const bool may_index = flags.collection && !flags.mentioned;
  if (may_index && flags.engine.model.empty()) {
    auto has = HasIndexedDocument(*engine, *flags.collection);
    if (!has.ok()) return fail(has.error());
    if (!*has) {
      if (const auto chosen = ChooseReader(flags); !chosen.ok()) return fail(chosen.error());
      engine = CreateEngine(flags.engine);
      if (!engine.ok()) return fail(engine.error());
    }
  }
  auto document = FindArgument(*engine, flags.document);
  if (!document.ok()) return fail(document.error());
  if (!document->note.empty()) PrintNote(kTool, document->note);
  flags.document = document->document;
  AskDocument ask(flags, interrupts, std::move(*engine));
  if (flags.cited) return ask.Cite(*flags.cited);
  if (flags.mentioned) return ask.Mentions(*flags.mentioned);
  if (!flags.questions.empty()) return ask.AskAll(questions);
  return flags.question ? ask.AskOne(*flags.question) : ask.Converse();
}

int Main(int argc, char** argv) {
  CommandLine app("Answers questions about an indexed document.", kTool, kExamples);
  AskFlags flags;
  AddFlags(app, flags);
  AddVersionFlag(app);
  if (const std::optional<int> status = ParseCommandLine(app, argc, argv)) return *status;
  auto engine_flags = WithEnvironment(flags.engine);
  if (!engine_flags.ok()) return PrintError(kTool, engine_flags.error(), flags.engine.style);
  flags.engine = *engine_flags;
  const RankOfJob rank(kTool, flags.engine);
  if (rank.exit_status()) return *rank.exit_status();
  return Run(flags);
}

}  // namespace
}  // namespace lectern::tools

int main(int argc, char** argv) {
  using namespace lectern::tools;
  SystemStart start(argc, argv);
  return RunTool(kTool, [&] { return Main(start.argc(), start.argv()); });
}
