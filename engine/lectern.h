// The C++ API of Lectern: indexes documents and answers questions about them. It is inline over the
// C functions of lectern_c.h, so it works with the shared and the static library and with any
// compiler. Embedders include this header and no other. Everything is in namespace lectern::api,
// because the engine's insides (engine.h, no stable ABI) are in lectern.
//
// Rules for every call. Any thread may call anything at any time; callbacks come on the calling
// thread. Strings are UTF-8, spans and views are not kept after the call, offsets count bytes.
// Handles are move-only; a moved-from one answers kInvalidHandle. Errors are values: kCamel stands
// for LECTERN_CAMEL of lectern_c.h, and unless a call says otherwise everything is as it was before
// the call. LECTERN_OUT_OF_MEMORY may come of any call. Nothing throws, except your callbacks (an
// exception ends the call and passes through it; one of on_token or on_warning passes when the call
// has ended by itself) and std::bad_alloc of strings and vectors made here. An option that is empty
// or 0 has its default. Where a struct names its counterpart in lectern_c.h, that one explains it
// field by field.
#ifndef LECTERN_ENGINE_LECTERN_H_
#define LECTERN_ENGINE_LECTERN_H_

#include <cassert>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lectern_c.h"  // beside this one, in the tree and where it is installed

namespace lectern::api {

struct Error {
  lectern_code code = LECTERN_OK;  // lectern_code_name, lectern_exit_status
  std::string message;             // what is wrong, with which thing, and the way out
  std::string param;               // the option that is wrong ("kv_budget"), or empty
  // The message in the words of command lines: options are flags (--weights q4). Empty: as
  // `message`.
  std::string cli_message = {};
};

// A value or an error.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : error_(std::move(error)) { assert(error_.code != LECTERN_OK); }

  bool ok() const { return error_.code == LECTERN_OK; }
  const Error& error() const { return error_; }
  T& operator*() { return *value_; }  // these two: only when ok()
  T* operator->() { return &*value_; }

 private:
  Error error_;
  std::optional<T> value_;
};
struct Done {};  // the value of calls that have none: Result<Done>

namespace internal {  // how the classes below hold C handles: lectern_inline.h
struct Free {
  template <typename Handle>
  void operator()(Handle* handle) const;
};
template <typename Handle>
using Owned = std::unique_ptr<Handle, Free>;
}  // namespace internal

// --- indexing -----------------------------------------------------------------------------------

struct Progress {            // lectern_progress
  std::string_view stage;    // "read", "prefill", "cluster", "calibrate", "write"; more may come
  uint64_t done, total;      // prefill: tokens; other stages: items of work
  double tokens_per_second;  // of the prefill; 0: unknown
  double eta_seconds;        // of all that is left; below 0: unknown
};

struct CollectionProgress {   // lectern_collection_progress
  std::string_view document;  // its name in the collection
  uint64_t number, count;     // of it among those to be indexed, from 1; 0, 0: one, for a question
  Progress progress;          // of this document
};

struct IndexOptions {          // lectern_index_options
  // Points to the document afterwards; empty: one made from `source`, or none.
  std::string_view name = {};
  lectern_kv_type kv_type = LECTERN_KV_DEFAULT;
  // (0, 1], or LECTERN_BUDGET_AUTO (0: likewise): of later asks that name none.
  float kv_budget = 0;
  uint32_t num_levels = 0;  // of clusters: 1, 2 or 3; 0: 2
  uint64_t seed = 0;        // of the clustering; 0: 1234
  bool again = false;       // also when it is there: replaced by a new generation when that is done
  std::string_view layer_budget = {}, head_budget = {};   // "uniform", "global"
  std::function<bool(const Progress&)> on_progress = {};  // every 250 ms of work; false cancels
  std::string_view cluster_keys = {};                     // "auto"
  double keep = 0;                                        // (0, 1]: share of the rows; 0: 1
  std::string_view retention = {};                        // which rows; "kv-compress"
  double representatives = 0;                             // (0, 1]; 0: the method's
  std::string_view stats = {};                            // "window"
  std::string_view prefill = {};                          // "exact"
  double prefill_budget = 0;                              // [0.02, 1] of "sparse"; 0: 0.1
  std::span<const lectern_page> pages = {};               // of the source
  std::stop_token stop = {};  // cancels, as Engine::Cancel does: every call of the engine
  // Where the text comes from: a file's real path; empty: `name`. The same source again is the next
  // version of the same document.
  std::string_view source = {};
  std::string_view path = {};  // that the user gave, where it is a link to `source`
  bool keep_versions = false;  // the version before stays, reachable by its id
  float max_divergence = 0;    // (0, 100], nats a token, that an automatic budget keeps; 0: 0.01
  std::string_view page_labels = {};  // of `pages`: a line each, empty: its number; lectern_c.h
};

// The results of an Index call. Views are valid until the report is destroyed.
class IndexReport {
 public:
  std::string_view document() const;  // id, 32 hex digits
  std::string_view name() const;
  std::string_view json() const;  // what `index-document --json` prints
  std::string_view note() const;  // something to tell the user, or empty
  std::string_view cli_note() const;  // the note with options as flags, as Error::cli_message
  std::string_view source() const;
  std::string_view replaced() const;  // id of the version before, or empty
  lectern_index_numbers numbers() const;

 private:
  friend class Engine;
  explicit IndexReport(internal::Owned<lectern_index_report> handle) : handle_(std::move(handle)) {}
  internal::Owned<lectern_index_report> handle_;
};

// --- asking -------------------------------------------------------------------------------------

struct Turn {
  std::string question, answer;
};
struct AskOptions {           // lectern_ask_options
  // (0, 1] or LECTERN_BUDGET_AUTO; 0: the document's default; 1: exact, reads everything.
  float kv_budget = 0;
  bool tail = true;           // clusters that are not read count through their centroid
  uint32_t max_tokens = 0;    // of the answer; 0: 256
  uint32_t max_evidence = 0;  // passages; 0: 3
  float temperature = 0;      // [0, 10]; 0: greedy
  float top_p = 0;            // (0, 1]; 0: 1
  uint64_t seed = 0;          // of the sampling
  lectern_fallback fallback = LECTERN_FALLBACK_WARN;  // where much of the document is drawn on
  float max_missed = 0;   // (0, 1): read on until at most this share of the attention is missed
  std::string rule = {};  // "default"
  double mass = 0;        // (0, 1), of the rule "top-p"; 0: 0.95
  std::string layer_budget = {}, head_budget = {};  // the document's
  std::string focus = {};                           // "auto", "off", "words", "only": lectern_c.h
  double refuse_at = 0;  // (0, 1]: refuse where the model is so sure; 0: its own: lectern_c.h
  // Each piece of text as it is decoded, whole code points. False ends the answer: what there is
  // has finish reason "cancelled".
  std::function<bool(std::string_view)> on_text = {};
  uint64_t max_session_rows = 0;  // of the conversation stay after the answer, at least 64; 0: all
  std::stop_token stop = {};      // as Session::Cancel, at the next piece of text at the latest
  // Turns that were said elsewhere before a session's first question, as the chat template has
  // them; only with that question.
  std::vector<Turn> turns = {};
  std::string instructions = {};
  std::function<bool(std::string_view)> on_reasoning = {};  // as on_text: what the model thinks
  float frequency_penalty = 0, presence_penalty = 0;        // [-2, 2], over the answer's tokens
  float min_p = 0;     // [0, 1]: tokens at least this times as likely as the likeliest one
  uint32_t top_k = 0;  // this many of the likeliest tokens; 0: all
  std::vector<lectern_logit_bias> logit_bias = {};
  std::vector<std::string> stop_texts = {};  // texts that end the answer and are no part of it
  // Each token of the answer before the last part of its text, with the likeliest in its place.
  std::function<void(const lectern_sampled_token&)> on_token = {};
  uint32_t top_logprobs = 0;  // how many of them
  float max_divergence = 0;   // (0, 100], nats a token; 0: the document's
  // Each warning as soon as it is known, most of them before the first piece of text: its name and
  // what to tell the user, with options as flags.
  std::function<void(std::string_view warning, std::string_view cli_note)> on_warning = {};
  // While a document of a collection is indexed for its first question; false ends the question.
  std::function<bool(const CollectionProgress&)> on_index = {};
  // How many parts of a document have answered, where `fallback` has all of them asked.
  std::function<bool(uint64_t done, uint64_t count)> on_part = {};
  std::string json_schema = {};  // the answer is JSON that fits it: lectern_c.h; empty: any text
  bool strict_schema = false;    // keywords that cannot be kept are an error; else a warning
  std::string lookup_decoding = {};  // "auto", "off": lectern_c.h
};

// Views are valid until the answer is destroyed. It keeps its session's document open, and not the
// session.
class Answer {
 public:
  std::string_view text() const;
  std::string_view reasoning() const;              // what the model thought before; or empty
  std::string_view finish_reason() const;          // "stop", "length" or "cancelled"
  std::string_view stopped_by() const;             // "end", "stop_sequence", "max_tokens", …
  std::string_view note() const;                   // something to tell the user, or empty
  std::string_view cli_note() const;               // with options as flags: Error::cli_message
  std::vector<std::string_view> warnings() const;  // lectern_answer_warning; the note has words
  std::vector<lectern_evidence> evidence() const;  // passages, the best first
  // Documents of a collection that were asked, the likeliest by words first; else empty.
  std::vector<lectern_asked_document> asked_documents() const;
  lectern_receipt receipt() const;                 // what was read and how long it took
  // Returns the JSON that `ask-document --json` prints, offsets in `unit`. kInvalidArgument: no
  // such unit.
  Result<std::string> Json(lectern_offset_unit unit = LECTERN_OFFSET_UTF8) const;

 private:
  friend class Session;
  explicit Answer(internal::Owned<lectern_answer> handle) : handle_(std::move(handle)) {}
  internal::Owned<lectern_answer> handle_;
};

// One conversation about one document or collection: follow-ups see what was said before.
class Session {
 public:
  // kInvalidArgument (also a question without text), kBudgetTooSmall (the message has the
  // smallest), kContextTooLong, kLocked (an ask of this session runs), kCancelled only when nothing
  // was decoded yet, kChecksumMismatch, kOutOfMemory. After an error the session stands where it
  // stood; an answer that was cut short, also by an exception of a callback, belongs to the
  // conversation.
  Result<Answer> Ask(std::string_view question, const AskOptions& options = {});
  void Cancel();  // ends the ask that runs now, within 250 ms; does nothing where none runs
  // The indexed text, into which all offsets point. Valid until the session is destroyed. Empty for
  // a collection.
  std::string_view text() const;
  // Returns the tokens that the document's model reads `text` as, by itself, without template and
  // control tokens; also while the session answers. kInvalidArgument (not UTF-8), kLimitExceeded
  // (16 MiB).
  Result<std::vector<lectern_token>> Tokenize(std::string_view text) const;

 private:
  friend class Engine;
  explicit Session(internal::Owned<lectern_session> handle) : handle_(std::move(handle)) {}
  internal::Owned<lectern_session> handle_;
};

// --- citing -------------------------------------------------------------------------------------

struct CiteOptions {  // lectern_cite_options
  std::string_view question = {};  // that the text answers; empty: not known
  uint32_t max_evidence = 0;       // passages of each sentence, up to 100; 0: 3
  lectern_offset_unit unit = LECTERN_OFFSET_UTF8;  // of the JSON's offsets
};
struct Passage {            // lectern_evidence, without attention
  uint64_t begin = 0, end = 0;   // bytes of the stored text
  std::string text;              // exactly those
  double score = 0;              // probability that it supports the sentence
  uint64_t page = 0, page_end = 0;  // from 1; 0: it has none, or ends where it begins
  std::string heading;              // headings above it, or empty
  std::vector<lectern_range> highlights, places;
  std::string page_label, page_end_label;  // "xii"; empty: the page's number
  std::string document;  // of a collection, which has it; empty: no collection was asked
};
struct CitedSentence {
  uint64_t begin = 0, end = 0;  // bytes of the given text
  bool is_supported = false;    // the first passage's score is at least 0.25
  std::vector<Passage> passages;  // the best first; empty: none shares a word
};
struct CitedText {
  std::vector<CitedSentence> sentences;  // all of them
  std::string json;                      // what `ask-document --cite --json` prints
};

// --- the store ----------------------------------------------------------------------------------
// `json`: all of it as the tools print it.

struct DocumentName {
  std::string name, source;  // source: empty: not known
};
struct Document {     // lectern_document
  std::string id;     // 32 hex digits
  std::string name;   // empty: reachable by id only
  std::string state;  // "ready" or "building"
  std::string model;  // folder it was indexed with
  std::string fingerprint;
  uint64_t generation = 0, tokens = 0, text_bytes = 0, bytes_on_disk = 0;
  double keep = 1;            // share of its rows that is stored
  std::string retention;      // which of them; empty: all
  std::string weights;        // EngineOptions; empty: not known
  double prefill_budget = 1;  // below 1: it was prefilled sparsely
  std::string source;         // of `name`
  std::vector<DocumentName> names;  // all that point to it
  std::string adapter;              // that it was indexed with; empty: none
  uint64_t num_parts = 0;  // of one that is longer than its model's room; 0: it is not in parts
};
struct DocumentList {
  std::vector<Document> documents;
  std::string json;
};
struct Shard {
  std::string file;
  uint64_t bytes = 0;
};
struct DocumentDetails {
  Document document;
  std::vector<Shard> shards;
  std::string json;
};
struct DocumentPlan {  // lectern_document_plan
  std::string layer_budget, head_budget, stats;
  double kv_budget = 1;
  std::vector<double> layers, heads, cosine, competed;  // empty: none
  bool is_auto = false;        // kv_budget follows from max_divergence
  double max_divergence = 0;   // nats a token
  double divergence = -1;      // predicted at kv_budget; below 0: not measured
};
struct PlanChange {  // lectern_plan_options
  std::string_view layer_budget = {}, head_budget = {};
  float kv_budget = 0;
  float max_divergence = 0;
};
struct Damage {
  std::string document, name;  // id and name; both empty where a collection is damaged
  Error error;                 // the first damage of this document: code and message alone
  std::string collection;      // its name; empty: a document is damaged
};
struct DamageList {
  std::vector<Damage> damaged;  // empty: all good
  std::string json;
};
struct Collected {  // lectern_collected
  uint64_t generations = 0, files = 0, in_use = 0, unknown = 0;
  std::string json;
};
struct Removed {  // lectern_removed
  uint64_t names = 0;
  bool is_document_gone = false;
  uint64_t left = 0;  // names that the document has still
  std::string json;
};
struct Refused {
  std::string directory;  // stays as it is
  Error error;
};
struct Recovered {
  std::vector<Document> documents;  // taken up
  std::vector<Refused> refused;
  bool replaced = false;  // the catalog was damaged and is a new one now
  std::string json;
};
struct Imported {
  Document document;
  bool existed = false;
  std::string json;
};

// --- collections --------------------------------------------------------------------------------
// Sets of texts to which questions are put as one (lectern_c.h). `json`: all of it as the tools
// print it.

struct Collection {  // lectern_collection
  std::string name;
  uint64_t num_documents = 0, num_indexed = 0;
  uint64_t text_bytes = 0, bytes_on_disk = 0;  // the latter: of texts and words
};
struct CollectionList {
  std::vector<Collection> collections;
  std::string json;
};
struct CollectionDocument {  // lectern_collection_document
  std::string name, source;
  std::string document;  // id in the store; empty: it is not indexed
  uint64_t text_bytes = 0;
};
struct CollectionDocuments {
  std::vector<CollectionDocument> documents;
  std::string json;
};
struct CollectionText {  // lectern_text_to_add
  std::string_view name = {}, source = {}, path = {};
  std::string_view bytes;
  std::span<const lectern_page> pages = {};
  std::string_view page_labels = {};
};
struct Added {
  std::string name;  // in the collection
  lectern_change change = LECTERN_CHANGE_NEW;
};
struct AddedList {
  std::vector<Added> added;
  std::string json;
};
struct Mention {                // lectern_mention
  CollectionDocument document;  // without text_bytes
  uint64_t num_passages = 0;    // in which the words stand
  Passage passage;              // the first of them
};
struct MentionList {
  std::vector<Mention> mentions;  // most passages first
  uint64_t num_documents = 0;     // that mention the words
  std::string json;
};
struct IndexedCollection {  // lectern_indexed_collection
  uint64_t indexed = 0, existed = 0, left = 0, failures = 0;
  std::string json;
};

// --- the engine ---------------------------------------------------------------------------------

struct EngineOptions {          // lectern_engine_options
  std::string_view store = {};  // directory; created by the first Index. Required
  // Folder, .gguf file or name of Ollama's; empty: the one a document was indexed with
  std::string_view model = {};
  uint64_t num_threads = 0;     // 0: physical cores that may be used
  uint64_t quota_bytes = 0;     // of the store; 0: any
  lectern_io io = LECTERN_IO_MMAP;
  uint64_t max_ram_bytes = 0;     // of memory; 0: any
  bool rehash_model = false;      // hash weights although their files are unchanged
  std::string_view weights = {};  // "stored", "q8", "q4"; empty: the document's
  int32_t nice = 0;               // [0, 19]: added to the niceness of the engine's threads
  // Ollama's folder of models; empty: its names are not looked up
  std::string_view ollama_models = {};
  // A built-in name ("llama3", …), a Jinja program or a file with one; empty: the document's.
  std::string_view chat_template = {};
  std::string_view device = {};         // "cpu", "cuda", "cuda:N", "auto"; empty: cpu
  uint64_t device_memory_bytes = 0;     // of the GPU; 0: nearly what is free
  // LoRA adapter, a folder of PEFT's or a GGUF file; empty: the document's, for indexing none
  std::string_view adapter = {};
};

// A store and the models that its documents need. `document` is an id, a name, the end of a
// source's path that fits one document ("b/x.txt"), or empty for the only one: kNotFound,
// kAmbiguous (the message lists them).
class Engine {
 public:
  // Starts the engine's threads and finds the GPU, if one is asked for. The store and models are
  // opened when they are needed. kInvalidArgument, kOutOfMemory, kLimitExceeded (threads).
  static Result<Engine> Create(const EngineOptions& options);

  // Prefills `bytes`, clusters its keys, commits its shards. Minutes, not seconds. All or nothing:
  // on error the store is as before, except for a checkpoint from which the same call goes on, and
  // for the digest and quantised weights of the model, for which a missing store is created. A text
  // that is longer than the model's room is cut into parts, which are one document to every call.
  // kInvalidArgument, kEmptyDocument, kLimitExceeded (more than 1 GiB), kContextTooLong (not even a
  // part has room beside a question), kNoSpace,
  // kReadOnly, kLocked (also while another Index or ChangePlan of this engine runs), kCancelled,
  // kIoError, model errors.
  Result<IndexReport> Index(std::string_view bytes, const IndexOptions& options = {});
  // The same of a text file, which is read here: kNotFound, kInvalidArgument (a folder, a PDF),
  // kEmptyDocument, kIoError say which it is. It is its own source.
  Result<IndexReport> IndexFile(std::string_view path, const IndexOptions& options = {});
  // Estimates what Index would cost. Changes no document, and does not call on_progress; the model
  // is loaded, which may keep its digest and quantised weights in the store. Codes as Index,
  // without kLocked.
  Result<lectern_index_estimate> Estimate(std::string_view bytes, const IndexOptions& options = {});
  // Asks the Index, Estimate and Open calls that run now to end (kCancelled), mostly within 250 ms
  // (lectern_engine_cancel), and returns at once.
  void Cancel();

  // Opens a conversation, and the document and its model where they are not open yet, which may
  // keep the model's digest and quantised weights in the store. kNotReady, kModelMismatch (names
  // both sides), kMissingFile, kTruncated, kChecksumMismatch, kCorrupt, kCancelled, model errors.
  // The session keeps what it needs of the engine.
  Result<Session> Open(std::string_view document = {});

  // Finds the passages that support `text`, sentence by sentence, by words and without a model
  // (lectern_cite). kInvalidArgument, kLimitExceeded (64 KiB), codes of Open but kModelMismatch.
  Result<CitedText> Cite(std::string_view document, std::string_view text,
                         const CiteOptions& options = {});

  lectern_counts counts() const;  // what this engine did since it was made
  // The documents that are ready or building. kNotFound: there is no store; kCorrupt, kIoError:
  // codes of Find, Show and ShowPlan, too.
  Result<DocumentList> List();
  // The ready document that `document` stands for; opens nothing. kNotReady, also of Show and
  // ShowPlan: it is being indexed for the first time, or that was interrupted.
  Result<Document> Find(std::string_view document = {});
  Result<DocumentDetails> Show(std::string_view document = {});
  // How asks that name nothing share out its budget; the document is opened, not its model.
  // kBudgetTooSmall: it is below a step's cost; codes of Open.
  Result<DocumentPlan> ShowPlan(std::string_view document = {});
  // Makes another plan that one; what is empty or 0 stays. kInvalidArgument also where the document
  // lacks the statistics of a policy; kBudgetTooSmall, kNoSpace, kReadOnly, kLocked, codes of Open.
  // All or nothing, but for a document in parts, where an error leaves the parts before it changed;
  // Cancel does not end it.
  Result<Done> ChangePlan(std::string_view document, const PlanChange& change);
  // Checks the shards of the document (empty: of every document that is ready, and the
  // collections): sizes and identities, or all bytes. Damage is in the value; errors are what kept
  // it from looking.
  enum class Depth { kHeaders, kEveryByte };
  Result<DamageList> Verify(std::string_view document, Depth depth);

  // These but Export change the store, as lectern_engine_* do, with their codes: kNotFound (no
  // store, but for Import), kReadOnly, kLocked.
  // Remove removes the document with all its names if it is called by its id (or is the only one
  // and `document` is empty), and else the name; a document goes with its last name. The end of a
  // path is kNotFound here.
  Result<Removed> Remove(std::string_view document);
  Result<Collected> Collect();                     // files that no reader can reach
  Result<Recovered> Recover();                     // the catalog, from the documents' shards
  Result<Done> Seal();                             // refuses changes from here on
  // One document as a single file, which must not be there yet; and back, all or nothing, under
  // `name` or the one it had.
  Result<Done> Export(std::string_view document, std::string_view path);
  Result<Imported> Import(std::string_view path, std::string_view name = {});

  // Collections: `collection` is a name, "all" the collection of all documents. kNotFound, param
  // "collection", but for AddToCollection, which makes it; kInvalidArgument, kLocked, kReadOnly,
  // kNoSpace, kCorrupt, kIoError.
  Result<CollectionList> Collections();
  Result<CollectionDocuments> DocumentsOf(std::string_view collection);
  // Needs no model; all or nothing. kEmptyDocument, kLimitExceeded: the message names the text.
  Result<AddedList> AddToCollection(std::string_view collection,
                                    std::span<const CollectionText> texts);
  // Adds a document of the store. Codes of Find.
  Result<AddedList> AddToCollection(std::string_view collection, std::string_view document);
  // The text of one of them, indexed or not, into which the offsets of its passages point.
  // kNotFound, param "document".
  Result<std::string> ReadInCollection(std::string_view collection, std::string_view document);
  // By its name in the collection; if it was indexed, that stays. kNotFound, param "document".
  Result<Done> RemoveFromCollection(std::string_view collection, std::string_view document);
  // kNotFound, param "document"; kInvalidArgument, param "name": `to` is no name, or taken.
  Result<Done> RenameInCollection(std::string_view collection, std::string_view from,
                                  std::string_view to);
  Result<Done> RemoveCollection(std::string_view collection);  // its indexed documents stay
  Result<Done> RenameCollection(std::string_view collection, std::string_view to);
  Result<Done> VerifyCollection(std::string_view collection);  // every text; kCorrupt
  // Opens a conversation; documents are opened, and indexed, as questions need them
  // (lectern_open_collection).
  Result<Session> OpenCollection(std::string_view collection);
  // The documents with a passage in which the words follow one another, or, where no document has
  // one, that has all of them; at most `most`. Needs no model.
  Result<MentionList> FindMentions(std::string_view collection, std::string_view words,
                                   uint64_t most = 100,
                                   lectern_offset_unit unit = LECTERN_OFFSET_UTF8);
  // Indexes the documents that are not indexed yet, until quota or disk are full. Of `options`,
  // names, pages and on_progress must be empty; `on_progress`: false cancels. Documents that were
  // done stay. kCancelled, model errors.
  Result<IndexedCollection> IndexCollection(
      std::string_view collection, const IndexOptions& options = {},
      const std::function<bool(const CollectionProgress&)>& on_progress = {});

 private:
  explicit Engine(internal::Owned<lectern_engine> handle) : handle_(std::move(handle)) {}
  internal::Owned<lectern_engine> handle_;
};

// --- JSON ---------------------------------------------------------------------------------------

// {"error":{…}} as tools and the server print it. kInvalidArgument: its code is LECTERN_OK.
Result<std::string> ToJson(const Error& error);
Result<std::string> ToJson(const lectern_index_estimate& estimate);  // as `--estimate --json`
// A string member of a JSON object, and the object with one set, replaced or added, on one line
// with sorted keys. kNotFound (GetString): no such member; kInvalidArgument: no object, or the
// member no string.
Result<std::string> GetString(std::string_view json, std::string_view key);
Result<std::string> SetString(std::string_view json, std::string_view key, std::string_view value);

}  // namespace lectern::api

#include "lectern_inline.h"  // IWYU pragma: export

#endif  // LECTERN_ENGINE_LECTERN_H_
