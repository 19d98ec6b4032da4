#!/usr/bin/env python3
"""Every architecture that Lectern runs, from a Hugging Face checkpoint through llama.cpp's converter and
quantiser to an answer.

    converter.py --bin BUILD/tools --logits BUILD/tests/evaluation/gguf_logits --llama-cpp FOLDER
                 --models FOLDER --text FILE --work FOLDER [ARCHITECTURE…]

Needs gguf, numpy, sentencepiece, protobuf, tokenizers, torch, transformers and llama-cpp-python from
PyPI; without the last one (--without-library) transformers chooses the tokens, and only the folder and the
converter's file are compared with it. --llama-cpp is the source of llama.cpp: convert_hf_to_gguf.py and the vocabularies of models/.

A checkpoint has random weights of a seed of its own, float16, norms and biases too, and a real vocabulary
whose tokenizer files are written from a GGUF file of it. Indexed and asked with --exact are the folder
itself and what the converter (f16) and the quantiser make of it. Logits: after CONTEXT tokens of the
text come STEPS that llama.cpp chooses greedily from the same file (of the folder: from the f16 file);
ours are compared with llama.cpp's, and those of float16 weights with transformers', too. The choice has
to be the same wherever the reference prefers its own by more than CLEAR standard deviations of the
logits; a distance is in those deviations. The folder and the f16 file have to give the same answer.
"""
import argparse
import ctypes
import json
import pathlib
import shutil
import subprocess
import sys
import zlib

import gguf
import numpy as np
import sentencepiece.sentencepiece_model_pb2 as sentencepiece_model
import tokenizers
import torch
import transformers

CONTEXT, STEPS, CLEAR, MOST_DISTANCE = 256, 32, 0.1, 0.15
TYPES = {"Q8_0": 7, "Q4_0": 2, "Q4_1": 3, "Q5_0": 8, "Q4_K_M": 15, "Q6_K": 18, "Q2_K": 10,
         "Q3_K_M": 12, "IQ4_NL": 25, "IQ4_XS": 30}  # llama_ftype
QUESTION = "Who built the lighthouse?"
SHAPE = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
         "initializer_range": 0.06}
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 1024}
# Patterns that cut words, as they are published with the models.
LLAMA3_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
                r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2_WORDS = LLAMA3_WORDS.replace(r"\p{N}{1,3}", r"\p{N}")
EXPERTS = {"intermediate_size": 256, "moe_intermediate_size": 256, "num_experts_per_tok": 3}
# Each architecture's class in transformers, its vocabulary, and what its configuration adds. GGUF has no key for
# query_pre_attn_scalar: readers take head_dim for it, as the small models of Gemma have it.
ARCHITECTURES = {
    "llama": ("Llama", "llama-spm", {}),
    "llama3": ("Llama", "llama-bpe", {"rope_parameters": LLAMA3_ROPE, "tie_word_embeddings": True}),
    "mistral": ("Mistral", "llama-spm", {"sliding_window": None, "head_dim": 64}),
    "qwen2": ("Qwen2", "qwen2", {"use_sliding_window": False}),
    "qwen3": ("Qwen3", "qwen2", {"head_dim": 128, "tie_word_embeddings": True}),
    "gemma2": ("Gemma2", "gemma3", {"head_dim": 128, "query_pre_attn_scalar": 128,
                                    "sliding_window": 96, "num_hidden_layers": 4}),
    "gemma3": ("Gemma3", "gemma3", {"head_dim": 128, "query_pre_attn_scalar": 128,
                                    "sliding_window": 96, "num_hidden_layers": 6}),
    "phi3": ("Phi3", "phi-3", {"pad_token_id": 32000, "sliding_window": None}),
    "phi4mini": ("Phi3", "phi-3", {"pad_token_id": 32000, "sliding_window": None,
                                   "partial_rotary_factor": 0.75, "tie_word_embeddings": True}),
    "granite": ("Granite", "qwen2", {"embedding_multiplier": 3.0, "residual_multiplier": 0.5,
                                     "attention_multiplier": 0.1, "logits_scaling": 2.0}),
    "granite4": ("GraniteMoeHybrid", "qwen2", {
        "embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.1,
        "logits_scaling": 2.0, "num_local_experts": 0, "num_experts_per_tok": 0,
        "shared_intermediate_size": 512, "position_embedding_type": "rope",
        "layer_types": ["attention"] * 2}),
    "olmo2": ("Olmo2", "qwen2", {}),
    "olmo3": ("Olmo3", "qwen2", {"sliding_window": 96, "num_hidden_layers": 4}),
    "smollm3": ("SmolLM3", "llama-bpe", {"num_hidden_layers": 4, "pad_token_id": 128004}),
    "exaone4": ("Exaone4", "qwen2", {"sliding_window": 96, "num_hidden_layers": 4}),
    "cohere": ("Cohere", "qwen2", {"logit_scale": 0.25}),
    "cohere2": ("Cohere2", "qwen2", {"logit_scale": 0.25, "rotary_pct": 1.0, "sliding_window": 96,
                                     "num_hidden_layers": 4, "head_dim": 64}),
    # The converter reads neither its epsilon nor its positions, but fields of ChatGLM's.
    "glm": ("Glm", "qwen2", {"head_dim": 64, "partial_rotary_factor": 0.5, "attention_bias": True,
                             "pad_token_id": 0, "rms_norm_eps": 1e-5, "seq_length": 4096}),
    "glm4": ("Glm4", "qwen2", {"head_dim": 64, "partial_rotary_factor": 0.5}),
    "mixtral": ("Mixtral", "llama-spm", {**EXPERTS, "num_local_experts": 6, "sliding_window": None}),
    "qwen2moe": ("Qwen2Moe", "qwen2", {**EXPERTS, "num_experts": 8,
                                       "shared_expert_intermediate_size": 256}),
    "qwen3moe": ("Qwen3Moe", "qwen2", {**EXPERTS, "num_experts": 8, "norm_topk_prob": True,
                                       "head_dim": 64}),
    "olmoe": ("Olmoe", "qwen2", {**EXPERTS, "num_experts": 8}),
    "granitemoe": ("GraniteMoe", "qwen2", {**EXPERTS, "num_local_experts": 6,
                                           "attention_multiplier": 0.1, "logits_scaling": 2.0}),
    "gptoss": ("GptOss", "qwen2", {**EXPERTS, "num_local_experts": 6, "sliding_window": 64,
                                   "head_dim": 64, "num_hidden_layers": 4,
                                   "layer_types": ["sliding_attention", "full_attention"] * 2}),
}
# Tokens that the converter looks for by their texts, and those of the vocabulary that get the texts.
RENAMED = {name: {"<|im_start|>": "<|user|>"} for name in ("glm", "glm4")}
GEMMA3_FILE = "gemma-3-270m-q4_k_m.gguf"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4


class Vocabulary:
    """A vocabulary of a GGUF file, as tokenizer files of a Hugging Face folder."""

    def __init__(self, path):
        self.fields = gguf.GGUFReader(path).fields
        self.pieces, self.types = self.get("tokens"), self.get("token_type")

    def get(self, name, default=None):
        field = self.fields.get("tokenizer.ggml." + name)
        return default if field is None else field.contents()

    def chat_template(self):
        field = self.fields.get("tokenizer.chat_template")
        return None if field is None else field.contents()

    def ids(self):
        names = {"bos_token_id": "bos_token_id", "eos_token_id": "eos_token_id"}
        return {name: self.get(key) for name, key in names.items() if self.get(key) is not None}

    def write(self, folder):
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token":
                  bool(self.get("add_bos_token", False)), "clean_up_tokenization_spaces": False}
        for name, key in (("bos_token", "bos_token_id"), ("eos_token", "eos_token_id"),
                          ("unk_token", "unknown_token_id"), ("pad_token", "padding_token_id")):
            if self.get(key) is not None:
                config[name] = self.pieces[self.get(key)]
        if self.chat_template():
            config["chat_template"] = self.chat_template()
        if self.get("merges"):
            self.write_byte_level(folder)
        else:
            config["tokenizer_class"] = "LlamaTokenizer"
            config["added_tokens_decoder"] = self.write_sentencepiece(folder)
        (folder / "tokenizer_config.json").write_text(json.dumps(config))

    def write_sentencepiece(self, folder):
        """-> what comes after the pieces of tokenizer.model: phi-3's has those of llama."""
        model = sentencepiece_model.ModelProto()
        size = 32000 if len(self.pieces) == 32064 else len(self.pieces)
        unknown = self.get("unknown_token_id")
        for i, (piece, score) in enumerate(zip(self.pieces[:size], self.get("scores"))):
            kind = UNKNOWN if i == unknown else int(self.types[i])
            model.pieces.add(piece=piece, score=score, type=kind)
        model.trainer_spec.model_type = 2  # BPE
        model.trainer_spec.byte_fallback = True
        model.trainer_spec.vocab_size = size
        for name, key in (("unk_id", "unknown_token_id"), ("bos_id", "bos_token_id"),
                          ("eos_id", "eos_token_id")):
            if self.get(key) is not None and self.get(key) < size:
                setattr(model.trainer_spec, name, self.get(key))
        model.trainer_spec.unk_piece = self.pieces[unknown]
        model.normalizer_spec.name = "identity"
        model.normalizer_spec.add_dummy_prefix = self.get("add_space_prefix", True)
        model.normalizer_spec.remove_extra_whitespaces = False
        model.normalizer_spec.escape_whitespaces = True
        (folder / "tokenizer.model").write_bytes(model.SerializeToString())
        return {str(i): {"content": self.pieces[i], "special": True, "normalized": False,
                         "lstrip": False, "rstrip": False, "single_word": False}
                for i in range(size, len(self.pieces)) if self.types[i] == CONTROL}

    def write_byte_level(self, folder):
        is_llama3 = self.get("pre") == "llama-bpe"
        normal = {p: i for i, p in enumerate(self.pieces) if self.types[i] == NORMAL}
        merges = [tuple(merge.split(" ")) for merge in self.get("merges")]
        made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=normal, merges=merges,
                                                          ignore_merges=is_llama3))
        if not is_llama3:
            made.normalizer = tokenizers.normalizers.NFC()
        words = tokenizers.Regex(LLAMA3_WORDS if is_llama3 else QWEN2_WORDS)
        byte_level = {"add_prefix_space": False, "use_regex": False}
        made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
            [tokenizers.pre_tokenizers.Split(words, "isolated"),
             tokenizers.pre_tokenizers.ByteLevel(**byte_level)])
        made.decoder = tokenizers.decoders.ByteLevel(**byte_level)
        made.add_special_tokens([tokenizers.AddedToken(p, special=True, normalized=False)
                                 for p, t in zip(self.pieces, self.types) if t == CONTROL])
        if is_llama3:
            bos = self.pieces[self.get("bos_token_id")]
            made.post_processor = tokenizers.processors.TemplateProcessing(
                single=f"{bos} $A", special_tokens=[(bos, self.get("bos_token_id"))])
        made.save(str(folder / "tokenizer.json"))


def write_as_published(folder, name):
    """Changes a folder that transformers wrote into one as the model's makers publish them."""
    config = json.loads((folder / "config.json").read_text())
    if name == "granite4":  # transformers 5 writes "full_attention", which the converter does not know
        config["layer_types"] = ["attention"] * config["num_hidden_layers"]
    (folder / "config.json").write_text(json.dumps(config))


def make_checkpoint(folder, name, vocabulary):
    """A random model of this architecture and its tokenizer; returns the model, in float32."""
    class_name, _, more = ARCHITECTURES[name]
    prefix = class_name + ("Text" if class_name == "Gemma3" else "")
    config = getattr(transformers, prefix + "Config")(
        **{**SHAPE, "vocab_size": len(vocabulary.pieces), **vocabulary.ids(), **more})
    torch.manual_seed(zlib.crc32(name.encode()))
    model = getattr(transformers, class_name + "ForCausalLM")(config)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.ndim == 1:  # norms and biases: not all ones and zeros
                parameter += 0.2 * torch.randn_like(parameter)
            elif "embed" in parameter_name and class_name.startswith("Gemma"):
                parameter *= 1.0 / 16 / 0.06  # times sqrt(hidden): as large as other embeddings
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model.half().save_pretrained(folder)
    vocabulary.write(folder)
    # Read again: half() has rounded the angles of RoPE, too.
    model = type(model).from_pretrained(folder, dtype=torch.float32).eval()
    write_as_published(folder, name)
    return model


class NoLibrary:
    """Tokens by transformers; nothing is quantised, and there are no logits of llama.cpp."""

    def tokens(self, folder, text):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        return tokenizer(text.decode())["input_ids"][:CONTEXT]

    def greedy(self, model, ids, num):
        chosen = []
        with torch.no_grad():
            for _ in range(num):
                logits = model(input_ids=torch.tensor([ids + chosen]), logits_to_keep=1).logits
                chosen.append(int(logits[0, -1].argmax()))
        return chosen


class LlamaCpp:
    def __init__(self):
        import llama_cpp
        self.lib = llama_cpp
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, ctypes.c_void_p(0))

    def quantise(self, source, target, ftype):
        params = self.lib.llama_model_quantize_default_params()
        params.ftype, params.nthread = ftype, 2
        status = self.lib.llama_model_quantize(str(source).encode(), str(target).encode(),
                                               ctypes.byref(params))
        assert status == 0, f"llama_model_quantize: {status}"

    def tokens(self, path, text):
        llm = self.lib.Llama(model_path=str(path), vocab_only=True, verbose=False)
        return llm.tokenize(text, add_bos=True)[:CONTEXT]

    def greedy(self, path, ids, num):
        """`num` tokens and the logits after each of them."""
        lib = self.lib
        model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
        assert model, f"llama.cpp does not load {path}"
        params = lib.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = 2
        params.flash_attn_type = 0
        params.type_k = params.type_v = 0  # f32
        handle = lib.llama_init_from_model(model, params)
        size = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
        rows, chosen, part = [], [], list(ids)
        for _ in range(num + 1):
            array = (lib.llama_token * len(part))(*[int(i) for i in part])
            assert lib.llama_decode(handle, lib.llama_batch_get_one(array, len(part))) == 0
            rows.append(np.ctypeslib.as_array(lib.llama_get_logits_ith(handle, -1),
                                              shape=(size,)).copy())
            part = [int(rows[-1].argmax())]
            chosen += part
        lib.llama_free(handle), lib.llama_model_free(model)
        return chosen[:num], np.array(rows[1:])


def compare(ours, reference):
    """-> distance, clear steps, and at how many of them the choice is another."""
    size = min(ours.shape[1], reference.shape[1])
    ours, reference = ours[:, :size].astype(np.float64), reference[:, :size].astype(np.float64)
    spread = reference.std()
    best = np.sort(reference, axis=1)[:, -2:]
    clear = best[:, 1] - best[:, 0] > CLEAR * spread
    other = clear & (ours.argmax(axis=1) != reference.argmax(axis=1))
    return float(np.sqrt(np.square(ours - reference).mean()) / spread), int(clear.sum()), int(other.sum())


class Runner:
    def __init__(self, args):
        self.args = args

    def tool(self, name, *arguments):
        return subprocess.run([self.args.bin / name, "--store", self.args.work / "store", *arguments],
                              capture_output=True, text=True, check=False)

    def answer(self, model):
        """The exact answer, or why there is none."""
        shutil.rmtree(self.args.work / "store", ignore_errors=True)
        done = self.tool("index-document", "--progress", "none", "--model", model, self.args.text)
        if done.returncode == 0:
            done = self.tool("ask-document", "--json", "--exact", "--max-tokens", "16", QUESTION)
        if done.returncode != 0:
            return None, done.stderr.strip().replace("\n", " ")
        return json.loads(done.stdout)["answer"], ""

    def logits(self, model, ids):
        done = subprocess.run([self.args.logits, model, str(CONTEXT)], check=False,
                              input=np.array(ids, "<i4").tobytes(), capture_output=True)
        if done.returncode != 0:
            return None
        return np.frombuffer(done.stdout, "<f4").reshape(STEPS, -1)


def convert(args, folder, path):
    done = subprocess.run([sys.executable, args.llama_cpp / "convert_hf_to_gguf.py", folder,
                           "--outfile", path, "--outtype", "f16"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"convert_hf_to_gguf.py {folder}:\n{done.stderr[-2000:]}")


def try_architecture(args, name, llama):
    """Prints its rows; returns what is wrong."""
    run, wrong = Runner(args), []
    source = (args.models / GEMMA3_FILE if ARCHITECTURES[name][1] == "gemma3" else
              args.llama_cpp / f"models/ggml-vocab-{ARCHITECTURES[name][1]}.gguf")
    folder = args.work / name
    vocabulary = Vocabulary(source)
    renamed = RENAMED.get(name, {})
    vocabulary.pieces = [renamed.get(piece, piece) for piece in vocabulary.pieces]
    model = make_checkpoint(folder, name, vocabulary)
    files = {"folder": folder, "F16": args.work / f"{name}-F16.gguf"}
    convert(args, folder, files["F16"])
    has_library = isinstance(llama, LlamaCpp)
    for type_, ftype in TYPES.items() if has_library else ():
        files[type_] = args.work / f"{name}-{type_}.gguf"
        llama.quantise(files["F16"], files[type_], ftype)
    text, answers = args.text.read_bytes(), {}
    ids = llama.tokens(files["F16"] if has_library else folder, text)
    if not has_library:
        chosen, theirs = llama.greedy(model, ids, STEPS), None
    for type_, path in files.items():
        answers[type_], why = run.answer(path)
        if has_library:
            chosen, theirs = llama.greedy(files["F16"] if type_ == "folder" else path, ids, STEPS)
        ours = run.logits(path, ids + chosen)
        if answers[type_] is None or ours is None:
            wrong.append(f"{name} {type_}: {why or 'no logits'}")
            print(f"| {name} | {type_} | refused: {why} | – | – | – |", flush=True)
            continue
        distance, clear, other = compare(ours, theirs) if has_library else (None, 0, 0)
        beside = "–"
        if type_ in ("folder", "F16"):
            with torch.no_grad():
                whole = model(input_ids=torch.tensor([ids + chosen]), logits_to_keep=STEPS).logits
            far, clear_too, other_too = compare(ours, whole[0].numpy())
            beside = f"{far:.1e}, {clear_too - other_too} of {clear_too}"
            if other_too or far > MOST_DISTANCE:
                wrong.append(f"{name} {type_}: not transformers' choices")
        by_library = f"{distance:.1e} | {clear - other} of {clear}" if has_library else "– | –"
        print(f"| {name} | {type_} | {'an answer' if answers[type_] else 'EMPTY'} | {by_library} | "
              f"{beside} |", flush=True)
        if other or (has_library and distance > MOST_DISTANCE):
            wrong.append(f"{name} {type_}: not llama.cpp's choices")
        if type_ == "F16" and answers["F16"] != answers["folder"]:
            wrong.append(f"{name}: folder and F16 answer {answers['folder']!r} and {answers['F16']!r}")
    for type_, path in files.items():
        if type_ != "folder":
            path.unlink()
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for option in ("bin", "logits", "llama-cpp", "models", "text", "work"):
        parser.add_argument("--" + option, required=True, type=pathlib.Path)
    parser.add_argument("--without-library", action="store_true")
    parser.add_argument("architectures", nargs="*", default=list(ARCHITECTURES))
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(2)
    transformers.utils.logging.disable_progress_bar()
    llama, wrong = NoLibrary() if args.without_library else LlamaCpp(), []
    print("| architecture | file | asked | distance from llama.cpp | its clear choices | "
          "transformers: distance, clear choices |\n|---|---|---|---:|---|---|")
    for name in args.architectures:
        wrong += try_architecture(args, name, llama)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
