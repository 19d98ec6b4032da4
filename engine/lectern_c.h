/* The C API of Lectern: plain C11, and the only ABI. lectern.h wraps it for C++.
 *
 * Rules, once for every function:
 *  - Handles are tickets, typed per kind: what *_create, *_open or *_ask gave you, *_free takes.
 *    NULL is fine to free. A freed or foreign handle gives LECTERN_INVALID_HANDLE (accessors: NULL
 *    or 0), never undefined behaviour, even while another thread frees it: a call that is running
 *    keeps what it works on. Handles may be freed in any order.
 *  - Strings are UTF-8, pointer and length, not kept after the call; (NULL, 0) is the empty string.
 *    Strings that you get belong to the handle that they came from, or to the callback's duration,
 *    and have a NUL behind their last byte; `len` may be NULL.
 *  - Fallible calls return lectern_code. On failure the out handle is NULL and *error, when `error`
 *    is given, is set: free it. It stays NULL only when there is no memory left for it. Every call
 *    may give LECTERN_OUT_OF_MEMORY and LECTERN_INVALID_HANDLE; LECTERN_INVALID_ARGUMENT is also
 *    for a place of a result that is NULL, a text or array that is NULL but has a length, and a
 *    struct_size that can be no struct's (param "struct_size"). Calls that read the store may also
 *    give LECTERN_CORRUPT and LECTERN_IO_ERROR, and where there is none LECTERN_NOT_FOUND with
 *    param "store".
 *    Nothing is thread-local. Nothing throws, prints, exits, or reads the environment (except
 *    LECTERN_BACKEND).
 *  - Codes and fields are only ever added, at the end. struct_size = sizeof(the struct) says which
 *    you know. In options 0 always means the default, and NULL options mean all defaults. Fields
 *    that this library is too old to know must be 0, otherwise LECTERN_INVALID_ARGUMENT with param
 *    "struct_size".
 *  - Every function may be called from any thread at any time. Callbacks come on the calling
 *    thread, may call the API, and must return (no exception, no longjmp).
 *  - The program may fork. A child may exec, which inherits no descriptor of ours, or end by _exit;
 *    before that it calls nothing here and frees nothing: its copies of handles have no threads.
 *  - dlclose does not unload the shared library: handles and calls go on, freeing them gives back
 *    what they have.
 */
#ifndef LECTERN_ENGINE_LECTERN_C_H_
#define LECTERN_ENGINE_LECTERN_C_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LECTERN_API __attribute__((visibility("default")))
#else
#define LECTERN_API
#endif

#define LECTERN_VERSION "0.1.0"
#define LECTERN_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/* --- codes ----------------------------------------------------------------------------------- */

/* Same numbers and meaning as Code in store/status.h. Later versions may add codes: treat an
 * unknown one as a failure. */
typedef int32_t lectern_code;
enum lectern_codes {
  LECTERN_OK = 0,
  LECTERN_INVALID_ARGUMENT = 1, /* an option or argument is out of its range, or missing */
  LECTERN_NOT_FOUND = 2,        /* no such document, store or model */
  LECTERN_AMBIGUOUS = 3,        /* a name was left out and several would fit */
  LECTERN_MODEL_MISMATCH = 4,   /* indexed with another model, tokenizer or template */
  LECTERN_EMPTY_DOCUMENT = 5,
  LECTERN_CONTEXT_TOO_LONG = 6, /* document, question or answer exceed the model's positions */
  LECTERN_BUDGET_TOO_SMALL = 7, /* the message has the smallest kv budget */
  LECTERN_NO_SPACE = 8,         /* the disk (or its quota) is full or would be */
  LECTERN_OUT_OF_MEMORY = 9,
  LECTERN_READ_ONLY = 10, /* the store cannot be written */
  LECTERN_LOCKED = 11,    /* someone else is writing this store, or using this session */
  LECTERN_CANCELLED = 12,
  LECTERN_IO_ERROR = 13,
  LECTERN_MISSING_FILE = 14,      /* a file that the catalog or a model names is not there */
  LECTERN_TRUNCATED = 15,         /* a file is shorter (or longer) than it says */
  LECTERN_CHECKSUM_MISMATCH = 16, /* bytes changed after they were written */
  LECTERN_CORRUPT = 17,           /* the bytes verify but contradict each other */
  LECTERN_UNSUPPORTED_VERSION = 18,
  LECTERN_UNSUPPORTED_MODEL = 19,
  LECTERN_MALFORMED_MODEL = 20,
  LECTERN_UNSAFE_FORMAT = 21,  /* pickle files are never opened */
  LECTERN_LIMIT_EXCEEDED = 22, /* a count or size is beyond what is accepted */
  LECTERN_NOT_READY = 23,      /* not indexed to the end: the message says if to wait */
  LECTERN_INVALID_HANDLE = 24, /* NULL, freed, or of another kind */
  LECTERN_INTERNAL = 25        /* a bug in Lectern */
};

/* "model_mismatch"; "internal" for a number that is no code. Static, never freed. */
LECTERN_API const char* lectern_code_name(lectern_code code);
/* Exit status of a command-line tool: 0 ok, 1 failure, 2 usage, 3 not found, 4 model mismatch,
 * 5 disk or memory, 6 corrupt store, 130 cancelled. */
LECTERN_API int32_t lectern_exit_status(lectern_code code);
/* LECTERN_VERSION and LECTERN_ABI_VERSION of the library that is running. Static. */
LECTERN_API const char* lectern_version(void);
LECTERN_API uint32_t lectern_abi_version(void);
/* How the library was built, as a JSON object of strings; members may be added: "version", "abi" (a
 * number), "commit" ("": not known), "compiler", "build_type", "instruction_sets" (an array: those
 * that it has code for), "instruction_set" (the one that this machine uses), "faiss",
 * "sentencepiece" (a version: the system's; "private": built in). Static; "{}" when there is no
 * memory for it. */
LECTERN_API const char* lectern_build_info(void);

/* --- handles --------------------------------------------------------------------------------- */

typedef struct lectern_engine lectern_engine;   /* a store and the models its documents need */
typedef struct lectern_session lectern_session; /* one conversation about one document, or about a
                                                   collection of documents */
typedef struct lectern_answer lectern_answer;
typedef struct lectern_index_report lectern_index_report;
typedef struct lectern_text lectern_text; /* a string that you own, mostly JSON */
typedef struct lectern_error lectern_error;

LECTERN_API lectern_code lectern_error_code(const lectern_error* error);
/* Says what is wrong, with which thing, and the way out. */
LECTERN_API const char* lectern_error_message(const lectern_error* error, size_t* len);
/* The same for command lines whose flags are called as those of Lectern's tools: where the message
 * names an option as a field (weights "q4"), this names its flag (--weights q4). */
LECTERN_API const char* lectern_error_cli_message(const lectern_error* error, size_t* len);
/* The option that is wrong ("kv_budget"), or "". */
LECTERN_API const char* lectern_error_param(const lectern_error* error, size_t* len);
LECTERN_API lectern_code lectern_error_free(lectern_error* error);

LECTERN_API const char* lectern_text_data(const lectern_text* text, size_t* len);
LECTERN_API lectern_code lectern_text_free(lectern_text* text);

/* --- the engine ------------------------------------------------------------------------------ */

/* How documents and weights are read. MMAP maps the files: if one is cut, or its disk fails, under
 * the running process, the system ends the process with SIGBUS (sizes are checked when a file is
 * opened; no signal is ever handled here). PREAD makes the same an error of the call that reads,
 * with file and offset; documents are copied to memory as far as they are read, weights whole.
 * Files that are written while a document is indexed are mapped in both. */
typedef int32_t lectern_io;
enum lectern_ios { LECTERN_IO_DEFAULT = 0 /* mmap */, LECTERN_IO_MMAP = 1, LECTERN_IO_PREAD = 2 };

typedef struct lectern_engine_options {
  size_t struct_size;
  /* Directory of the store, created by the first index. Required. It must be a directory of its
   * own: one that holds other things and no store is left alone, LECTERN_INVALID_ARGUMENT. A path
   * without a leading slash, here and below, is resolved when the engine is created. */
  const char* store;
  size_t store_len;
  /* A folder as transformers saves it, a .gguf file (any part of a split one), a folder that holds
   * one GGUF model, or a name that Ollama knows; empty: the one that a document was indexed
   * with. */
  const char* model;
  size_t model_len;
  /* Threads that the engine works with; 0: one for each physical core that the process may run on,
   * but no more than the whole cores that the CPU quota of its control groups grants. */
  uint64_t num_threads;
  /* Limit on the total size of the store's files; 0: none. An operation that would exceed it
   * (index, plan, import) is refused before it begins: LECTERN_NO_SPACE says what is used, needed
   * and allowed. */
  uint64_t quota_bytes;
  lectern_io io;
  /* Limit on the memory that indexing and asking take beside the program itself: weights,
   * activations, keys and values of conversations, pages of documents in use; 0: none. Not counted:
   * the tokenizer, and freed memory that malloc keeps. Pages are dropped when there is no room for
   * them, and read again. Work that cannot be done within the limit is refused before it begins:
   * LECTERN_OUT_OF_MEMORY says what is needed, taken and allowed. */
  uint64_t max_ram_bytes;
  /* 1: a model's weights are hashed even if their files have the same sizes, times and inodes as
   * when they were hashed last. 0: in that case the identity found last time, kept in the store, is
   * used. */
  int32_t rehash_model;
  /* The type that the model's matrices are multiplied as: "stored"; or quantised in groups of 32,
   * "q8" or "q4", made when first needed and kept in the store. A document is asked with the
   * weights that it was indexed with; others are LECTERN_MODEL_MISMATCH. Empty: the document's; for
   * indexing "stored". */
  const char* weights;
  size_t weights_len;
  /* [0, 19]: added to the niceness of the threads that the engine starts, so that other programs
   * come first. The calling thread, which works along, keeps its own. */
  int32_t nice;
  int32_t reserved; /* 0 */
  /* Ollama's folder of models ("manifests" and "blobs"), in which names are looked up without the
   * network; empty: names are not looked up. */
  const char* ollama_models;
  size_t ollama_models_len;
  /* The chat template, which writes the text around document, question and answer: a built-in name
   * ("llama3", "chatml" and so on), a Jinja program as models carry them, or the path of a file
   * with one; anything else is LECTERN_INVALID_ARGUMENT, whose message lists the names. A document
   * is asked with the template that it was indexed with; a template that begins differently is
   * LECTERN_MODEL_MISMATCH. Empty: the document's; for indexing the model's own ("plain" if it has
   * none, which the report's note says; LECTERN_UNSUPPORTED_MODEL if it cannot be run). */
  const char* chat_template;
  size_t chat_template_len;
  /* Where documents are indexed and questions are answered: "cpu" or empty; "cuda", the first
   * NVIDIA GPU of compute capability 8.0 or later; "cuda:N"; "auto", the first such GPU, or the CPU
   * if there is none or the model does not fit: answers and reports then have the warning
   * "cpu_fallback", and their note says why. A named GPU that cannot be used is
   * LECTERN_INVALID_ARGUMENT, param "device". Needs liblectern_cuda.so.1 beside this library. An
   * interrupted run continues on the kind of device that began it; on another kind it begins
   * anew. */
  const char* device;
  size_t device_len;
  /* Limit on the GPU's memory; 0: what is free when the engine is made, less a reserve. Work that
   * does not fit is LECTERN_OUT_OF_MEMORY, param "device_memory". Documents' keys and values are an
   * exception: if they do not fit, the GPU keeps a cache of them and fetches the rest when it is
   * read. */
  uint64_t device_memory_bytes;
  /* A LoRA adapter beside the model: a folder in the format of PEFT, its adapter_model.safetensors,
   * or a GGUF file of kind "adapter". It is part of what a document is: a document is asked with
   * the adapter that it was indexed with, another one is LECTERN_MODEL_MISMATCH. Empty: the
   * document's; for indexing none. Models with an adapter run on the CPU. */
  const char* adapter;
  size_t adapter_len;
} lectern_engine_options;

/* Starts the engine's threads, reads a chat template's file and finds the GPU, if one is asked for.
 * The store and models are opened when they are needed. LECTERN_INVALID_ARGUMENT, with the option
 * as param; LECTERN_LIMIT_EXCEEDED: the system starts no more threads. */
LECTERN_API lectern_code lectern_engine_create(const lectern_engine_options* options,
                                               lectern_engine** engine, lectern_error** error);
/* Sessions and calls that still use the engine keep it alive; it is destroyed with the last of
 * them. */
LECTERN_API lectern_code lectern_engine_free(lectern_engine* engine);
/* Asks every lectern_engine_index, lectern_engine_index_file, lectern_engine_estimate and
 * lectern_session_open of this engine that runs now, and every lectern_index_collection, to end
 * with LECTERN_CANCELLED, and returns at once. Each looks at least every 250 ms, but not while it
 * tokenises the text, waits for another process or brings a model to the GPU; a call that is past
 * its last look succeeds. Any thread. Later calls are not affected. */
LECTERN_API lectern_code lectern_engine_cancel(lectern_engine* engine);

/* Counters of an engine since it was made; they only grow. Sessions of one model that generate at
 * the same time share passes over its weights: step_tokens / step_passes is the mean number of
 * sessions in a pass, 1 if each was alone. Questions are read outside of these passes, and so are
 * the steps of a session that the GPU could not take, which runs alone on the CPU. */
typedef struct lectern_counts {
  size_t struct_size;
  uint64_t step_passes; /* over weights, each for a token of one or more sessions */
  uint64_t step_tokens; /* tokens taken in them */
} lectern_counts;
/* *counts: set its struct_size before; unchanged on failure. */
LECTERN_API lectern_code lectern_engine_counts(const lectern_engine* engine,
                                               lectern_counts* counts);

/* --- indexing -------------------------------------------------------------------------------- */

typedef int32_t lectern_kv_type;
enum lectern_kv_types {
  LECTERN_KV_DEFAULT = 0, /* f16 */
  LECTERN_KV_F16 = 1,
  LECTERN_KV_BF16 = 2,
  LECTERN_KV_F32 = 3,
  LECTERN_KV_Q8 = 4
};

typedef struct lectern_progress {
  size_t struct_size;
  const char* stage; /* "read", "prefill", "cluster", "calibrate", "write"; more may come */
  uint64_t done;     /* prefill: tokens; other stages: items of work */
  uint64_t total;
  double tokens_per_second; /* of the prefill; 0: unknown */
  double eta_seconds;       /* of all that is left; below 0: unknown */
} lectern_progress;
/* 0: go on; anything else cancels. */
typedef int32_t (*lectern_progress_fn)(const lectern_progress* progress, void* user);

/* The progress of indexing a document of a collection. */
typedef struct lectern_collection_progress {
  size_t struct_size;
  const char* document; /* its name in the collection */
  size_t document_len;
  uint64_t number; /* of it among those that are to be indexed, from 1; 0: one, for a question */
  uint64_t count;  /* of these; 0 likewise */
  const lectern_progress* progress; /* of this document */
} lectern_collection_progress;
/* `progress` and all that it points to: valid during the call. 0: go on; anything else cancels. */
typedef int32_t (*lectern_collection_progress_fn)(const lectern_collection_progress* progress,
                                                  void* user);

typedef struct lectern_page { /* never grows: it comes in arrays */
  uint64_t text_begin;        /* byte of the text where the page begins */
  uint64_t page;              /* from 1, below 2^32 */
} lectern_page;

/* A kv budget that follows from measurements made while the document was indexed: the smallest
 * share of the document's keys and values at which answers are predicted to keep max_divergence. */
#define LECTERN_BUDGET_AUTO (-1.0f)

typedef struct lectern_index_options {
  size_t struct_size;
  const char* name; /* points to the document afterwards; empty: made from `source`, or none */
  size_t name_len;
  lectern_kv_type kv_type;
  float kv_budget;                 /* (0, 1] or LECTERN_BUDGET_AUTO: of later asks that name none;
                                      0: LECTERN_BUDGET_AUTO */
  uint32_t num_levels;             /* of clusters: 1, 2 or 3; 0: 2 */
  uint32_t again;                  /* 1: also when it is there, as a new generation: see below */
  uint64_t seed;                   /* of the clustering; 0: 1234 */
  lectern_progress_fn on_progress; /* may be NULL; at least every 250 ms of work, once a model that
                                      is new to the store was hashed, which reads all of it */
  void* progress_user;
  /* The plan of later asks, as in lectern_ask_options. Empty: "uniform" and "global". */
  const char* layer_budget;
  size_t layer_budget_len;
  const char* head_budget;
  size_t head_budget_len;
  /* How keys are assigned to clusters, and coded: "unrotated", assigned without their positions;
   * "queries", likewise, and coded so that the document's own queries can tell most by the codes;
   * "stored", by the keys as they are. Empty or "auto": "queries", but "stored" if a GPU indexes
   * the document. */
  const char* cluster_keys;
  size_t cluster_keys_len;
  /* Share of the document's rows (keys and values) that is stored, in (0, 1]; 0: 1, all. Below 1
   * `retention` chooses the rows: "kv-compress" (or empty), "pyramid", "snapkv", "kvcrush", …; an
   * unknown name is LECTERN_INVALID_ARGUMENT, whose message lists all. Both are part of the
   * document: the same text kept differently is another document. Rows that are not stored are
   * never attended to. Documents of under 2,048 tokens keep everything. */
  double keep;
  const char* retention;
  size_t retention_len;
  double representatives; /* of what is kept, stand in for what goes, in (0, 1]; 0: the method's */
  /* Statistics that are gathered for policies: "window" (or empty), the attention of the last
   * tokens; "full", also that of all tokens, for the policy kv-compress-full: the prefill then
   * takes longer. */
  const char* stats;
  size_t stats_len;
  /* "exact" (or empty): every token of the document attends to all tokens before it. "sparse", for
   * very long documents: tokens from the 16,384th on attend to a share of the keys that lie further
   * back, in [0.02, 1] (0: 0.1), chosen by clusters, and to stand-ins for the rest. This changes
   * keys and values, so the document is another one than the same text prefilled exactly. A share
   * of 1 is exact. */
  const char* prefill;
  size_t prefill_len;
  double prefill_budget;
  /* For a text that came from pages (it must then be valid UTF-8 without a byte order mark): where
   * they begin. Pages and places ascend; a page without text has no entry. Passages then say their
   * page. Pages, like the name, are not part of the document's identity: indexing it again with
   * other pages indexes it once more, taking over its own rows; without pages given it keeps its
   * own. */
  const lectern_page* pages;
  size_t num_pages;
  /* Where the text comes from, the same each time: a file's real path (any bytes); empty: `name`. A
   * text from the same source is the next version of the same document: it takes over that one's
   * names, and the older version is removed when nobody reads it and no name is left to it. A file
   * without `name` gets its base name; if another source has that, as many of its folders are added
   * as tell the two apart, which the note says. Names are stored and compared in Unicode's form
   * NFC. */
  const char* source;
  size_t source_len;
  const char* path; /* that the user gave, absolute, if it is a link to the source; empty: none */
  size_t path_len;
  uint32_t keep_versions; /* 1: the version before stays, reachable by its id */
  uint32_t reserved;      /* 0 */
  /* As in lectern_ask_options, of later asks; 0: 0.01. */
  double max_divergence;
  /* The labels that the pages are printed with ("xii", "A-3"): a line for each of `pages`, each
   * with a newline behind it; an empty line: the page's number is its label. Empty: so for all
   * pages. */
  const char* page_labels;
  size_t page_labels_len;
} lectern_index_options;

typedef struct lectern_index_numbers {
  size_t struct_size;
  uint64_t tokens;
  uint64_t replaced_bytes; /* of invalid UTF-8 */
  uint64_t bytes_on_disk;
  uint64_t generation;
  uint64_t resumed_tokens; /* taken over from an interrupted run */
  uint64_t existed;        /* 1: nothing was done, the same document was there */
  double seconds;
  uint64_t reused_tokens; /* of the document that had the name before: what both texts begin with */
  double kv_budget;       /* of asks that name none; 0: the document existed */
  double divergence;      /* predicted at kv_budget, nats a token; below 0: not measured */
  uint64_t num_parts;     /* that it was cut into, because it is longer than the model's room; other
                             numbers count all of them; 0: it was not */
} lectern_index_numbers;

typedef struct lectern_index_estimate {
  size_t struct_size;
  uint64_t tokens;
  uint64_t bytes_on_disk;      /* of the finished document */
  uint64_t peak_bytes_on_disk; /* while indexing */
  uint64_t free_bytes;         /* of the store's file system */
  uint64_t anonymous_bytes;    /* memory, beside the page cache */
  double flops;                /* of the prefill */
  double seconds;              /* on the CPU, at the speed of a short trial on this machine */
  uint64_t existed;            /* 1: the document is there, indexing would do nothing */
} lectern_index_estimate;

/* Prefills the text, clusters its keys and commits its shards. All or nothing: on error the store
 * is as before, except for a checkpoint from which the same call continues. Indexing the same
 * document again does nothing (`existed`); with `again` it is indexed anew and replaced when that
 * is done: open sessions keep the old generation. A text that is longer than the model's room is
 * cut into parts, which are one document to every call (LECTERN_CONTEXT_TOO_LONG: not even a part
 * has room beside a question). One at a time: a second call gets LECTERN_LOCKED. The digest and
 * quantised weights of the model are kept in the store also after an error; for them a missing
 * store is created. LECTERN_INVALID_ARGUMENT, LECTERN_EMPTY_DOCUMENT, LECTERN_LIMIT_EXCEEDED (more
 * than 1 GiB), LECTERN_CONTEXT_TOO_LONG, LECTERN_NO_SPACE, LECTERN_READ_ONLY, LECTERN_CANCELLED; of
 * the model LECTERN_NOT_FOUND, LECTERN_AMBIGUOUS, LECTERN_UNSUPPORTED_MODEL,
 * LECTERN_MALFORMED_MODEL, LECTERN_UNSAFE_FORMAT, LECTERN_MISSING_FILE, LECTERN_TRUNCATED. */
LECTERN_API lectern_code lectern_engine_index(lectern_engine* engine, const char* bytes, size_t len,
                                              const lectern_index_options* options,
                                              lectern_index_report** report, lectern_error** error);
/* The same for a text file, in UTF-8 or near it, which is read here: LECTERN_NOT_FOUND (it is not
 * there), LECTERN_INVALID_ARGUMENT (a folder, or a PDF, whose text the program has to give),
 * LECTERN_EMPTY_DOCUMENT, LECTERN_IO_ERROR (it may not be read), each with param "path". `source`
 * and `path` of the options are set from the file. */
LECTERN_API lectern_code lectern_engine_index_file(lectern_engine* engine, const char* path,
                                                   size_t path_len,
                                                   const lectern_index_options* options,
                                                   lectern_index_report** report,
                                                   lectern_error** error);
/* Estimates the cost of indexing, with the codes of lectern_engine_index but LECTERN_LOCKED.
 * Changes no document and does not call on_progress; the model is loaded, which may keep its digest
 * and quantised weights in a store that is there. *estimate: set its struct_size before; unchanged
 * on failure. */
LECTERN_API lectern_code lectern_engine_estimate(lectern_engine* engine, const char* bytes,
                                                 size_t len, const lectern_index_options* options,
                                                 lectern_index_estimate* estimate,
                                                 lectern_error** error);
/* The estimate, which is not NULL and has its struct_size, as the JSON object that
 * `index-document --estimate --json` prints. */
LECTERN_API lectern_code lectern_index_estimate_json(const lectern_index_estimate* estimate,
                                                     lectern_text** json, lectern_error** error);

/* Id: 32 hex digits. */
LECTERN_API const char* lectern_index_report_document(const lectern_index_report* report,
                                                      size_t* len);
LECTERN_API const char* lectern_index_report_name(const lectern_index_report* report, size_t* len);
/* The source, as lectern_index_options explains it; "": none was given. */
LECTERN_API const char* lectern_index_report_source(const lectern_index_report* report,
                                                    size_t* len);
/* Id of the previous version, whose names this one has now; "": there was none. The note says where
 * it remains. */
LECTERN_API const char* lectern_index_report_replaced(const lectern_index_report* report,
                                                      size_t* len);
/* The object that `index-document --json` prints. */
LECTERN_API const char* lectern_index_report_json(const lectern_index_report* report, size_t* len);
/* *numbers: set its struct_size before; unchanged on failure. */
LECTERN_API lectern_code lectern_index_report_numbers(const lectern_index_report* report,
                                                      lectern_index_numbers* numbers);
/* Sentences for the user, or empty: changes of names, that the CPU did the work of a GPU, that an
 * interrupted run began anew, and assumptions that were made where the model's files do not say. */
LECTERN_API const char* lectern_index_report_note(const lectern_index_report* report, size_t* len);
/* The note in the words of command lines, as lectern_error_cli_message. */
LECTERN_API const char* lectern_index_report_cli_note(const lectern_index_report* report,
                                                      size_t* len);
LECTERN_API lectern_code lectern_index_report_free(lectern_index_report* report);

/* --- asking ---------------------------------------------------------------------------------- */

/* A piece of the answer as it is decoded, whole code points. 0: go on; anything else ends the
 * answer: what there is is returned with finish reason "cancelled". */
typedef int32_t (*lectern_answer_fn)(const char* text, size_t len, void* user);

/* How to treat a question that draws on much of the document ("whole_document", see
 * lectern_answer_warning). Decided once, after the question and before any text. */
typedef int32_t lectern_fallback;
enum lectern_fallbacks {
  LECTERN_FALLBACK_DEFAULT = 0, /* warn */
  LECTERN_FALLBACK_WARN = 1,    /* answer at the budget, and warn */
  /* Begin again before any text is shown, and read everything. Of a document in parts all are
   * asked, and their answers are put together: lists and summaries one after the other, counts and
   * what is too long by the model. There it is also decided by the question's first words, in
   * English, such as "Summarise", "List all" and "How many". */
  LECTERN_FALLBACK_EXACT = 2
};
/* `done` of `count` parts of a document have answered. 0: go on; anything else ends the question.
 */
typedef int32_t (*lectern_part_fn)(uint64_t done, uint64_t count, void* user);

typedef struct lectern_turn { /* never grows: it comes in arrays */
  const char* question;
  size_t question_len;
  const char* answer;
  size_t answer_len;
} lectern_turn;

typedef struct lectern_string { /* never grows: it comes in arrays */
  const char* text;
  size_t text_len;
} lectern_string;

typedef struct lectern_logit_bias { /* never grows: it comes in arrays */
  int32_t id;                       /* a token of the document's model: lectern_session_tokenize */
  float bias;                       /* [-100, 100]: added to its logit */
} lectern_logit_bias;

typedef struct lectern_likely_token { /* never grows: it comes in arrays */
  int32_t id;
  int32_t reserved;  /* 0 */
  double logprob;    /* natural logarithm of its probability, at most 0 */
  const char* bytes; /* what it stands for in running text; not always whole characters */
  size_t bytes_len;
} lectern_likely_token;

/* A token of the answer. Its probability is that of the softmax of the model's own logits, before
 * temperature, penalties, biases and the choice of the likeliest. */
typedef struct lectern_sampled_token {
  size_t struct_size;
  lectern_likely_token token;
  const lectern_likely_token* likeliest; /* in its place, the likeliest first */
  size_t num_likeliest;
} lectern_sampled_token;
/* `token` and all that it points to: valid during the call. */
typedef void (*lectern_sampled_fn)(const lectern_sampled_token* token, void* user);

/* `name` as in lectern_answer_warning, `note`: a sentence for the user, options named as flags of
 * the command line. Both are valid during the call and end with a 0. */
typedef void (*lectern_warning_fn)(const char* name, const char* note, void* user);

typedef struct lectern_ask_options {
  size_t struct_size;
  float kv_budget;           /* (0, 1] or LECTERN_BUDGET_AUTO; 0: the document's default; 1: exact,
                                reads everything */
  int32_t no_tail;           /* 1: clusters that are not read do not count at all */
  uint32_t max_tokens;       /* of the answer, fewer where no more fit; 0: 256 */
  uint32_t max_evidence;     /* passages; 0: 3 */
  float temperature;         /* [0, 10]; 0: greedy */
  float top_p;               /* (0, 1]; 0: 1 */
  uint64_t seed;             /* of the sampling */
  lectern_answer_fn on_text; /* may be NULL */
  void* text_user;
  lectern_fallback fallback;
  float max_missed; /* (0, 1): every step reads on, past the budget, until at most this share of the
                       attention lies on what it did not read (see the receipt); 0: no limit */
  /* How rows are chosen below a kv_budget of 1: "default"; or whole clusters only, by "threshold"
   * (kv_budget in the mean over questions), "cap" (never above kv_budget) or "top-p" (clusters that
   * hold the share `mass` of the attention, whatever kv_budget says). Empty: "default". */
  const char* rule;
  size_t rule_len;
  double mass; /* (0, 1), of "top-p" alone; 0: 0.95 */
  /* Policies that share kv_budget over layers: "uniform", "pyramid", "squeeze", "kv-compress",
   * "dense-first"; and over the kv heads of a layer: "global" (they compete for it), "uniform",
   * "kv-compress". Empty: the document's. An unknown name is LECTERN_INVALID_ARGUMENT, whose
   * message lists all. */
  const char* layer_budget;
  size_t layer_budget_len;
  const char* head_budget;
  size_t head_budget_len;
  /* After the answer at most this many rows of the conversation are kept for each layer and kv
   * head, in the mean; those that later tokens attended to least are dropped. At least 64; 0: all
   * are kept. */
  uint64_t max_session_rows;
  /* With the first question of a session: questions and answers from before, elsewhere, oldest
   * first, and instructions for all of it. They stand before the question in the chat template's
   * form; text in them is plain text, whatever it looks like. With a later question, which knows
   * the conversation anyway: LECTERN_INVALID_ARGUMENT. */
  const lectern_turn* turns;
  size_t num_turns;
  const char* instructions;
  size_t instructions_len;
  /* Pieces of the model's thoughts before it answers, as on_text. May be NULL. */
  lectern_answer_fn on_reasoning;
  void* reasoning_user;
  /* A token is drawn in these steps: the model's logits, plus logit_bias, minus the penalties,
   * divided by the temperature; softmax; then min_p, then top_k, then top_p select tokens. The
   * penalties, [-2, 2], lower the logit of tokens that the answer has already: frequency_penalty
   * once for each occurrence, presence_penalty once. */
  float frequency_penalty;
  float presence_penalty;
  float min_p;    /* [0, 1]: tokens at least this times as likely as the likeliest one */
  uint32_t top_k; /* this many of the likeliest tokens; 0: all */
  const lectern_logit_bias* logit_bias;
  size_t num_logit_bias;
  /* Texts that end the answer, even if they span tokens: it stops before the first of them, and no
   * part of that text is shown. The model's thoughts may contain them. None may be empty; all
   * together have at most 8,192 bytes. */
  const lectern_string* stop_texts;
  size_t num_stop_texts;
  /* Called for each token of the answer, before on_text gets the last part of its text, with the
   * `top_logprobs` likeliest tokens in its place. Not called for thoughts, control tokens and text
   * that a stop text cut off. May be NULL. */
  lectern_sampled_fn on_token;
  void* token_user;
  uint64_t top_logprobs;
  /* Most that the answer's tokens may diverge from exact ones in the mean, as predicted for the
   * document: KL divergence in nats, (0, 100]. An automatic budget keeps it; a smaller budget gets
   * the warning "low_budget". 0: the document's. */
  double max_divergence;
  /* Called for each warning of the answer as soon as it is known, most of them before the first
   * piece of text. May be NULL. */
  lectern_warning_fn on_warning;
  void* warning_user;
  /* "only": question and answer read the passages that the question's words, and the model's
   * retrieval heads if it has any, point to, and nothing else; small models answer better
   * from less. On a GPU, documents under 2,048 tokens are read whole. "words": these passages
   * are read first, and what is left of the budget as without a focus; rows that are not read do
   * not count. "off": `rule` chooses. "auto", or empty: "only" where the model's adapter was
   * trained so and neither kv_budget nor rule nor max_missed is given, else "off". "words" and
   * "only" go with no max_missed, and have no effect with a kv_budget of 1. */
  const char* focus;
  size_t focus_len;
  /* Called while a document of a collection is indexed for its first question; anything but 0 ends
   * the question. May be NULL. */
  lectern_collection_progress_fn on_index;
  void* index_user;
  /* Called when a part of a document in parts has answered a question that draws on the whole
   * document (LECTERN_FALLBACK_EXACT); anything but 0 ends the question. May be NULL. */
  lectern_part_fn on_part;
  void* part_user;
  /* (0, 1]: for a model that was taught a sentence for "the document does not say": that sentence
   * is the answer, whatever the sampling, where the model gives it at least this probability, and
   * is not where it gives it less. 1: where decoding comes to it. 0: the model's threshold. */
  double refuse_at;
  /* A JSON schema, as JSON text: the answer is JSON that fits it, on one line, with members in the
   * order of the schema. The keywords of JSON Schema are kept, and so are the commonest formats and
   * $ref within the schema; one that cannot be kept, such as "uniqueItems" of any texts, gets the
   * warning "schema_not_kept", with `strict_schema` it is LECTERN_INVALID_ARGUMENT. {"type":
   * "object"} is any object. An answer that max_tokens cut has finish reason "length" and is no
   * whole JSON. A model that thinks does so before. The model's sentence for "the document does not
   * say" is never the answer; the warning "refusal_likely" says where it would have been. A model
   * that was taught plain answers alone is asked for each value of an object by itself, by its
   * description or the words of its key, and numbers, dates, booleans and choices are read out of
   * its plain answers; where it would rather say that sentence, the value is null or left out, if
   * it may be. In a document in parts, and in a collection, each value chooses the parts or
   * documents that are asked for it. Empty: any text.
   */
  const char* json_schema;
  size_t json_schema_len;
  uint64_t strict_schema; /* 1: what cannot be kept is an error */
  /* "auto", or empty: where the latest tokens occurred before, in the document or the conversation,
   * those that followed them are checked in the same pass over the weights, as many as that is
   * worth. The answer is the same, bit for bit. Not on a GPU, and not with max_session_rows.
   * "off": tokens are decoded one by one. */
  const char* lookup_decoding;
  size_t lookup_decoding_len;
} lectern_ask_options;

typedef struct lectern_range { /* never grows: it comes in arrays */
  uint64_t begin, end;         /* bytes [begin, end) of the stored text */
} lectern_range;

typedef struct lectern_evidence {
  size_t struct_size;
  uint64_t begin; /* bytes [begin, end) of the stored text */
  uint64_t end;
  const char* text; /* exactly those bytes; valid until the answer is freed */
  size_t text_len;
  double mass;   /* share of the squared attention paid to the text, in [0, 1] */
  uint64_t page; /* where it begins, from 1; 0: the document has no pages */
  const char* heading; /* headings above it, such as "Chapter 2 > Rent"; valid as text is */
  size_t heading_len;  /* 0: none */
  uint64_t page_end;   /* where it ends, if that is another page than `page`; else 0 */
  /* The probability in [0, 1] that the passage supports the answer, as far as the words of question,
   * answer and passage tell; 0 also where they were not compared. */
  double score;
  /* Words of the passage that question or answer have, too, ascending; valid as text is. */
  const lectern_range* highlights;
  size_t num_highlights;
  /* Where the stored text has the same passage again; valid likewise. */
  const lectern_range* places;
  size_t num_places;
  /* The labels of page and page_end ("xii"); valid likewise. 0 bytes: their numbers. */
  const char* page_label;
  size_t page_label_len;
  const char* page_end_label;
  size_t page_end_label_len;
  /* The name of the document of a collection that has the passage, into whose text all offsets
   * point; valid likewise. 0 bytes: a document was asked, not a collection. */
  const char* document;
  size_t document_len;
} lectern_evidence;

typedef struct lectern_receipt {
  size_t struct_size;
  uint64_t document_tokens;
  uint64_t question_tokens;
  uint64_t answer_tokens;
  double kv_budget;
  double read_fraction_prefill; /* of the document's key and value bytes, in [0, 1]; above 1 after
                                   a fallback, which counts both prefills, as bytes_read does */
  double read_fraction_decode;  /* below 0: no decode step ran */
  uint64_t bytes_read;
  double missed_mass_estimate; /* share of the attention that keys not read would get; below 0: it
                                  was not estimated, with a focus */
  double open_ms;
  double prefill_ms;
  double first_token_ms;
  double per_token_ms;
  double total_ms;
  uint64_t fallback;        /* 1: LECTERN_FALLBACK_EXACT made the answer exact */
  double missed_mass_bound; /* what it cannot exceed, with max_missed; below 0: not known */
  uint64_t max_missed_by;   /* 1: max_missed was kept by that bound in every step and layer; 2: in
                               some by the estimate and the document's margin; 0: no limit */
  double keep;              /* share of the document's rows that is stored, in (0, 1] */
  uint64_t session_rows;    /* of the conversation so far that a next question attends to, per layer
                            and kv head in the mean */
  double prefill_budget; /* lectern_index_options; below 1: what exact mode reads, too, comes of a
                            sparse prefill */
  uint64_t reasoning_tokens; /* those of answer_tokens that the model thought before it answered */
  uint64_t is_auto;          /* 1: kv_budget follows from max_divergence */
  double max_divergence;     /* nats a token */
  double divergence;         /* predicted at kv_budget, of the mean token; below 0: not known */
  uint64_t num_parts;       /* that the document was cut into, because it is longer than its model's
                               room; 0: it was not */
  uint64_t num_asked_parts; /* those that were asked; answer's JSON has their places and answers */
  uint64_t num_documents;   /* of the collection that was asked; 0: a document was asked */
  uint64_t num_asked_documents; /* those that were asked, or that mention what the question asks
                                   for, at most 20; answer's JSON has their names and answers */
  double refusal_probability; /* that the model gave to its own sentence for "the document does not
                                 say", all of it; below 0: it has none, or thinks first, or has no
                                 room for it */
  uint64_t is_refused; /* 1: that sentence is the answer because it was so likely (refuse_at) */
  uint64_t forced_tokens; /* those of answer_tokens that json_schema left no choice for */
  uint64_t proposed_tokens; /* by lookup decoding */
  uint64_t accepted_tokens; /* those of them that were drawn, which took no pass of their own */
} lectern_receipt;

typedef int32_t lectern_offset_unit;
enum lectern_offset_units {
  LECTERN_OFFSET_UTF8 = 0,
  LECTERN_OFFSET_UTF16 = 1,
  LECTERN_OFFSET_CODEPOINT = 2
};

/* `document`: an id; a name; the end of a source's path that includes a folder and fits one
 * document ("b/x.txt" of "/a/b/x.txt"); or empty: the only one (LECTERN_AMBIGUOUS lists them). One
 * that is not indexed to the end is LECTERN_NOT_READY, whose message says whether to wait or to
 * index again. The first session of a model takes as long as opening it, and, if it is new to the
 * store, hashing it. A document stays open, with its verified parts in memory and on its GPU,
 * while one of its sessions lives: if each question has a session of its own, keep another one
 * that is never asked. Opening may keep the model's digest and quantised weights in the store.
 * LECTERN_NOT_FOUND, LECTERN_MODEL_MISMATCH (the message names both sides), LECTERN_MISSING_FILE,
 * LECTERN_TRUNCATED, LECTERN_CHECKSUM_MISMATCH, LECTERN_UNSUPPORTED_VERSION, LECTERN_CANCELLED
 * (lectern_engine_cancel), and codes of the model as lectern_engine_index. */
LECTERN_API lectern_code lectern_session_open(lectern_engine* engine, const char* document,
                                              size_t document_len, lectern_session** session,
                                              lectern_error** error);
/* The indexed text, into which all offsets point. Valid until the session is freed. No NUL is
 * behind it. Empty for a collection, whose passages have the texts of their documents. */
LECTERN_API const char* lectern_session_text(const lectern_session* session, size_t* len);

typedef struct lectern_token { /* never grows: it comes in arrays */
  uint64_t begin, end;         /* bytes [begin, end) of the text that it stands for */
  int32_t id;
  int32_t reserved; /* 0 */
} lectern_token;
typedef void (*lectern_tokens_fn)(const lectern_token* tokens, size_t num_tokens, void* user);
/* Tokenizes `text` alone as the document's model reads it: no template and no control tokens,
 * whatever it contains. Ranges ascend. Byte pieces of one character all have that character's
 * range; a separate mark of the beginning has an empty one. Calls back once.
 * LECTERN_INVALID_ARGUMENT: not UTF-8. LECTERN_LIMIT_EXCEEDED: more than 16 MiB. Any thread, also
 * while the session answers. */
LECTERN_API lectern_code lectern_session_tokenize(const lectern_session* session, const char* text,
                                                  size_t text_len, lectern_tokens_fn on_tokens,
                                                  void* user, lectern_error** error);
/* Asks a question. Follow-ups see what was said before, including answers that were cut short.
 * LECTERN_CANCELLED only when nothing was decoded yet. One ask at a time: a second one gets
 * LECTERN_LOCKED. LECTERN_INVALID_ARGUMENT (also a question without text),
 * LECTERN_BUDGET_TOO_SMALL, LECTERN_CONTEXT_TOO_LONG, LECTERN_CHECKSUM_MISMATCH. After an error the
 * session stands where it stood. */
LECTERN_API lectern_code lectern_session_ask(lectern_session* session, const char* question,
                                             size_t question_len,
                                             const lectern_ask_options* options,
                                             lectern_answer** answer, lectern_error** error);
/* Ends the ask of this session that runs now, within 250 ms; LECTERN_OK also where none runs. Any
 * thread. */
LECTERN_API lectern_code lectern_session_cancel(lectern_session* session);
LECTERN_API lectern_code lectern_session_free(lectern_session* session);

/* The answer, without white space at its end. */
LECTERN_API const char* lectern_answer_text(const lectern_answer* answer, size_t* len);
/* The model's thoughts before its answer: the text between marks such as "<think>" and "</think>";
 * or "". No part of lectern_answer_text. */
LECTERN_API const char* lectern_answer_reasoning(const lectern_answer* answer, size_t* len);
/* Why the answer ended: "end", the model ended it, or began a next question itself;
 * "stop_sequence", one of the stop_texts came; "max_tokens"; "cancelled"; or "repetition", it went
 * round in a loop. The finish reason of the first two and of the last one is "stop", but of JSON
 * that a loop left unfinished "length". */
LECTERN_API const char* lectern_answer_stopped_by(const lectern_answer* answer, size_t* len);
/* "stop", "length" or "cancelled". */
LECTERN_API const char* lectern_answer_finish_reason(const lectern_answer* answer, size_t* len);
/* Text for the user: a short document that was read densely, a fallback, the warnings in words; or
 * "". */
LECTERN_API const char* lectern_answer_note(const lectern_answer* answer, size_t* len);
/* The note in the words of command lines, as lectern_error_cli_message. */
LECTERN_API const char* lectern_answer_cli_note(const lectern_answer* answer, size_t* len);
/* Warnings by stable names, each at most once, in the order in which they became known; more names
 * may be added:
 *  "whole_document"  the question draws on much of the document, and the budget on little
 *  "no_evidence"     no passage has a score of 0.25 or more, or the answer is the model's refusal;
 *                    the evidence is then the nearest passages, or, where no word is shared, those
 *                    of most attention, if any
 *  "cpu_fallback"    the CPU did work that was left to choose or that the GPU's kernels lack
 *  "repetition"      the answer, or a part of it in JSON, went round in a loop and was ended
 *  "low_budget"      at this kv_budget the answer is predicted to diverge from an exact one by more
 *                    than max_divergence; the note says which budget would do */
LECTERN_API size_t lectern_answer_warning_count(const lectern_answer* answer);
/* NULL: no such index. */
LECTERN_API const char* lectern_answer_warning(const lectern_answer* answer, size_t index,
                                               size_t* len);
LECTERN_API size_t lectern_answer_evidence_count(const lectern_answer* answer);
/* The best first, by the words of question and answer (score) and by attention (mass). *evidence:
 * set its struct_size before; unchanged on failure. LECTERN_INVALID_ARGUMENT, param "": no such
 * index. */
LECTERN_API lectern_code lectern_answer_evidence(const lectern_answer* answer, size_t index,
                                                 lectern_evidence* evidence);
/* A document of a collection that was asked, or that mentions the words asked for. */
typedef struct lectern_asked_document {
  size_t struct_size;
  const char* name; /* in the collection; this and all strings: valid until the answer is freed */
  size_t name_len;
  const char* source; /* lectern_collection_document */
  size_t source_len;
  const char* document; /* id; empty: its words alone were looked at */
  size_t document_len;
  double probability; /* by words, that the answer stands here */
  const char* answer; /* the model's answer about this document alone; with values of an object that
                       * were asked for by themselves: each behind its key, "rent": 900 */
  size_t answer_len;
  double support;        /* score of its best passage; 0: it has none */
  double logprob;        /* mean over the answer's tokens, natural logarithm */
  uint64_t is_chosen;    /* 1: its answer is the answer, or a value of it */
  uint64_t is_new;       /* 1: it was indexed for this question */
  uint64_t num_passages; /* that have all words, where words alone were looked at; else 0 */
} lectern_asked_document;
/* The likeliest by words first; as many as the receipt's num_asked_documents. *asked: set its
 * struct_size before; unchanged on failure. LECTERN_INVALID_ARGUMENT, param "index": no such
 * index. */
LECTERN_API lectern_code lectern_answer_asked_document(const lectern_answer* answer, size_t index,
                                                       lectern_asked_document* asked);
/* *receipt: set its struct_size before; unchanged on failure. */
LECTERN_API lectern_code lectern_answer_receipt(const lectern_answer* answer,
                                                lectern_receipt* receipt);
/* The object that `ask-document --json` prints, its offsets in `unit`. Its "attention" has at most
 * 16 passages, those that the answer's attention went to most, which proves no support.
 * LECTERN_INVALID_ARGUMENT, param "offset_unit": no such unit. */
LECTERN_API lectern_code lectern_answer_json(const lectern_answer* answer, lectern_offset_unit unit,
                                             lectern_text** json, lectern_error** error);
/* An answer keeps the document of its session open until it is freed; the session's conversation
 * goes with the session. */
LECTERN_API lectern_code lectern_answer_free(lectern_answer* answer);

/* --- citing ---------------------------------------------------------------------------------- */

typedef struct lectern_cite_options {
  size_t struct_size;
  const char* question; /* that the text answers; it makes citations surer. Empty: not known */
  size_t question_len;
  uint32_t max_evidence; /* passages of each sentence, up to 100; 0: 3 */
  uint32_t reserved;     /* 0 */
} lectern_cite_options;

/* A passage for a sentence of the text that is cited. */
typedef struct lectern_citation {
  size_t struct_size;
  uint64_t begin; /* bytes [begin, end) of the sentence in the given text */
  uint64_t end;
  uint64_t is_supported; /* 1: the sentence's best score is at least 0.25; an answer without such a
                            passage has the warning "no_evidence" */
  const lectern_evidence* evidence; /* mass 0; NULL: no passage shares a word with the
                                       sentence or the question */
} lectern_citation;
/* `citation` and all that it points to: valid during the call. */
typedef void (*lectern_citation_fn)(const lectern_citation* citation, void* user);

/* Finds the passages of a document that support a text of any origin, such as another program's
 * answer, sentence by sentence. It compares words and needs no model. Calls back for each passage
 * of a sentence, the best first, sentences in their order; once for a sentence without a passage.
 * `text` and the question have at most 64 KiB each, UTF-8, and 1,000 sentences. `on_citation` and
 * `json` may be NULL; json:
 * {"document","sentences":[{"begin","end","text","supported","evidence":[…]}],"offset_unit"}, where
 * evidence is as in lectern_answer_json without "mass" and offsets are in `unit`.
 * LECTERN_INVALID_ARGUMENT, LECTERN_LIMIT_EXCEEDED, else the codes of lectern_session_open but
 * LECTERN_MODEL_MISMATCH. A document is opened anew unless a session keeps it open. */
LECTERN_API lectern_code lectern_cite(lectern_engine* engine, const char* document,
                                      size_t document_len, const char* text, size_t text_len,
                                      const lectern_cite_options* options,
                                      lectern_citation_fn on_citation, void* user,
                                      lectern_offset_unit unit, lectern_text** json,
                                      lectern_error** error);

/* --- the store ------------------------------------------------------------------------------- */

typedef struct lectern_name { /* never grows: it comes in arrays */
  const char* name;
  size_t name_len;
  const char* source; /* lectern_index_options; empty: not known */
  size_t source_len;
} lectern_name;

typedef struct lectern_document {
  size_t struct_size;
  const char* id; /* 32 hex digits; this and all strings: valid during the callback */
  size_t id_len;
  const char* name; /* empty: reachable by id only */
  size_t name_len;
  const char* state; /* "ready" or "building" */
  size_t state_len;
  const char* model; /* folder it was indexed with */
  size_t model_len;
  const char* fingerprint; /* 64 hex digits */
  size_t fingerprint_len;
  uint64_t generation;
  uint64_t tokens;
  uint64_t text_bytes;
  uint64_t bytes_on_disk;
  double keep;           /* share of its rows that is stored, in (0, 1] */
  const char* retention; /* which of them; empty: all */
  size_t retention_len;
  const char* weights; /* lectern_engine_options; empty: a recovered catalog cannot tell */
  size_t weights_len;
  double prefill_budget; /* lectern_index_options; below 1: it was prefilled sparsely */
  const char* source;    /* of `name`; empty: not known */
  size_t source_len;
  const lectern_name* names; /* [num_names]: all that point to it, by byte order */
  size_t num_names;
  const char* adapter; /* lectern_engine_options; empty: none, or a recovered catalog cannot tell */
  size_t adapter_len;
  uint64_t num_parts; /* that it was cut into, because it is longer than its model's room; 0: it was
                         not. Tokens and bytes on disk count all of them */
} lectern_document;
typedef void (*lectern_document_fn)(const lectern_document* document, void* user);

typedef struct lectern_shard {
  size_t struct_size;
  const char* file; /* plain name */
  size_t file_len;
  uint64_t bytes;
} lectern_shard;
typedef void (*lectern_shard_fn)(const lectern_shard* shard, void* user);

typedef struct lectern_damage {
  size_t struct_size;
  const char* document; /* id */
  size_t document_len;
  const char* name;
  size_t name_len;
  lectern_code code;
  const char* message; /* the first damage of this document */
  size_t message_len;
  const char* collection; /* name of the collection that is damaged; `document` and `name` are then
                             empty. Empty: a document is */
  size_t collection_len;
} lectern_damage;
typedef void (*lectern_damage_fn)(const lectern_damage* damage, void* user);

/* lectern_engine_list, _show and _verify call back per item and give everything as JSON; either may
 * be NULL. The list has the documents that are ready or building. */
LECTERN_API lectern_code lectern_engine_list(lectern_engine* engine,
                                             lectern_document_fn on_document, void* user,
                                             lectern_text** json, lectern_error** error);
/* One document that is ready, and its shards; nothing is opened but, for the JSON, its plan (null
 * where it cannot be told). `document`, and the codes LECTERN_NOT_FOUND, LECTERN_AMBIGUOUS and
 * LECTERN_NOT_READY: as in lectern_session_open. */
LECTERN_API lectern_code lectern_engine_show(lectern_engine* engine, const char* document,
                                             size_t document_len, lectern_document_fn on_document,
                                             lectern_shard_fn on_shard, void* user,
                                             lectern_text** json, lectern_error** error);
/* The plan of asks that name no policies, and the statistics that policies use. */
typedef struct lectern_document_plan {
  size_t struct_size;
  const char* layer_budget; /* names of the policies */
  size_t layer_budget_len;
  const char* head_budget;
  size_t head_budget_len;
  const char* stats; /* "window", "full"; empty: it has none */
  size_t stats_len;
  double kv_budget;
  uint64_t num_layers;
  uint64_t num_kv_heads;  /* 0 where heads is NULL */
  const double* layers;   /* [num_layers]: share of the layer's rows that a step reads */
  const double* heads;    /* [num_layers][num_kv_heads], of the head's; NULL: they compete */
  const double* cosine;   /* [num_layers]: residual before and after attention; NULL: not known */
  const double* competed; /* [num_layers]: by the policy kv-compress; NULL: not known */
  uint64_t is_auto;       /* 1: kv_budget follows from max_divergence */
  double max_divergence;  /* nats a token */
  double divergence;      /* predicted at kv_budget; below 0: not measured */
} lectern_document_plan;
typedef void (*lectern_plan_fn)(const lectern_document_plan* plan, void* user);
/* Calls back once. Opens the document, not its model. LECTERN_BUDGET_TOO_SMALL where the stored
 * budget is below what a step costs; codes of lectern_session_open. */
LECTERN_API lectern_code lectern_engine_show_plan(lectern_engine* engine, const char* document,
                                                  size_t document_len, lectern_plan_fn on_plan,
                                                  void* user, lectern_error** error);
/* Checks the shards of the document (empty: of every document that is ready, and every collection):
 * sizes and identities, or with `full` every byte. LECTERN_OK also when damage was found: it is in
 * the items, one for each damaged document or collection. */
LECTERN_API lectern_code lectern_engine_verify(lectern_engine* engine, const char* document,
                                               size_t document_len, int32_t full,
                                               lectern_damage_fn on_damage, void* user,
                                               lectern_text** json, lectern_error** error);
/* Changes to a document's plan; empty and 0 fields stay as they are. */
typedef struct lectern_plan_options {
  size_t struct_size;
  const char* layer_budget; /* as in lectern_ask_options */
  size_t layer_budget_len;
  const char* head_budget;
  size_t head_budget_len;
  float kv_budget;   /* (0, 1] or LECTERN_BUDGET_AUTO: of asks that name none */
  uint32_t reserved; /* 0 */
  double max_divergence; /* (0, 100], nats a token */
} lectern_plan_options;
/* Changes the plan of asks that name none. The document is copied to a new generation, not indexed
 * again, and its model answers a few questions to calibrate it. All or nothing;
 * lectern_engine_cancel does not end it. LECTERN_INVALID_ARGUMENT (also where the document lacks
 * the statistics of a policy), LECTERN_BUDGET_TOO_SMALL, LECTERN_NO_SPACE, LECTERN_READ_ONLY,
 * LECTERN_LOCKED, codes of lectern_session_open. */
LECTERN_API lectern_code lectern_engine_plan(lectern_engine* engine, const char* document,
                                             size_t document_len,
                                             const lectern_plan_options* options,
                                             lectern_error** error);
/* Removes by id (or, if `document` is empty, the only one) the document with all its names, or by
 * name this name alone; the document goes with its last name. Readers no longer find it at once;
 * files are deleted when nobody reads them. Documents whose indexing was not finished are removed,
 * too. The end of a path is LECTERN_NOT_FOUND here. LECTERN_AMBIGUOUS, LECTERN_READ_ONLY,
 * LECTERN_LOCKED. */
LECTERN_API lectern_code lectern_engine_remove(lectern_engine* engine, const char* document,
                                               size_t document_len, lectern_error** error);
typedef struct lectern_removed {
  size_t struct_size;
  uint64_t names;            /* that are gone */
  uint64_t is_document_gone; /* 1: the document is */
  uint64_t left;             /* names that it has still */
} lectern_removed;
/* The same, and reports what was removed. *removed: may be NULL, else set its struct_size before;
 * unchanged on failure. `json`, may be NULL:
 * {"removed":id,"names":[…],"document_gone","left":[…]}. */
LECTERN_API lectern_code lectern_engine_remove_named(lectern_engine* engine, const char* document,
                                                     size_t document_len, lectern_removed* removed,
                                                     lectern_text** json, lectern_error** error);

typedef struct lectern_collected {
  size_t struct_size;
  uint64_t generations; /* of documents, whose files were removed */
  uint64_t files;       /* temporary ones, removed */
  uint64_t in_use;      /* generations that are still being read: a later collection's */
  uint64_t unknown;     /* directories with documents that the catalog does not know; left alone */
} lectern_collected;
/* Removes files that no reader can reach: generations that were removed or replaced, leftovers of
 * interrupted writers, and quantised weights that no document needs. Unknown directories are for
 * lectern_engine_recover; a store that lost its catalog gets an empty one. LECTERN_READ_ONLY,
 * LECTERN_LOCKED. *collected: may be NULL, else set its struct_size before; unchanged on failure.
 * `json`, may be NULL: {"generations","files", "in_use","unknown":[directories]}. */
LECTERN_API lectern_code lectern_engine_collect(lectern_engine* engine,
                                                lectern_collected* collected, lectern_text** json,
                                                lectern_error** error);

typedef struct lectern_refused {
  size_t struct_size;
  const char* directory;
  size_t directory_len;
  lectern_code code;
  const char* message;
  size_t message_len;
} lectern_refused;
typedef void (*lectern_refused_fn)(const lectern_refused* refused, void* user);
/* Rebuilds the catalog from the documents' shards if it is damaged, and adds what it lacks. Calls
 * back for each document adopted and each directory refused, which stays as it is: LECTERN_OK also
 * then. LECTERN_READ_ONLY, LECTERN_LOCKED. *replaced, may be NULL: 1 if the catalog was damaged and
 * has been replaced; it is written on success alone. `json`, may be NULL:
 * {"documents":[…],"refused":[{"directory","code","message"}],"replaced"}. */
LECTERN_API lectern_code lectern_engine_recover(lectern_engine* engine,
                                                lectern_document_fn on_document,
                                                lectern_refused_fn on_refused, void* user,
                                                int32_t* replaced, lectern_text** json,
                                                lectern_error** error);
/* Refuses changes from now on (LECTERN_READ_ONLY) and leaves no journal: ready for a read-only
 * medium; documents can still be asked. Collects first, as lectern_engine_collect does, but keeps
 * quantised weights. Removing the file SEALED in the store undoes it. LECTERN_OK if it is sealed
 * already; LECTERN_NOT_FOUND, param "store": there is no store, and none is made;
 * LECTERN_READ_ONLY: it cannot be written; LECTERN_LOCKED: after 2 s another writer still works. */
LECTERN_API lectern_code lectern_engine_seal(lectern_engine* engine, lectern_error** error);
/* Writes one document as a single checksummed file. Every byte is verified before it is copied, to
 * PATH.part, which is renamed at the end. All or nothing. LECTERN_INVALID_ARGUMENT: there is a file
 * at `path` already, or a PATH.part, of another export or left by a crash.
 * LECTERN_CHECKSUM_MISMATCH, LECTERN_NO_SPACE, LECTERN_LOCKED (it is being removed), and the codes
 * of lectern_engine_show. */
LECTERN_API lectern_code lectern_engine_export(lectern_engine* engine, const char* document,
                                               size_t document_len, const char* path,
                                               size_t path_len, lectern_error** error);
/* Takes such a file into the store and calls back with the document. `name` empty: the name it had,
 * with a number if another document has that. The file is its source. All or nothing. Creates the
 * store if there is none. LECTERN_INVALID_ARGUMENT (the name), LECTERN_MISSING_FILE,
 * LECTERN_TRUNCATED, LECTERN_CHECKSUM_MISMATCH, LECTERN_UNSUPPORTED_VERSION,
 * LECTERN_LIMIT_EXCEEDED, LECTERN_NO_SPACE, LECTERN_READ_ONLY, LECTERN_LOCKED. *existed, may be
 * NULL: 1 if the document was there, and only its names changed. `json`, may be NULL:
 * {"document","name","existed","note"}. */
LECTERN_API lectern_code lectern_engine_import(lectern_engine* engine, const char* path,
                                               size_t path_len, const char* name, size_t name_len,
                                               lectern_document_fn on_document, void* user,
                                               int32_t* existed, lectern_text** json,
                                               lectern_error** error);

/* --- collections ----------------------------------------------------------------------------- */

/* A collection is a set of texts, its documents, to which questions are put as one. The store keeps
 * the texts and an index of all their words, so that the few documents in which an answer may stand
 * are found without a model, and only these are asked. A document is indexed for a model when it is
 * first asked, or by lectern_index_collection.
 *
 * `collection` is always a name: UTF-8 of at most 80 bytes without control characters. "all" is the
 * collection of all documents of the store, unless one was made of this name; it is brought up to
 * date when it is used. Where there is no collection of the name, every call but
 * lectern_collection_add and lectern_collection_add_document is LECTERN_NOT_FOUND, param
 * "collection". All calls may give LECTERN_INVALID_ARGUMENT (the name), LECTERN_LOCKED (another
 * process writes for 5 s), LECTERN_CORRUPT, LECTERN_IO_ERROR and LECTERN_NO_SPACE, and those that
 * change the collection LECTERN_READ_ONLY. Calls with `json` (may be NULL) and a function for items
 * (may be NULL) give the same in both; items and what they point to are valid during the call. */
typedef struct lectern_collection {
  size_t struct_size;
  const char* name;
  size_t name_len;
  uint64_t num_documents;
  uint64_t num_indexed; /* of them, that have been indexed */
  uint64_t text_bytes;
  uint64_t bytes_on_disk; /* of texts and words, without keys and values of indexed documents */
} lectern_collection;
typedef void (*lectern_collection_fn)(const lectern_collection* collection, void* user);
/* The collections of the store, in byte order of their names; "all" is among them once it was used.
 * `json`: {"collections":[{"name","documents","indexed","text_bytes","bytes_on_disk"}]}. */
LECTERN_API lectern_code lectern_list_collections(lectern_engine* engine,
                                                  lectern_collection_fn on_collection, void* user,
                                                  lectern_text** json, lectern_error** error);

typedef struct lectern_collection_document {
  size_t struct_size;
  const char* name; /* no other document of the collection has it */
  size_t name_len;
  const char* source; /* where its text came from; empty: not known */
  size_t source_len;
  const char* document; /* id in the store; empty: it is not indexed */
  size_t document_len;
  uint64_t text_bytes;
} lectern_collection_document;
typedef void (*lectern_collection_document_fn)(const lectern_collection_document* document,
                                               void* user);
/* The documents of a collection, in byte order of their names.
 * `json`: {"collection","documents":[{"name","source","document","text_bytes"}]}. */
LECTERN_API lectern_code lectern_collection_documents(lectern_engine* engine,
                                                      const char* collection, size_t collection_len,
                                                      lectern_collection_document_fn on_document,
                                                      void* user, lectern_text** json,
                                                      lectern_error** error);
/* The text of a document of a collection, by its name there, into which the offsets of its passages
 * point; it need not be indexed. LECTERN_NOT_FOUND, param "document". */
LECTERN_API lectern_code lectern_collection_text(lectern_engine* engine, const char* collection,
                                                 size_t collection_len, const char* document,
                                                 size_t document_len, lectern_text** text,
                                                 lectern_error** error);

typedef struct lectern_text_to_add { /* never grows: it comes in arrays */
  const char* name;                  /* empty: one is made from `path`, or else from `source` */
  size_t name_len;
  const char* source; /* lectern_index_options; a text from the same source replaces it */
  size_t source_len;
  const char* path; /* lectern_index_options; empty: `source` */
  size_t path_len;
  const char* bytes; /* as lectern_engine_index takes them */
  size_t bytes_len;
  const lectern_page* pages; /* lectern_index_options */
  size_t num_pages;
  const char* page_labels; /* lectern_index_options */
  size_t page_labels_len;
} lectern_text_to_add;

typedef int32_t lectern_change;
enum lectern_changes {
  LECTERN_CHANGE_NEW = 0,
  LECTERN_CHANGE_RENEWED = 1,  /* there was another text of this source or name */
  LECTERN_CHANGE_UNCHANGED = 2 /* the same text was there */
};
typedef struct lectern_added {
  size_t struct_size;
  const char* name; /* that the document has in the collection */
  size_t name_len;
  lectern_change change;
  int32_t reserved; /* 0 */
} lectern_added;
typedef void (*lectern_added_fn)(const lectern_added* added, void* user);
/* Adds texts to a collection, which is made if it is missing, and so is the store; needs no model.
 * All or nothing. Costs about 0.4 s for 1 MB of text. Calls back for each text, in their order.
 * LECTERN_EMPTY_DOCUMENT, LECTERN_INVALID_ARGUMENT, LECTERN_LIMIT_EXCEEDED: the message names the
 * text. `json`: {"collection","added":[{"name","change":"new", "renewed" or "unchanged"}]}. */
LECTERN_API lectern_code lectern_collection_add(lectern_engine* engine, const char* collection,
                                                size_t collection_len,
                                                const lectern_text_to_add* texts, size_t num_texts,
                                                lectern_added_fn on_added, void* user,
                                                lectern_text** json, lectern_error** error);
/* Adds a document of the store, whose text is copied; `document` and its codes: as in
 * lectern_session_open. */
LECTERN_API lectern_code lectern_collection_add_document(
    lectern_engine* engine, const char* collection, size_t collection_len, const char* document,
    size_t document_len, lectern_added_fn on_added, void* user, lectern_text** json,
    lectern_error** error);
/* Takes a document out, by its name in the collection; if it was indexed, that stays in the store.
 * LECTERN_NOT_FOUND, param "document". */
LECTERN_API lectern_code lectern_collection_remove(lectern_engine* engine, const char* collection,
                                                   size_t collection_len, const char* document,
                                                   size_t document_len, lectern_error** error);
/* Gives a document another name in the collection. LECTERN_NOT_FOUND, param "document";
 * LECTERN_INVALID_ARGUMENT, param "name": `to` is no name, or taken. */
LECTERN_API lectern_code lectern_collection_rename_document(lectern_engine* engine,
                                                            const char* collection,
                                                            size_t collection_len, const char* from,
                                                            size_t from_len, const char* to,
                                                            size_t to_len, lectern_error** error);
/* Removes a collection; documents that were indexed from its texts stay in the store. */
LECTERN_API lectern_code lectern_remove_collection(lectern_engine* engine, const char* collection,
                                                   size_t collection_len, lectern_error** error);
/* LECTERN_INVALID_ARGUMENT, param "name": `to` is no name, or taken. */
LECTERN_API lectern_code lectern_rename_collection(lectern_engine* engine, const char* collection,
                                                   size_t collection_len, const char* to,
                                                   size_t to_len, lectern_error** error);
/* Reads every text of a collection and checks it. LECTERN_CORRUPT: remove the collection and add
 * its files again. */
LECTERN_API lectern_code lectern_verify_collection(lectern_engine* engine, const char* collection,
                                                   size_t collection_len, lectern_error** error);

/* Opens a conversation about a collection; the session is asked, cancelled and freed as others are.
 * Each question goes to the documents that its words make likeliest, one after the other, until no
 * other one could give a likelier answer, by words and support; eight at most, or four that have to
 * be indexed first. The answer and its passages are those of the likeliest. A question that asks
 * which documents mention something is answered from words alone. Documents and models are opened
 * as questions need them: lectern_session_ask may then also give the codes of lectern_session_open
 * and of lectern_engine_index, and LECTERN_INVALID_ARGUMENT, param "model", where no document is
 * indexed and the engine has no model. lectern_session_tokenize is LECTERN_NOT_READY until a
 * document is indexed. */
LECTERN_API lectern_code lectern_open_collection(lectern_engine* engine, const char* collection,
                                                 size_t collection_len, lectern_session** session,
                                                 lectern_error** error);

typedef struct lectern_mention {
  size_t struct_size;
  const char* name; /* lectern_collection_document */
  size_t name_len;
  const char* source;
  size_t source_len;
  const char* document;
  size_t document_len;
  uint64_t num_passages;           /* in which the words stand */
  const lectern_evidence* passage; /* the first of them; its mass and score are 0 */
} lectern_mention;
typedef void (*lectern_mention_fn)(const lectern_mention* mention, void* user);
/* Finds the documents with a passage in which the words follow one another, or, where no document
 * has one, that has all of them; needs no model. Those with the most such passages come first, at
 * most `most` (0: 100). Stop words count only if there are no others. *num_documents, may be NULL:
 * how many documents there are; written on success alone. `json`:
 * {"collection","words","count","documents":[{"name","source","document","passages","passage"}],
 * "offset_unit"}, offsets in `unit`. */
LECTERN_API lectern_code lectern_find_mentions(lectern_engine* engine, const char* collection,
                                               size_t collection_len, const char* words,
                                               size_t words_len, uint64_t most,
                                               lectern_mention_fn on_mention, void* user,
                                               uint64_t* num_documents, lectern_offset_unit unit,
                                               lectern_text** json, lectern_error** error);

typedef struct lectern_indexed_collection {
  size_t struct_size;
  uint64_t indexed;  /* documents now */
  uint64_t existed;  /* that were indexed before */
  uint64_t left;     /* that are not, because quota or disk leave no room */
  uint64_t failures; /* that could not be indexed for another reason; the JSON's note says why */
} lectern_indexed_collection;
/* Indexes the documents of a collection that are not indexed with the engine's model yet, in the
 * order in which they were added, until the quota or the disk is full. `options`: for each of them;
 * their name, source, path, pages and page_labels must be empty, on_progress is not called. A
 * document that cannot be indexed is passed over. lectern_engine_cancel ends it with
 * LECTERN_CANCELLED, and so does `on_progress` (may be NULL); documents that were done stay.
 * *indexed: may be NULL, else set its struct_size before; unchanged on failure. `json`:
 * {"collection","indexed","existed","left","failures","failed","note"}. Codes of the model as
 * lectern_engine_index. */
LECTERN_API lectern_code lectern_index_collection(lectern_engine* engine, const char* collection,
                                                  size_t collection_len,
                                                  const lectern_index_options* options,
                                                  lectern_collection_progress_fn on_progress,
                                                  void* user, lectern_indexed_collection* indexed,
                                                  lectern_text** json, lectern_error** error);

/* --- JSON, for tools that print and read what the engine does -------------------------------- */

/* {"error":{…}} as tools and the REST endpoint print it. `param` may be empty.
 * LECTERN_INVALID_ARGUMENT: `code` is LECTERN_OK. */
LECTERN_API lectern_code lectern_error_json(lectern_code code, const char* message,
                                            size_t message_len, const char* param, size_t param_len,
                                            lectern_text** json, lectern_error** error);
/* The string member `key` of a JSON object: LECTERN_NOT_FOUND when there is none, and
 * LECTERN_INVALID_ARGUMENT when `json` is no object or the member no string. */
LECTERN_API lectern_code lectern_json_get_string(const char* json, size_t json_len, const char* key,
                                                 size_t key_len, lectern_text** value,
                                                 lectern_error** error);
/* The JSON object with the string member `key` set to `value`, replaced or added; on one line, with
 * sorted keys. LECTERN_INVALID_ARGUMENT: `json` is no object. */
LECTERN_API lectern_code lectern_json_set_string(const char* json, size_t json_len, const char* key,
                                                 size_t key_len, const char* value,
                                                 size_t value_len, lectern_text** result,
                                                 lectern_error** error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LECTERN_ENGINE_LECTERN_C_H_ */
