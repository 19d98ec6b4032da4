// lectern-store: lists, shows, checks, changes and removes the documents and collections of a
// store, copies documents to and from single files, and repairs the store. Each command calls the
// engine and prints its result.
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "engine/lectern.h"
#include "engine/model/formats/path_text.h"
#include "engine/requests/options.h"
#include "tools/command_line.h"
#include "tools/document_argument.h"
#include "tools/interrupts.h"
#include "tools/option_flags.h"
#include "tools/quantities.h"
#include "tools/system_start.h"
#include "tools/terminal.h"

namespace lectern::tools {
namespace {

constexpr char kTool[] = "lectern-store";

// The foot of --help.
constexpr char kExamples[] = R"(
Examples:
  lectern-store list
  lectern-store show contract.txt
  lectern-store verify --full                 read and check every byte of every document
  lectern-store plan contract.txt --layer-budget pyramid
                                              read more of the first layers from now on
  lectern-store remove contract.txt
  lectern-store export contract.txt contract.lectern
  lectern-store import contract.lectern --name copy
  lectern-store recover                       rebuild a lost or damaged list of documents
  lectern-store collections                   list the collections
  lectern-store collection docs               list the documents of a collection
  lectern-store collection docs --add contract.txt
  lectern-store collection docs --remove a.txt

Exit status: 0 ok, 1 failure, 2 usage, 3 not found, 5 disk or memory, 6 damage found,
130 Ctrl-C, 143 SIGTERM.)";

// The flags of the tool and of all its commands; a run has one command, so that they can share
// fields.
struct StoreFlags {
  EngineFlags engine;
  std::string document, file, name;
  bool full = false, yes = false;
  std::string collection, added, removed, new_name;  // of `collection`
  std::vector<std::string> renamed;                  // a document's name and its new one
  bool deletes = false;
  GivenPlanOptions plan{PlanOptionRows()};
};

// The commands by name; they belong to the CommandLine.
struct Commands {
  CommandLine *list, *show, *verify, *plan, *remove, *gc, *recover, *seal, *export_document,
      *import_document, *collections, *collection;
};

// Adds the positional argument DOC.
void AddDocument(CommandLine& command, StoreFlags& flags, const char* help, bool is_required) {
  command.AddOption("DOC", flags.document, help).TypeName("").Required(is_required);
}

// Adds the flags of `collection`. At most one change is made in a run.
void AddCollectionFlags(CommandLine& command, StoreFlags& flags) {
  command.AddOption("NAME", flags.collection, "Name of the collection; all: every document")
      .TypeName("")
      .Required();
  const Option add = command.AddOption("--add", flags.added, "Add a document of the store");
  const Option remove = command.AddOption(
      "--remove", flags.removed, "Take out a document, by its name here or the path of its file");
  const Option rename_document = command.AddOption(
      "--rename-document", flags.renamed, "Give a document of the collection another name");
  const Option rename =
      command.AddOption("--rename", flags.new_name, "Give the collection another name");
  const Option deletes = command.AddFlag("--delete", flags.deletes,
                                         "Delete the collection; documents that were indexed stay");
  add.TypeName("DOC"), remove.TypeName("DOC"), rename.TypeName("NEW");
  rename_document.TypeName("DOC NEW");
  const Option changes[] = {add, remove, rename_document, rename, deletes};
  for (const Option& change : changes) {
    for (const Option* other = changes; other != &change; ++other) change.Excludes(*other);
  }
  command.AddFlag("--yes", flags.yes, "With --delete: do not ask for confirmation").Needs(deletes);
}

// Adds every command with its flags. The order is that of --help.
Commands AddCommands(CommandLine& app, StoreFlags& flags) {
  const Commands commands = {
      app.AddCommand("list", "List the documents, also those that are still being indexed"),
      app.AddCommand("show", "Show a document, its files and how a question reads it"),
      app.AddCommand("verify", "Check the files of a document, or of all, for damage"),
      app.AddCommand("plan", "Change how much of a document questions read, and of which layers"),
      app.AddCommand("remove",
                     "Delete a name of a document; its last name, or its id, deletes the document"),
      app.AddCommand("gc", "Delete files that no document uses any more"),
      app.AddCommand("recover",
                     "Rebuild the list of documents from their files, if it is lost or damaged"),
      app.AddCommand("seal",
                     "Make the store read-only, for example before copying it to read-only media"),
      app.AddCommand("export", "Write a document to a single file"),
      app.AddCommand("import", "Add a document from a file that export wrote"),
      app.AddCommand("collections", "List the collections"),
      app.AddCommand("collection", "List the documents of a collection, or change the collection")};
  AddDocument(*commands.show, flags, "Name or id of the document, or path of its file", true);
  AddDocument(*commands.verify, flags, "Name, id or path (default: all documents)", false);
  AddDocument(*commands.plan, flags, "Name or id of the document, or path of its file", true);
  AddDocument(*commands.remove, flags, "Name or id of the document, or path of its file", true);
  AddOptionFlags(*commands.plan, flags.plan);
  AddModelFlags(*commands.plan, flags.engine);  // which is asked what estimates are worth
  AddDocument(*commands.export_document, flags, "Name or id of the document, or path of its file",
              true);
  for (CommandLine* command : {commands.export_document, commands.import_document}) {
    command->AddOption("FILE", flags.file, "The file with the document").TypeName("").Required();
  }
  commands.import_document->AddOption("--name", flags.name,
                                      "Name of the document here (default: the name that it had)");
  commands.verify->AddFlag("--full", flags.full,
                           "Read and check every byte (default: headers and sizes only)");
  commands.remove->AddFlag("--yes", flags.yes, "Do not ask for confirmation");
  AddCollectionFlags(*commands.collection, flags);
  return commands;
}

// A document that is being indexed may have no name yet.
std::string NameOrId(const std::string& name, const std::string& id) {
  return name.empty() ? id : name;
}

// "25 % of its rows, by kv-compress", where not all are stored.
std::string KeptText(const api::Document& document) {
  if (document.retention.empty()) return "";
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.3g", 100 * document.keep);
  return std::string(percent) + " % of its rows, by " + document.retention;
}

// "exact", or "sparse, reading 10 %": how the document was prefilled (index-document --prefill).
std::string PrefillText(const api::Document& document) {
  if (document.prefill_budget >= 1) return "exact";
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.3g", 100 * document.prefill_budget);
  return std::string("sparse, reading ") + percent + " %";
}

// All names of a document, or, while it is being indexed, the name that it will have.
std::string NamesText(const api::Document& document) {
  if (document.names.empty()) return document.name;
  std::string text;
  for (const api::DocumentName& name : document.names) {
    text += (text.empty() ? "" : ", ") + name.name;
  }
  return text;
}

// Lines of `show`: each name, and under it the file that it came from, where that says more.
std::string NameLines(const api::Document& document) {
  if (document.names.empty()) return "\nname         " + document.name;
  std::string text;
  for (const api::DocumentName& name : document.names) {
    const bool has_path = !name.source.empty() && name.source != name.name;
    text += "\nname         " + name.name + (has_path ? "\nfrom         " + name.source : "");
  }
  return text;
}

// "71,231 tokens in 12 parts".
std::string TokensText(const api::Document& document) {
  return Grouped(document.tokens) + " tokens" +
         (document.num_parts > 0 ? " in " + Grouped(document.num_parts) + " parts" : "");
}

// A line per document: id, length, size, state, names, and how it differs from a usual one.
std::string ListText(const api::DocumentList& list) {
  std::string text;
  for (const api::Document& document : list.documents) {
    const std::string kept = KeptText(document);
    text += document.id + "  " + TokensText(document) + "  " + Bytes(document.bytes_on_disk) +
            "  " + document.state + "  " + NamesText(document) +
            (kept.empty() ? "" : "  (" + kept + ")") +
            (document.prefill_budget < 1 ? "  (" + PrefillText(document) + ")" : "") + "\n";
  }
  return text;
}

// The lines of `show` but for the plan, which may fail on its own.
std::string ShowText(const api::DocumentDetails& details) {
  const api::Document& document = details.document;
  std::string text =
      "document     " + document.id + NameLines(document) + "\nstate        " + document.state +
      "\ntokens       " + TokensText(document) + "\ntext         " + Bytes(document.text_bytes) +
      "\non disk      " + Bytes(document.bytes_on_disk) + "\nmodel        " + document.model +
      (document.weights.empty() ? "" : ", weights " + document.weights) + "\nfingerprint  " +
      document.fingerprint + "\ngeneration   " + std::to_string(document.generation) +
      "\nkept         " + (document.retention.empty() ? "all rows" : KeptText(document)) +
      "\nprefill      " + PrefillText(document) + "\n";
  for (const api::Shard& shard : details.shards) {
    text += "  " + shard.file + "  " + Bytes(shard.bytes) + "\n";
  }
  return text;
}

// A cell of the plan's table.
std::string Decimals(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "  %6.4f", number);
  return text;
}

// How the plan's budget was chosen, and what it costs: " (auto: predicted divergence 0.0071 nats a
// token, limit 0.01)". Empty: it was given, and the divergence was not measured.
std::string DivergenceText(const api::DocumentPlan& plan) {
  std::string text = plan.is_auto ? "auto" : "";
  char numbers[96];
  if (plan.divergence >= 0) {
    std::snprintf(numbers, sizeof numbers, "predicted divergence %.3g nats a token, limit %.3g",
                  plan.divergence, plan.max_divergence);
    text += (text.empty() ? "" : ": ") + std::string(numbers);
  }
  return text.empty() ? "" : " (" + text + ")";
}

// The plan of a document, which says how questions share their budget: the policies, then per layer
// its share of the budget, the shares of its kv heads where these do not compete, and the
// statistics that policies go by: the cosine, and the share that kv-compress would give the layer.
// A column whose numbers the document does not have is left out.
std::string PlanText(const api::DocumentPlan& plan) {
  char budget[32];
  std::snprintf(budget, sizeof budget, "%.4g", plan.kv_budget);
  std::string text = std::string("kv budget    ") + budget + DivergenceText(plan) +
                     "\nplan         " + plan.layer_budget + " over layers, " + plan.head_budget +
                     " over heads\nstatistics   " + (plan.stats.empty() ? "none" : plan.stats) +
                     "\n  layer   share" + (plan.cosine.empty() ? "" : "  cosine") +
                     (plan.competed.empty() ? "" : "  kv-compress") +
                     (plan.heads.empty() ? "" : "  heads") + "\n";
  const size_t heads = plan.heads.size() / plan.layers.size();
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    char layer[32];
    std::snprintf(layer, sizeof layer, "%7zu", i);
    text += layer + Decimals(plan.layers[i]);
    if (!plan.cosine.empty()) text += Decimals(plan.cosine[i]);
    if (!plan.competed.empty()) text += "     " + Decimals(plan.competed[i]);
    for (size_t h = i * heads; h < (i + 1) * heads; ++h) text += Decimals(plan.heads[h]);
    text += "\n";
  }
  return text;
}

// A line per damaged file, with the document that it belongs to.
std::string VerifyText(const api::DamageList& list) {
  if (list.damaged.empty()) return "no damage found\n";
  std::string text;
  for (const api::Damage& damage : list.damaged) {
    text += (damage.collection.empty() ? NameOrId(damage.name, damage.document)
                                       : "collection " + damage.collection) +
            ": " + damage.error.message + "\n";
  }
  return text;
}

// "1 document", "2 documents"; every noun here takes an s.
std::string Count(uint64_t number, const std::string& noun) {
  return Grouped(number) + " " + noun + (number == 1 ? "" : "s");
}

// A line per collection: how much it has, and its name.
std::string CollectionsText(const api::CollectionList& list) {
  std::string text;
  for (const api::Collection& one : list.collections) {
    text += Count(one.num_documents, "document") + ", " + Grouped(one.num_indexed) + " indexed  " +
            Bytes(one.text_bytes) + " of text  " + Bytes(one.bytes_on_disk) + " on disk  " +
            one.name + "\n";
  }
  return text;
}

// A line per document of a collection: its id, or that it has none yet, its size, name and file.
std::string CollectionText(const api::CollectionDocuments& list) {
  std::string text;
  for (const api::CollectionDocument& one : list.documents) {
    const bool has_path = PathOf(one.source).is_absolute() && one.source != one.name;
    std::string id = one.document.empty() ? "(not indexed)" : one.document;
    id.resize(32, ' ');
    text += id + "  " + Bytes(one.text_bytes) + "  " + one.name +
            (has_path ? "  from " + one.source : "") + "\n";
  }
  return text;
}

// The result of `gc`: what was deleted, and what was not and why.
std::string CollectedText(const api::Collected& collected) {
  std::string text = "removed " + Count(collected.generations, "document generation") + " and " +
                     Count(collected.files, "temporary file") + "\n";
  if (collected.in_use > 0) {
    text += "still being read: " + Count(collected.in_use, "generation") + "; run gc again later\n";
  }
  if (collected.unknown > 0) {
    text += "not in the catalog: " + Count(collected.unknown, "document") +
            "; lectern-store recover takes up what is whole\n";
  }
  return text;
}

// The result of `recover`: the documents that were taken up, and those that were refused with the
// reason.
std::string RecoveredText(const api::Recovered& recovered) {
  std::string text = recovered.replaced ? "the catalog was damaged and has been made anew\n" : "";
  for (const api::Document& document : recovered.documents) {
    text += "recovered " + NameOrId(document.name, document.id) + "\n";
  }
  for (const api::Refused& refused : recovered.refused) {
    text += "refused " + refused.directory + ": " + refused.error.message + "\n";
  }
  return text.empty() ? "nothing to recover\n" : text;
}

// The commands. Each prints its result and returns the exit status.
class Store {
 public:
  Store(const StoreFlags& flags, api::Engine engine) : flags_(flags), engine_(std::move(engine)) {}

  int List() {
    auto list = engine_.List();
    if (!list.ok()) return Fail(list.error());
    if (list->documents.empty() && !flags_.engine.json()) PrintNote(kTool, "no documents");
    return Print(list->json, ListText(*list));
  }

  int Show() {
    auto details = engine_.Show(flags_.document);
    if (!details.ok()) return Fail(details.error());
    // If a document is damaged, the rest is shown all the same.
    auto plan = engine_.ShowPlan(details->document.id);
    const std::string how =
        plan.ok() ? PlanText(*plan) : "plan         " + plan.error().message + "\n";
    return Print(details->json, ShowText(*details) + how);
  }

  // Damage is a result, printed on stdout; the exit status is that of the first damage.
  int Verify() {
    using Depth = api::Engine::Depth;
    auto list = engine_.Verify(flags_.document, flags_.full ? Depth::kEveryByte : Depth::kHeaders);
    if (!list.ok()) return Fail(list.error());
    const auto& damaged = list->damaged;
    const int status = damaged.empty() ? 0 : lectern_exit_status(damaged.front().error.code);
    return Print(list->json, VerifyText(*list), status);
  }

  // Writes a new generation of the document with the changed plan; its keys and values are the
  // same.
  int Plan() {
    auto details = engine_.Show(flags_.document);
    if (!details.ok()) return Fail(details.error());
    const api::Document& document = details->document;
    api::PlanChange change;
    flags_.plan.PutInto(change);
    auto changed = engine_.ChangePlan(document.id, change);
    if (!changed.ok()) return Fail(changed.error());
    return Print("{\"planned\":\"" + document.id + "\"}",
                 "changed the plan of " + NameOrId(document.name, document.id) + "\n");
  }

  // Removes a name or a document, after a confirmation. A document that is not indexed to the end
  // (NOT_READY) can be removed too. A "no" is status 1.
  int Remove() {
    if (!flags_.yes && !CanConfirm()) {
      return Fail({LECTERN_INVALID_ARGUMENT, "there is no terminal to ask on: give --yes", "yes"});
    }
    auto found = engine_.Find(flags_.document);
    if (!found.ok() && found.error().code != LECTERN_NOT_READY) return Fail(found.error());
    if (!flags_.yes && !Confirm(RemoveQuestion(found.ok() ? &*found : nullptr))) return 1;
    auto removed = engine_.Remove(flags_.document);
    if (!removed.ok()) return Fail(removed.error());
    const std::string what = removed->is_document_gone
                                 ? "removed " + flags_.document + "\n"
                                 : "removed the name " + flags_.document +
                                       "; the document stays, as it has " +
                                       (removed->left == 1 ? "another name" : "other names") + "\n";
    return Print(removed->json, what);
  }

  int Collect() {
    auto collected = engine_.Collect();
    if (!collected.ok()) return Fail(collected.error());
    return Print(collected->json, CollectedText(*collected));
  }

  // A document that was refused is damage found: it stays on disk and needs somebody's decision, so
  // that the status is not 0.
  int Recover() {
    auto recovered = engine_.Recover();
    if (!recovered.ok()) return Fail(recovered.error());
    const int status = recovered->refused.empty() ? 0 : lectern_exit_status(LECTERN_CORRUPT);
    return Print(recovered->json, RecoveredText(*recovered), status);
  }

  int Import() {
    auto imported = engine_.Import(flags_.file, flags_.name);
    if (!imported.ok()) return Fail(imported.error());
    const api::Document& document = imported->document;
    const std::string did = imported->existed ? "already there: " : "imported ";
    auto note = api::GetString(imported->json, "note");
    if (note.ok() && !flags_.engine.json()) PrintNote(kTool, *note);
    return Print(imported->json, did + NameOrId(document.name, document.id) + ", " +
                                     Grouped(document.tokens) + " tokens\n");
  }

  int Seal() {
    auto sealed = engine_.Seal();
    if (!sealed.ok()) return Fail(sealed.error());
    return Print("{\"sealed\":true}", "sealed; remove the file SEALED in the store to undo it\n");
  }

  int Export() {
    auto written = engine_.Export(flags_.document, flags_.file);
    if (!written.ok()) return Fail(written.error());
    return Print("{\"exported\":true}", "wrote " + flags_.file + "\n");
  }

  int Collections() {
    auto list = engine_.Collections();
    if (!list.ok()) return Fail(list.error());
    if (list->collections.empty() && !flags_.engine.json()) PrintNote(kTool, "no collections");
    return Print(list->json, CollectionsText(*list));
  }

  // Changes a collection, or lists its documents.
  int Collection() {
    const std::string& name = flags_.collection;
    if (!flags_.added.empty()) return AddTo(name);
    if (flags_.deletes) return Delete(name);
    if (!flags_.new_name.empty()) {
      return Changed(engine_.RenameCollection(name, flags_.new_name), "renamed", flags_.new_name);
    }
    auto list = engine_.DocumentsOf(name);
    if (!list.ok()) return Fail(list.error());
    if (!flags_.removed.empty()) {
      const std::string document = NameIn(*list, flags_.removed);
      return Changed(engine_.RemoveFromCollection(name, document), "removed", document);
    }
    if (flags_.renamed.empty()) return Print(list->json, CollectionText(*list));
    if (flags_.renamed.size() != 2) {
      return Fail({LECTERN_INVALID_ARGUMENT,
                   "--rename-document takes the name of a document and its new one",
                   "rename_document"});
    }
    const std::string document = NameIn(*list, flags_.renamed[0]);
    return Changed(engine_.RenameInCollection(name, document, flags_.renamed[1]), "renamed",
                   flags_.renamed[1]);
  }

 private:
  int AddTo(const std::string& name) {
    auto document = FindArgument(engine_, flags_.added);
    if (!document.ok()) return Fail(document.error());
    auto added = engine_.AddToCollection(name, document->document);
    if (!added.ok()) return Fail(added.error());
    const api::Added& one = added->added.front();
    const bool was_there = one.change == LECTERN_CHANGE_UNCHANGED;
    return Print(added->json, (was_there ? "already there: " : "added ") + one.name + "\n");
  }

  // Deletes a collection, after a confirmation. A "no" is status 1.
  int Delete(const std::string& name) {
    if (!flags_.yes && !CanConfirm()) {
      return Fail({LECTERN_INVALID_ARGUMENT, "there is no terminal to ask on: give --yes", "yes"});
    }
    if (!flags_.yes) {
      auto list = engine_.DocumentsOf(name);
      if (!list.ok()) return Fail(list.error());
      if (!Confirm("Delete the collection " + name + " (" +
                   Count(list->documents.size(), "document") + ")?")) {
        return 1;
      }
    }
    return Changed(engine_.RemoveCollection(name), "removed", name);
  }

  // Prints the result of a change: its kind and the name that it is about.
  int Changed(const api::Result<api::Done>& done, const std::string& what,
              const std::string& name) {
    if (!done.ok()) return Fail(done.error());
    auto json = api::SetString("{}", what, name);
    return json.ok() ? Print(*json, what + " " + name + "\n") : Fail(json.error());
  }

  // The name in a collection that `text` means: itself, or the path of the document's file.
  static std::string NameIn(const api::CollectionDocuments& list, const std::string& text) {
    const std::string source = RealPath(text);
    std::string from_file;
    for (const api::CollectionDocument& one : list.documents) {
      if (one.name == text) return text;
      if (one.source == source) from_file = one.name;
    }
    return from_file.empty() ? text : from_file;
  }

  // The question before removing, which says what will be gone: the name alone, or the document.
  // `found`: nullptr where it is not indexed to the end.
  std::string RemoveQuestion(const api::Document* found) const {
    if (!found) return "Remove " + flags_.document + ", which is not indexed to the end?";
    const bool is_id = flags_.document == found->id;
    if (!is_id && found->names.size() > 1) {
      return "Remove the name " + flags_.document + "? The document stays: it is " +
             NamesText(*found);
    }
    return "Remove " + NamesText(*found) + " (" + Grouped(found->tokens) + " tokens, " +
           Bytes(found->bytes_on_disk) + ")?";
  }

  int Fail(const api::Error& error) const { return PrintError(kTool, error, flags_.engine.style); }

  // Prints the result in the form that was asked for. `status`: the exit status where printing
  // succeeds.
  int Print(const std::string& json, const std::string& text, int status = 0) {
    Output output;
    output.Print(flags_.engine.json() ? json + "\n" : text);
    return output.Finish(kTool, status);
  }

  const StoreFlags& flags_;
  api::Engine engine_;
};

// Opens the store and runs the command that was given. Every command but `list`, `gc`, `recover`,
// `seal`, `import` and those of collections has a document, whose path the user may give.
int Run(StoreFlags flags, const Commands& commands) {
  const Interrupts interrupts;  // no scope: a signal ends any command at once
  auto engine = CreateEngine(flags.engine);
  if (!engine.ok()) return PrintError(kTool, engine.error(), flags.engine.style);
  if (!flags.document.empty()) {
    auto document = FindArgument(*engine, flags.document);
    if (!document.ok()) return PrintError(kTool, document.error(), flags.engine.style);
    flags.document = document->document;
  }
  Store store(flags, std::move(*engine));
  if (commands.list->parsed()) return store.List();
  if (commands.show->parsed()) return store.Show();
  if (commands.verify->parsed()) return store.Verify();
  if (commands.plan->parsed()) return store.Plan();
  if (commands.gc->parsed()) return store.Collect();
  if (commands.recover->parsed()) return store.Recover();
  if (commands.seal->parsed()) return store.Seal();
  if (commands.export_document->parsed()) return store.Export();
  if (commands.import_document->parsed()) return store.Import();
  if (commands.collections->parsed()) return store.Collections();
  if (commands.collection->parsed()) return store.Collection();
  return store.Remove();
}

int Main(int argc, char** argv) {
  CommandLine app("Lists, shows, checks and removes indexed documents.", kTool, kExamples);
  StoreFlags flags;
  AddStoreFlags(app, flags.engine);
  AddQuotaFlag(app, flags.engine);
  AddVersionFlag(app);
  const Commands commands = AddCommands(app, flags);
  if (const std::optional<int> status = ParseCommandLine(app, argc, argv)) return *status;
  auto engine_flags = WithEnvironment(flags.engine);
  if (!engine_flags.ok()) return PrintError(kTool, engine_flags.error(), flags.engine.style);
  flags.engine = *engine_flags;
  return Run(flags, commands);
}

}  // namespace
}  // namespace lectern::tools

int main(int argc, char** argv) {
  using namespace lectern::tools;
  SystemStart start(argc, argv);
  return RunTool(kTool, [&] { return Main(start.argc(), start.argv()); });
}
