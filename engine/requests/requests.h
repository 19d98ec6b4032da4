// The options and results of indexing and asking, as plain data.
#ifndef LECTERN_ENGINE_REQUESTS_REQUESTS_H_
#define LECTERN_ENGINE_REQUESTS_REQUESTS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/lectern_c.h"
#include "engine/model/template/chat_history.h"
#include "engine/model/template/sampled_tokens.h"
#include "index/retention/retention.h"
#include "kernels/types.h"
#include "store/cancel_flag.h"
#include "store/catalog.h"
#include "store/message.h"
#include "store/shard_format.h"

namespace lectern {

struct CudaKernels;

struct EngineOptions {
  std::string store;       // directory; created by the first Index
  // A folder as transformers saves it, a .gguf file (any part of one that is split), a folder that
  // holds one GGUF model, or a name of Ollama's; empty: the one a document was indexed with.
  std::string model = {};
  std::string ollama_models = {};  // its folder; empty: names are not looked up
  size_t num_threads = 0;  // 0: DefaultThreads()
  // Bytes that Index, ChangePlan and Import let the store's files come to, beyond which they refuse
  // before they begin: kNoSpace says what is used, needed and allowed. 0: no quota.
  uint64_t quota_bytes = 0;
  // How documents and weights are read. kMmap: a file that is cut, or fails, under the running
  // process ends it with SIGBUS; sizes are checked when it is opened, no signal is handled. kPread:
  // the same is an error of the call that reads; documents are copied to memory as far as they are
  // read, weights whole. Spills, which are ours alone while a document is indexed, are mapped in
  // both, and so is a bundle that is imported.
  Io io = Io::kMmap;
  // Memory that indexing and asking may take beside the program itself (store/ram_limit.h): pages
  // of documents go when there is no room for them, and are read again; what cannot be done within
  // it is refused before it begins with kOutOfMemory. 0: no limit.
  uint64_t max_ram_bytes = 0;
  // Hash a model's weights although their files are the same, unchanged since they were hashed last
  // (engine/model/digest_cache.h).
  bool rehash_model = false;
  // Type of the model's matrices in products: "stored", "q8" or "q4"
  // (engine/model/weights/weights.h). Quantised ones are made once and kept in the store; they are
  // part of a document's fingerprint. Empty: for asking what the document was indexed with, for
  // indexing "stored".
  std::string weights = {};
  // A LoRA adapter beside the model (engine/model/adapter.h): a folder of PEFT's, its
  // adapter_model.safetensors, or a GGUF file. It changes what the model says, so that it is part
  // of a document's fingerprint. Empty: for asking what the document was indexed with, for indexing
  // none.
  std::string adapter = {};
  int nice = 0;  // [0, 19]: added to the niceness of the engine's threads
  // The chat template: a name of chat_formats.h, a Jinja program, or the path of a file with one.
  // Its beginning is part of a document's fingerprint. Empty: for asking the one that the document
  // was indexed with, for indexing the model's own.
  std::string chat_template = {};
  // Where documents are indexed and questions are answered: "cpu" or empty, "cuda" (the first GPU),
  // "cuda:N", or "auto": the first GPU, or, where there is none that will do, the CPU; reports and
  // answers then warn "cpu_fallback". The results of a GPU lie within a stated tolerance of the
  // CPU's (engine/gpu/linear_layers.h, engine/gpu/prefill.h). The device is no part of a document's
  // identity: a document that is there is not indexed again because of it. But keys of two devices
  // are never mixed: a run that was interrupted on another one begins anew.
  std::string device = {};
  uint64_t device_memory_bytes = 0;  // of the GPU; 0: what is free when the engine is made, nearly
  const CudaKernels* cuda_kernels = nullptr;  // for tests; nullptr: those of liblectern_cuda.so.1
};

// --- indexing ---------------------------------------------------------------------------------

struct IndexProgress {
  enum class Stage { kRead, kPrefill, kCluster, kCalibrate, kWrite };
  Stage stage;
  // read and prefill: tokens; cluster: (layer, kv head) items; write: 0 of 1.
  uint64_t done, total;
  double tokens_per_second;  // of the prefill; 0 when unknown
  double eta_seconds;        // of all that is left; < 0 when unknown
};
std::string_view StageName(IndexProgress::Stage stage);  // "read", "prefill", …

// A kv budget that follows from what was measured while the document was indexed.
inline constexpr float kAutoBudget = -1;
// The mean divergence of an answer's tokens from exact mode's, KL in nats, that a budget should
// keep. At budgets that keep 0.01 one token in twenty (SmolLM2) or thirty (Gemma 3) is another one
// than exact mode's, which int8 activations alone do to one in thirty of SmolLM2's
// (tools/evaluate/RESULTS.md).
inline constexpr float kMaxDivergence = 0.01f;

struct IndexOptions {
  // Points to the document afterwards; empty: one made from `source`, or none where that is empty,
  // too. In NFC (engine/document/document_names.h).
  std::string name;
  Dtype kv_dtype = Dtype::kF16;
  // (0, 1]: of later asks that name none; kAutoBudget: the smallest budget at which they are
  // predicted to keep max_divergence, as measured while indexing.
  float kv_budget = kAutoBudget;
  float max_divergence = kMaxDivergence;  // nats a token, above 0: the limit of later asks
  uint32_t num_levels = 2;  // 1, 2 or 3
  // The plan of later asks: policies of index/policies/, for layers and for the heads of a layer.
  std::string layer_budget = "uniform", head_budget = "global";
  // How keys are assigned to clusters, and coded. "stored": by the keys as they are. "unrotated":
  // with RoPE undone, so that keys that recur at other positions meet. "queries": likewise, and
  // codes of rows are taken in the metric of the document's queries (index/query_metric.h).
  // "auto": "queries", but "stored" if a device prefills the document, because lookups there apply
  // no metric.
  std::string cluster_keys = "auto";
  uint64_t seed = 1234;            // of the clustering, and of a retention's representatives
  // "window": what policies know is the attention of the last tokens. "full": of all tokens too,
  // for the policy kv-compress-full; the prefill takes longer and keeps 4 bytes per layer, kv head
  // and token in memory.
  std::string stats = "window";
  // "exact": every token attends to all before it. "sparse": from token 16,384 on to a share of
  // what lies further back, in [0.02, 1], chosen by clusters, and to stand-ins for the rest: for
  // documents so long that attention takes most of the time. Keys and values are others then, and
  // with the share part of what the document is. A share of 1, or a document that ends before:
  // exact.
  std::string prefill = "exact";
  double prefill_budget = 0.1;
  // Indexes also a document that is there: everything is computed anew, and the new generation is
  // seen when it is ready.
  bool again = false;
  double checkpoint_seconds = 30;  // a checkpoint per chunk or this, whichever is later
  // Called on the indexing thread at least every 250 ms of work. Returning false cancels: the
  // checkpoint stays and the same call goes on from there.
  std::function<bool(const IndexProgress&)> on_progress;
  const CancelFlag* cancel = nullptr;
  // (0, 1]: share of the rows of all layers and kv heads that is stored, chosen by a method of
  // index/retention/ ("kv-compress", "pyramid", "snapkv", "kvcrush", …). Both are part of what the
  // document is: other shares of the same text are other documents. One of under 2,048 tokens keeps
  // everything.
  Retention retention;
  // Bytes at which the pages of the text begin (engine/document/page_map.h); the text must then be
  // valid UTF-8 without a byte order mark. Pages, like names, do not make another document: one
  // that is there with other pages is indexed once more, from its own rows. Empty: it keeps its
  // pages.
  std::vector<PageMapEntry> pages = {};
  // Their labels, as ArePageLabels has them (engine/document/page_map.h); only with pages.
  std::string page_labels = {};
  // Where the text comes from: a file's real path, any bytes; empty: `name`. A text from the same
  // source is the next version of the same document: it takes over that one's names. Another source
  // with the same base name has a name with folders in it.
  std::string source = {};
  std::string path = {};       // that the user gave, absolute, where it is a link; else empty
  bool keep_versions = false;  // the version before stays, reachable by its id
};

// How asks of a document that name nothing share out its budget, and what policies know of it.
struct DocumentPlan {
  std::string layer_budget, head_budget;  // the policies
  std::string stats;                      // "window", "full"; empty: it has none
  double kv_budget = 1;
  bool is_auto = false;  // kv_budget follows from max_divergence
  double max_divergence = kMaxDivergence;
  // Predicted at kv_budget, in nats a token; nothing: it was not measured.
  std::optional<double> divergence;
  std::vector<double> layers;  // [layers]: share of the layer's rows that a step reads
  std::vector<double> heads;   // [layers][kv heads]: of the head's; empty where they compete
  std::vector<double> cosine;  // [layers]: residual stream before and after attention; or empty
  // [layers]: shares that the policy kv-compress would give at this budget, or empty.
  std::vector<double> competed;
};

// Changes to a document's plan. A field that is empty or 0 leaves its part as it is.
struct PlanChange {
  std::string layer_budget, head_budget;
  float kv_budget = 0;       // (0, 1] or kAutoBudget: of asks that name none
  float max_divergence = 0;  // nats a token, above 0
};

struct LevelReport {
  uint32_t level;      // 1 = coarsest
  uint64_t centroids;  // over all layers and kv heads
};

struct IndexReport {
  std::string document;  // id, 32 hex digits
  std::string name;
  uint64_t tokens = 0;  // with the template's prefix; of all parts
  // Documents of their own that it was cut into, because it is longer than the model's room; 0: it
  // was not. Other numbers are sums over them, budget and divergence those of the worst.
  uint64_t parts = 0;
  uint64_t replaced_bytes = 0;  // of invalid UTF-8
  uint64_t bytes_on_disk = 0;
  std::string fingerprint;  // 64 hex digits
  uint64_t generation = 0;
  std::vector<LevelReport> levels;
  double kv_budget = 0;  // of asks that name none; 0: the document was there
  bool is_budget_auto = false;
  std::optional<double> divergence;  // predicted at kv_budget, nats a token; nothing: not measured
  struct {
    double read = 0, prefill = 0, cluster = 0, calibrate = 0, write = 0, total = 0;
  } seconds;
  std::string weights;          // EngineOptions::weights
  std::string adapter;          // its absolute path; empty: none
  Retention retention;          // as asked for, but for a document too short for it
  double prefill_budget = 1;    // below 1: it was prefilled sparsely
  bool existed = false;         // nothing was done: the same document was there
  uint64_t resumed_tokens = 0;  // taken over from an interrupted run
  // Taken over from the document that had the name before: what both texts begin with. The bytes
  // that are stored are those of indexing from scratch, where the same build on the same kind of
  // processor made both; what another device made is not taken over.
  uint64_t reused_tokens = 0;
  std::string device = "cpu";         // that computed the keys and values: "cuda:0"
  std::string gpu;                    // its name, or empty
  // Names that stay: "cpu_fallback", "restarted", "exact_budget", "ranks_idle".
  std::vector<std::string> warnings;
  Message note;  // what became of names, warnings in words, and the assumptions; or empty
  std::string source;                 // IndexOptions::source
  // Id of the version before, which had the name and has it no more; empty: there was none. It goes
  // when nobody reads it, but where another name is left to it, or its text is the same, or it
  // shall stay (is_replaced_kept).
  std::string replaced;
  bool is_replaced_kept = false;
  // Clauses, without a full stop, about what was assumed where the model's files do not say, such
  // as how an unnamed vocabulary cuts words; and what of the text the model cannot see.
  std::vector<Message> assumptions;
};

// The cost of indexing, beforehand. No document is written; the model is loaded (its weights are
// hashed, and its digest and quantised weights may be kept in the store).
struct IndexEstimate {
  uint64_t tokens = 0;
  uint64_t bytes_on_disk = 0;       // of the finished document
  uint64_t peak_bytes_on_disk = 0;  // all spills and one shard, while indexing
  uint64_t free_bytes = 0;          // of the store's file system
  uint64_t anonymous_bytes = 0;     // memory: one chunk's activations and one layer's clustering
  double flops = 0;                 // of the prefill
  double seconds = 0;               // on the CPU, at the speed of a short trial on this machine
  bool existed = false;
};

// --- asking -----------------------------------------------------------------------------------

// The answer to a question that draws on much of the document (Spread in evidence.h).
enum class Fallback {
  kWarn,  // answer at the budget; the receipt warns
  // Before any text is shown begin again, and read everything for the whole answer. Of a document
  // in parts all are asked, each exactly, and their answers are put together
  // (asking/whole_question.h); questions that ask for the whole by their words are recognised, too.
  kExact,
};

// How a token is drawn, in this order: the model's logits, plus bias, less penalties; the softmax
// of their quotient by the temperature; of that the tokens that min_p, then top_k, then top_p
// leave.
struct SamplingOptions {
  float temperature = 0.0f;  // [0, 10]; 0: greedy
  float top_p = 1.0f;        // (0, 1]; smallest set of tokens with at least this probability
  uint64_t seed = 0;
  uint32_t top_k = 0;  // this many of the likeliest tokens; 0: all
  float min_p = 0;     // [0, 1]; tokens at least this times as likely as the likeliest one
  // [-2, 2]: taken from the logit of a token that the answer has already, once for each time that
  // it has it, and once.
  float frequency_penalty = 0, presence_penalty = 0;
  std::vector<std::pair<int32_t, float>> logit_bias = {};  // id, what is added to its logit
};

struct AskOptions {
  float kv_budget = 0;  // (0, 1] or kAutoBudget; 0: the document's default; 1: exact
  // Nats a token, above 0; 0: the document's. An automatic budget keeps it; of another one that is
  // predicted not to, a warning says so.
  float max_divergence = 0;
  bool tail = true;     // clusters that are not read count through their centroid and mean value
  // Most tokens of the answer, at least 1; where the model's positions or the memory limit leave
  // room for fewer, the answer ends there.
  uint32_t max_tokens = 256;
  SamplingOptions sampling;
  uint32_t max_evidence = 3;
  Fallback fallback = Fallback::kWarn;
  // (0, 1): every step reads on in every layer, past the budget, until at most this share of the
  // layer's attention lies on rows that it did not read: as proved from radii and codes, or, where
  // that proves too little, as estimated with the document's margin for the budget, which held
  // for 99 of 100 steps of the questions asked while it was indexed. KvReceipt::max_missed_by says
  // which.
  std::optional<double> max_missed;
  // The rule that chooses rows below a kv_budget of 1 (index/lookup.h): "default"; whole clusters
  // alone, by "threshold" (kv_budget in the mean over questions), "cap" (never above kv_budget) or
  // "top-p" (those that hold the share `mass` of the attention, whatever kv_budget says).
  std::string rule = "default";
  double mass = 0;  // (0, 1), of "top-p" alone; 0: 0.95
  // "auto": "only" where the model's adapter was trained for it (AdapterSettings::focus) and the
  // question names no budget, rule or max_missed, else "off".
  // "only": the question and the answer read the passages that the question's words and the model's
  // retrieval heads point to, and nothing else (engine/asking/focus.h). "words": they read these
  // passages, and as much else as kv_budget leaves, which the rule chooses. With a kv_budget of 1,
  // and of a document without clusters on a device, everything is read. "off": the rule chooses.
  std::string focus = "auto";
  // (0, 1]: the model's own sentence for "the document does not say" (Refusal in
  // engine/model/adapter.h) is the answer, whatever the sampling, where the model gives it at least
  // this probability, and is not where it gives it less. 1: where decoding comes to it. 0: the
  // model's threshold.
  float refuse_at = 0;
  // "auto": tokens that follow the latest ones elsewhere in the document or the conversation are
  // checked together with them, in one pass over the weights, as many as that is worth; the answer
  // is the same, bit for bit. Not on a device, and not with max_session_rows. "off": tokens are
  // decoded one by one.
  std::string lookup_decoding = "auto";
  // Policies that share kv_budget out over layers ("uniform", "pyramid", "squeeze", "kv-compress",
  // "dense-first") and over the kv heads of a layer ("global": they compete, "uniform",
  // "kv-compress"); empty: the document's.
  std::string layer_budget, head_budget;
  // After the answer at most this many rows of the conversation stay for each layer and kv head, in
  // the mean: blocks of rows that later tokens attended to least go, wherever they are
  // (KV-Compress). Rows of the document stay. At least 64; 0: all stay.
  uint32_t max_session_rows = 0;
  // Turns of a conversation that was held elsewhere: put before the question as the chat template
  // has it. Only with the first question of a session.
  ChatHistory history;
  // Receives each piece of text as it is decoded (valid UTF-8), on the calling thread; the view is
  // valid during the call. Returning false ends the answer early; the text so far is returned with
  // finish_reason "cancelled".
  std::function<bool(std::string_view)> on_text;
  // Receives what the model thinks before it answers, in the same way.
  std::function<bool(std::string_view)> on_reasoning;
  // Receives each of Answer::warnings and its part of the note, on the calling thread: before the
  // first piece of text, where it is known by then.
  std::function<void(std::string_view warning, const Message& note)> on_warning;
  // Receives the progress of indexing a text of a collection for its first question, as
  // IndexOptions::on_progress does; `document`: its name. Returning false ends the question.
  std::function<bool(std::string_view document, const IndexProgress& progress)> on_index;
  // Receives how many parts of a document have been read, where a question draws on the whole of a
  // document in parts (Fallback::kExact). Returning false ends the question.
  std::function<bool(uint64_t done, uint64_t count)> on_part;
  // Texts that end the answer, across tokens, too: it stops before the first of them, of which no
  // part is shown. The model's thoughts may hold them. None is empty.
  std::vector<std::string> stop_texts;
  // A JSON schema (engine/constraint/json_schema.h): the answer is JSON that fits it, as a text on
  // one line. Thoughts before it are free. An answer that max_tokens, stop_texts or a loop cut
  // short is no whole JSON; its finish reason is "length" then, but for stop texts. The model's
  // sentence for "the document does not say" is no such answer, and a warning says where it was
  // likely. A model that was taught plain answers alone is asked for each value of an object by
  // itself (asking/answer_fields.h), where there are no stop texts, and numbers, dates, booleans
  // and choices are read out of its plain answers; a value for which that sentence is likely is
  // null or left out, if it may be. Empty: any text.
  std::string json_schema;
  // Whether keywords of the schema that cannot be kept are an error; else a warning names them.
  bool strict_schema = false;
  // Receives each token of the answer, on the calling thread, before `on_text` gets the last part
  // of its text; with `top_logprobs` of the likeliest tokens in its place. Costs a pass over the
  // vocabulary a token.
  std::function<void(const SampledToken&)> on_token;
  uint32_t top_logprobs = 0;
  const CancelFlag* cancel = nullptr;
};

using ByteRange = lectern_range;  // bytes [begin, end) of the stored text

// Passages of a lower score are no evidence (evidence.h).
inline constexpr float kLeastScore = 0.25f;

// A passage of the document that supports an answer, or a sentence of a text to be cited.
struct Evidence {
  uint64_t begin = 0, end = 0;  // bytes [begin, end) of the stored text
  std::string text;             // exactly those bytes
  // Share of the answer's squared attention to the text, in [0, 1]. 0 for a citation.
  float mass = 0;
  // The probability in [0, 1] that the passage supports it, as far as words tell; 0 where the
  // document's words could not be read.
  float score = 0;
  std::optional<uint32_t> page;  // where it begins, from 1; when the document has pages
  std::optional<uint32_t> page_end = std::nullopt;  // where it ends, if that is another page
  // The labels of these pages ("xii"); empty: their numbers.
  std::string page_label = {}, page_end_label = {};
  std::string heading = {};  // the headings above it: "Chapter 2 > Rent"; empty: none
  // Where else the text has the same passage, up to white space. `mass` is of all of them. The
  // first 100.
  std::vector<ByteRange> places = {};
  // The words inside [begin, end) that it shares with the question and the answer or sentence,
  // ascending and apart.
  std::vector<ByteRange> highlights = {};
  // Where a collection was asked: the name of the document that has the passage, into whose text
  // all offsets point; else empty.
  std::string document = {};
};

// A passage and its share of the answer's squared attention to the text, in (0, 1].
struct AttendedPassage {
  uint64_t begin, end;  // bytes of the stored text
  float mass;
};
inline constexpr uint32_t kMostAttended = 16;

// A text to be cited from a document.
struct CiteRequest {
  std::string text;      // such as an answer, of any origin; UTF-8, at most kMaxCitedBytes
  std::string question;  // which `text` answers; empty: not known, and citations are less sure
  uint32_t max_evidence = 3;  // passages of each sentence, 1..100
};
// The largest `text` and the largest `question`, in bytes, and the most sentences of a text; a
// sentence takes 1 to 3 ms on a document of 100,000 tokens.
inline constexpr size_t kMaxCitedBytes = 64 << 10, kMaxCitedSentences = 1000;

// A sentence of the text that was cited.
struct CitedSentence {
  uint64_t begin, end;  // its bytes in the given text
  // The passages that share words with it or with the question, best first; whatever their score.
  std::vector<Evidence> evidence;
  // Whether the best score is enough for evidence.
  bool IsSupported() const {
    return std::any_of(evidence.begin(), evidence.end(),
                       [](const Evidence& one) { return one.score >= kLeastScore; });
  }
};
struct CitedText {
  std::string document;                  // id
  std::vector<CitedSentence> sentences;  // all of them, in their order
  // The document's text, into which the evidence points; it lives as long as `keeper`.
  std::string_view document_text;
  std::shared_ptr<const void> keeper;
};

struct KvReceipt {
  float budget = 1;  // share of the whole document's K+V bytes, whatever of it is stored
  bool is_auto = false;  // it follows from max_divergence
  double max_divergence = kMaxDivergence;  // the limit, nats a token
  // Predicted at this budget; 0 where everything was read; nothing: it was not measured for the
  // document, or not with these policies and this rule.
  std::optional<double> divergence;
  // "exact"; with a focus "words", or "words+heads" if the model's retrieval heads chose, too, with
  // "+lookup" at its end where a lookup chose the rest; else AskOptions::rule.
  std::string rule;
  std::string layer_budget, head_budget;  // the policies; empty where everything was read
  bool fallback = false;                  // AskOptions::fallback made the answer exact
  // Share of the document's K+V bytes, mean over layers; after a fallback of both prefills,
  // above 1.
  double read_fraction_prefill = 0;
  std::optional<double> read_fraction_decode;  // mean over decode steps; empty when none ran
  uint64_t bytes_read = 0;                     // all steps, and what a fallback gave up
  uint64_t window_bytes = 0;                   // sliding-window layers
  // Share of the attention that lies on rows not read, mean over steps and layers: as estimated,
  // and with AskOptions::max_missed what it cannot exceed.
  // Nothing: it was not estimated (AskOptions::focus).
  std::optional<double> missed_mass_estimate;
  std::optional<double> missed_mass_bound;
  // With max_missed: "bound" where it was kept by proof in every step and layer, else "estimate".
  std::string max_missed_by;
  // Share of the document's rows that is stored, and the method that chose them; empty: all.
  // Attention to rows that are not stored is no part of any figure.
  double keep = 1;
  std::string retention;
  // IndexOptions::prefill_budget: below 1, also what exact mode reads comes of a sparse prefill.
  double prefill_budget = 1;
  // Rows of the conversation so far that a next question attends to, per layer and kv head in the
  // mean: one for each token of questions and answers but the last, but for what max_session_rows
  // took away.
  uint64_t session_rows = 0;
};

// A part of a document in parts that was asked the question.
struct AskedPart {
  uint32_t number = 0;          // from 0; reports count from 1
  uint64_t begin = 0, end = 0;  // bytes of the document's text
  double probability = 0;       // by words, that the answer stands here (asking/route.h)
  // The model's answer about this part alone. Where values of an object were asked for by
  // themselves: each behind its key, `"rent": 900, "tenant": "Ada"`.
  std::string answer;
  double support = 0;           // Evidence::score of its best passage; 0: it has none
  // Mean over the answer's tokens of the natural logarithm of their probability; 0 for an empty
  // one.
  double logprob = 0;
  bool is_chosen = false;  // its answer is the document's, or a value of it
};

// A document of a collection that was asked the question, or that mentions its words.
struct AskedDocument {
  std::string name, source;         // in the collection
  std::string document;             // id; empty: its words alone were looked at
  double probability = 0;           // by words, that the answer stands here (asking/route.h)
  std::string answer;               // as AskedPart has it
  double support = 0, logprob = 0;  // as AskedPart has them
  bool is_chosen = false;           // its answer is the answer, or a value of it
  bool is_new = false;              // it was indexed for this question
  uint32_t num_passages = 0;        // that have all words, where only words were looked at; else 0
};

struct Answer {
  std::string text;
  // Id; where a collection was asked, of the document that was chosen, or empty: none was.
  std::string document;
  // The model's thoughts before its answer: the text between marks such as "<think>" and
  // "</think>". No part of `text`.
  std::string reasoning;
  std::string finish_reason;  // "stop", "length", "cancelled"
  // Why it ended: "end" (the model ended it, or began a next question itself), "stop_sequence" (one
  // of AskOptions::stop_texts came), "max_tokens", "cancelled", or "repetition": it went round in a
  // loop. The finish reason of the first two and of the last one is "stop", but of JSON that a loop
  // left unfinished "length".
  std::string stopped_by;
  uint64_t document_tokens = 0, question_tokens = 0;
  uint64_t answer_tokens = 0, reasoning_tokens = 0;  // the former include the latter
  uint64_t forced_tokens = 0;  // of the answer, which AskOptions::json_schema left no choice for
  // Tokens that lookup decoding proposed, and those of them that were drawn, which took no pass of
  // their own. How many depends on how long passes take, so it may differ where nothing else does.
  uint64_t proposed_tokens = 0, accepted_tokens = 0;
  struct {
    double open = 0, prefill = 0, first_token = 0, per_token = 0, total = 0;
  } timings_ms;
  KvReceipt kv;
  std::vector<Evidence> evidence;  // the best first, by words and attention
  // Where the answer's attention went: its largest passages, at most kMostAttended, largest first.
  // It shows what the model used and proves no support. Empty without evidence (max_evidence).
  std::vector<AttendedPassage> attention;
  // Those that were asked, of a document in parts, the likeliest by words first; empty for other
  // documents. The other fields are those of the part that was chosen, but for timings and bytes,
  // which count all. An object whose values were asked for by themselves has several that were
  // chosen, each of which is likely as for the value for which it is the likeliest.
  std::vector<AskedPart> parts;
  // The probability in [0, 1] that the model gave, before the first token of the answer, to its own
  // sentence for "the document does not say", all of it; if the question was read twice to find a
  // focus, by the mean of the log-odds of both readings. Nothing: it has none, or thinks first, or
  // has no room for it.
  std::optional<double> refusal_probability;
  bool is_refused = false;  // that sentence is the answer because it was so likely
  uint64_t num_parts = 0;  // of the document; 0: it is not in parts
  // Where a collection was asked: its name, how many documents it has, and those that were asked,
  // the likeliest by words first. The other fields are those of the one that was chosen, but for
  // timings and bytes, which count all.
  std::string collection;
  uint64_t num_documents = 0;
  std::vector<AskedDocument> documents;
  // The texts into which the offsets of evidence, attention and parts point, by Evidence::document.
  struct TextOf {
    std::string document;
    std::shared_ptr<const std::string> text;
  };
  std::vector<TextOf> texts;
  // Names that stay: "whole_document", "no_evidence", "cpu_fallback", "repetition",
  // "low_budget", "schema_not_kept", "refusal_likely".
  std::vector<std::string> warnings;
  Message note;  // what to tell the user, warnings in words; or empty
};

// --- collections --------------------------------------------------------------------------------

// A set of texts to which questions are put as one. The words of all are known; a text is indexed
// for a model when it is first asked.
struct CollectionSummary {
  std::string name;
  uint64_t num_documents = 0;
  uint64_t num_indexed = 0;  // of them, that have a document in the store
  uint64_t text_bytes = 0;
  uint64_t bytes_on_disk = 0;  // of texts and words, without the documents
};
struct CollectionDocument {
  std::string name, source;
  std::string document;  // id in the store; empty: it was not indexed yet, or is gone
  uint64_t text_bytes = 0;
};
// A text for a collection.
struct CollectionText {
  std::string name;    // empty: one is made from `path`, else `source`
  std::string source;  // as IndexOptions::source; a text from the same source replaces it
  std::string path;    // as IndexOptions::path
  std::string bytes;   // as Engine::Index takes them
  std::vector<PageMapEntry> pages = {};  // as IndexOptions has them
  std::string page_labels = {};
};
struct AddedToCollection {
  std::string name;
  enum class Change { kNew, kRenewed, kUnchanged };
  Change change = Change::kNew;
};
// Receives the progress of indexing the texts of a collection: the document's name, its number and
// how many there are to index, and its own progress. Returning false cancels.
using CollectionProgress = std::function<bool(std::string_view document, uint64_t number,
                                              uint64_t count, const IndexProgress& progress)>;
// The result of indexing the texts of a collection.
struct IndexedCollection {
  uint64_t indexed = 0, existed = 0;  // documents now, and before
  uint64_t left = 0;                  // that have no document, because there is no room
  // The first text that could not be indexed for another reason, which is passed over, and why;
  // empty: there is none.
  std::string failed;
  Message note;  // about `left` and `failed`; or empty
  uint64_t failures = 0;
};
// The documents whose words answer "which documents mention …".
struct Mentions {
  struct One {
    std::string name, source, document;  // as CollectionDocument
    uint32_t num_passages = 0;           // that have all words
    Evidence passage;                    // the first of them; its score is 0
  };
  std::vector<One> documents;         // most passages first, at most as many as were asked for
  uint64_t num_documents = 0;         // that mention them
  std::vector<Answer::TextOf> texts;  // of `documents`, for other units of offsets
};

// The result of removing a document or one of its names.
struct Removed {
  std::string document;            // id
  std::vector<std::string> names;  // that are gone
  bool is_document_gone = false;   // else it has other names
  std::vector<std::string> left;   // these
};

// The first damage that was found in a document or collection.
struct Damage {
  std::string document, name;  // both empty where a collection is damaged
  Status status;
  std::string collection = {};  // its name, or that of its file; empty: a document is damaged
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_REQUESTS_REQUESTS_H_
