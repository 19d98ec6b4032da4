// The options of the engine. Those of requests are in options.cc.
#include "engine/requests/options.h"

namespace lectern {

// By its number in lectern_c.h.
static OptionValue ToValue(Io io) {
  return uint64_t{io == Io::kMmap ? LECTERN_IO_MMAP : LECTERN_IO_PREAD};
}
static void FromValue(const OptionValue& value, Io& io) {
  io = std::get<uint64_t>(value) == LECTERN_IO_MMAP ? Io::kMmap : Io::kPread;
}

std::span<const EngineOptionRow> EngineOptionRows() {
  using C = lectern_engine_options;
  using A = api::EngineOptions;
  using E = EngineOptions;
  static constexpr EngineOptionRow kRows[] = {
      {{.name = "store",
        .kind = OptionKind::kText,
        .surfaces = kStoreTool,
        .is_never_empty = true,
        .has_variable = true,
        .help = "Folder with the indexed documents",
        .default_text = "$XDG_DATA_HOME/lectern, else ~/.local/share/lectern",
        .value_name = "DIR"},
       AtText<&C::store, &C::store_len>(),
       At<&A::store>(),
       At<&E::store>()},
      {{.name = "quota",
        .kind = OptionKind::kBytes,
        .surfaces = kWritingTool,
        .has_variable = true,
        .help = "Most disk space for the store, such as 500MB or 2GiB; what would exceed it is "
                "refused beforehand",
        .default_text = "unlimited",
        .value_name = "SIZE"},
       AtOrZero<&C::quota_bytes>(),
       At<&A::quota_bytes>(),
       At<&E::quota_bytes>()},
      // Which model is used where none is named differs between the tools.
      {{.name = "model",
        .kind = OptionKind::kText,
        .surfaces = kModelTool,
        .has_variable = true,
        .help = "The language model: a Hugging Face folder, a .gguf file, or the name of a model "
                "that Ollama has, such as llama3.2:1b",
        .value_name = "PATH"},
       AtText<&C::model, &C::model_len>(),
       At<&A::model>(),
       At<&E::model>()},
      {{.name = "weights",
        .kind = OptionKind::kChoice,
        .surfaces = kModelTool,
        .choices = {"stored", "q8", "q4"},
        .has_variable = true,
        .help = "Precision of the model's weights: stored (as in its files), q8 or q4 (8 or 4 "
                "bits: less memory, faster, a little less exact)",
        .default_text = "what the document was indexed with; for indexing: stored",
        .value_name = "W"},
       AtText<&C::weights, &C::weights_len>(),
       At<&A::weights>(),
       At<&E::weights>()},
      {{.name = "adapter",
        .kind = OptionKind::kText,
        .surfaces = kModelTool,
        .has_variable = true,
        .help = "LoRA adapter to use with the model: a folder of PEFT's or a GGUF file",
        .default_text = "what the document was indexed with; for indexing: none",
        .value_name = "PATH"},
       AtText<&C::adapter, &C::adapter_len>(),
       At<&A::adapter>(),
       At<&E::adapter>()},
      {{.name = "chat_template",
        .kind = OptionKind::kText,
        .surfaces = kModelTool,
        .has_variable = true,
        .help = "How questions are worded for the model: a file with its chat template (Jinja), or "
                "the name of a built-in one: plain, llama3, chatml, ...",
        .default_text = "what the document was indexed with; for indexing: the model's own",
        .value_name = "T"},
       AtText<&C::chat_template, &C::chat_template_len>(),
       At<&A::chat_template>(),
       At<&E::chat_template>()},
      {{.name = "threads",
        .kind = OptionKind::kWhole,
        .surfaces = kModelTool,
        .range = {.least = 1, .most = 1024},
        .has_variable = true,
        .help = "Number of threads",
        .default_text = "one for each physical core that this process may use",
        .value_name = "N"},
       AtOrZero<&C::num_threads>(),
       At<&A::num_threads>(),
       AtOrZero<&E::num_threads>()},
      {{.name = "io",
        .kind = OptionKind::kEnumeration,
        .surfaces = kModelTool,
        .choices = {"mmap", "pread"},
        .has_variable = true,
        .help = "How files are read: mmap (fastest), or pread (a file that shrinks or cannot be "
                "read later is an error, where mmap would end the program)",
        .default_text = "mmap",
        .value_name = "I"},
       AtOrZero<&C::io>(),
       At<&A::io>(),
       At<&E::io>()},
      {{.name = "max_ram",
        .kind = OptionKind::kBytes,
        .surfaces = kModelTool,
        .has_variable = true,
        .help = "Most memory to use beside the program itself, such as 500MB or 2GiB; what needs "
                "more is refused beforehand",
        .default_text = "seven eighths of the limit of a container or control group, else "
                        "unlimited",
        .value_name = "SIZE"},
       AtOrZero<&C::max_ram_bytes>(),
       At<&A::max_ram_bytes>(),
       At<&E::max_ram_bytes>()},
      {{.name = "rehash",
        .kind = OptionKind::kFlag,
        .surfaces = kModelTool,
        .help = "Check by their hash that the model's files are the same, even if sizes and times "
                "say so"},
       AtFlag<&C::rehash_model>(),
       At<&A::rehash_model>(),
       At<&E::rehash_model>()},
      {{.name = "nice", .kind = OptionKind::kWhole, .range = {.least = 0, .most = 19}},
       AtOrZero<&C::nice>(),
       At<&A::nice>(),
       At<&E::nice>()},
      {{.name = "ollama_models", .kind = OptionKind::kText},
       AtText<&C::ollama_models, &C::ollama_models_len>(),
       At<&A::ollama_models>(),
       At<&E::ollama_models>()},
      {{.name = "device",
        .kind = OptionKind::kText,
        .surfaces = kDeviceTool,
        .has_variable = true,
        .help = "Where to compute: cpu, cuda (the first NVIDIA GPU), cuda:N (GPU number N), or "
                "auto (a GPU if one can be used, else the CPU)",
        .default_text = "cpu",
        .value_name = "D"},
       AtText<&C::device, &C::device_len>(),
       At<&A::device>(),
       At<&E::device>()},
      {{.name = "device_memory",
        .kind = OptionKind::kBytes,
        .surfaces = kDeviceTool,
        .has_variable = true,
        .help = "Most memory of the GPU to use, such as 8GB or 20GiB",
        .default_text = "nearly all that is free",
        .value_name = "SIZE"},
       AtOrZero<&C::device_memory_bytes>(),
       At<&A::device_memory_bytes>(),
       At<&E::device_memory_bytes>()},
  };
  return kRows;
}

}  // namespace lectern
