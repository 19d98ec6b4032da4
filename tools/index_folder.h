// Indexes many files, one document a file, or puts their texts into a collection: folders, patterns
// and several files of one command of index-document, and --watch.
#ifndef LECTERN_TOOLS_INDEX_FOLDER_H_
#define LECTERN_TOOLS_INDEX_FOLDER_H_

#include <functional>
#include <string>
#include <vector>

#include "engine/lectern.h"
#include "engine/requests/options.h"
#include "tools/ingest/ingest.h"
#include "tools/interrupts.h"
#include "tools/progress.h"
#include "tools/terminal.h"

namespace lectern::tools {

struct FolderRun {
  std::vector<std::string> arguments = {};     // files, folders and patterns
  std::string store = {};                      // folder of the store: never read as documents
  // The collection that gets the texts, without a model; empty: the files are indexed. `options` is
  // then not used, nor may `estimate` or `ask_above_seconds` be set.
  std::string collection = {};
  std::string name = {};  // of the only file in the collection; empty: names are made from paths
  const GivenIndexOptions* options = nullptr;  // of every document; not null
  ErrorStyle style = ErrorStyle::kText;
  ProgressStyle progress = ProgressStyle::kAuto;
  bool estimate = false;         // prints the cost of all files, and indexes nothing
  double ask_above_seconds = 0;  // asks before longer work; 0: never
  bool watch = false;            // stays, and indexes files again that change
  // Turns a file into text. Called on the thread of IndexFolder, inside of its scope of the
  // interrupts.
  std::function<api::Result<Ingested>(const std::string& file)> read = {};
  // Sentences for the user about a text that was read; may be none.
  std::function<std::vector<std::string>(const Ingested&)> notes = {};
  // Called when the files were gone through, and with `watch` after each change; an error ends the
  // run. May be empty.
  std::function<api::Result<api::Done>()> after_pass = {};
};

// Does the run and prints its results: a table on stdout, or a line of JSON for each file and one
// of sums. One engine for all files. A file that is no document is skipped, one that fails is told
// at the end; only errors that every file would meet end the run (no model, a store that cannot be
// written, a full disk, the quota, Ctrl-C). The same command again goes on: what is indexed is left
// alone.
//
// Returns the exit status: of the error that ended the run, else of the first file that failed,
// else 0; 3 where there is no document at all; 1 where the user did not want the work. With `watch`
// it blocks until a signal comes, and returns the signal's status.
int IndexFolder(api::Engine& engine, Interrupts& interrupts, const FolderRun& run);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INDEX_FOLDER_H_
