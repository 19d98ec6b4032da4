#!/usr/bin/env python3
"""The training of adapters, on a tiny random model and documents made here: needs PyTorch, transformers
and safetensors from PyPI, no model and no network. Run by `tests/full.sh reader`; takes seconds.
"""

import argparse
import hashlib
import importlib.util
import json
import pathlib
import random
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np
import torch
import transformers
from tokenizers import pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/reader"))

import adapter_answers  # noqa: E402
import adapter_attention  # noqa: E402
import adapter_data  # noqa: E402
import adapter_network  # noqa: E402
import train_adapter  # noqa: E402

TOKENS = adapter_data.Tokens(
    ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *sorted(pre_tokenizers.ByteLevel.alphabet())], [])


def tiny_model():
    torch.manual_seed(5)
    config = transformers.LlamaConfig(
        vocab_size=len(TOKENS.lengths), hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4}, tie_word_embeddings=True,
        initializer_range=0.3)
    return transformers.LlamaForCausalLM(config).eval()


def adapted(model, seed=3):
    """The network of a model with an adapter that does something, and the model with it merged."""
    network = adapter_network.Network(model.config, model.state_dict(), seed=1)
    generator = torch.Generator().manual_seed(seed)
    merged = tiny_model()
    with torch.no_grad():
        for name, parameter in network.adapter().items():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
        named = network.adapter()
        for name, parameter in merged.named_parameters():
            a = f"base_model.model.{name.removesuffix('weight')}lora_A.weight"
            if a in named:
                scale = adapter_network.ALPHA / adapter_network.RANK
                parameter += scale * named[a.replace("lora_A", "lora_B")] @ named[a]
    return network, merged


def documents(number=3):
    """Texts with a fact a line, questions with the lines' byte ranges, and some that nothing answers."""
    made = []
    for index in range(number):
        r, text, questions = random.Random(index), b"", []
        for line in range(20):
            name, thing = (f"{word}{index}.{line}x" for word in ("Ana", "key"))
            sentence = f"The {thing} is in the hands of {name}; it is {r.choice('abc') * 5}é."
            questions.append({"question": f"Who has the {thing}?", "answer": name, "answers": [name], "kind": "fact",
                              "passages": [{"begin": len(text), "end": len(text) + len(sentence.encode())}]})
            text += sentence.encode() + b"\n"
        questions += [{"question": f"Who lost the {n}?", "answer": adapter_data.ABSENT,
                       "answers": [adapter_data.ABSENT], "kind": "absent", "passages": []} for n in range(8)]
        made.append(adapter_data.Document(f"d{index}", f"p{index}", text, questions))
    return made


RECIPE = adapter_data.Recipe(questions=8, lengths=((1, 150, 500),), hidden=0.2, dense=0.3)


def packs(num, seed=1, first=0, recipe=RECIPE):
    stream = adapter_data.packs(TOKENS, documents(), seed, first, recipe)
    return [next(stream) for _ in range(num)]


def logits_alone(model, pack, q):
    """transformers' logits of one question behind the document, under the mask of the pack."""
    rows, size = len(pack.document), len(q.prompt) + len(q.answer)
    ids = torch.tensor([*pack.document, *q.prompt, *q.answer])
    positions = torch.tensor([*pack.positions, *range(pack.positions[-1] + 1, pack.positions[-1] + 1 + size)])
    allowed = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
    allowed[rows:, :rows] &= torch.from_numpy(q.visible)
    mask = torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)
    return model(input_ids=ids[None], position_ids=positions[None],
                 attention_mask=mask[None, None]).logits[0, rows:]


class NetworkTest(unittest.TestCase):
    def test_packed_questions_get_the_logits_that_each_gets_alone(self):
        network, merged = adapted(tiny_model())
        with torch.no_grad():
            for pack in packs(4):
                ids, positions, _, block = pack.tensors()
                logits = network.logits(network.learn(ids, positions, pack.plan())[0])
                for number, q in enumerate(pack.questions):
                    expected = logits_alone(merged, pack, q)
                    torch.testing.assert_close(logits[block == number], expected, rtol=1e-3, atol=4e-3)

    def test_the_mask_of_a_pack_is_its_plan(self):
        network, _ = adapted(tiny_model())
        with torch.no_grad():
            for pack in packs(4):
                rows = len(pack.document)
                ids, positions, _, block = pack.tensors()
                planned = network.learn(ids, positions, pack.plan())[0]
                past = []
                network(ids[:rows], positions[:rows], keep=past)
                masked = network(ids[rows:], positions[rows:], mask=pack.mask(block, torch.float32), past=past)
                torch.testing.assert_close(planned, masked, rtol=1e-3, atol=4e-3)

    def test_gradients_are_those_of_the_plain_computation(self):
        heads, rows, dim = 2, 40, 8
        plain = torch.nn.functional.scaled_dot_product_attention
        visible = [np.arange(rows) % 7 < 3, np.ones(rows, bool), np.arange(rows) < 5]
        allowed = torch.ones(rows + 12, rows + 12, dtype=torch.bool).tril()
        for number, seen in enumerate(visible):
            own = slice(rows + 4 * number, rows + 4 * number + 4)
            allowed[own, :rows] = torch.from_numpy(seen)
            allowed[own, rows:own.start] = False
        for block, kept in ((16, 1 << 20), (16, 500), (64, 0)):
            with mock.patch.multiple(adapter_attention, BLOCK=block, KEPT=kept):
                plan = adapter_attention.Plan(rows, visible, [4, 4, 4])
                for parts, part in ((plan.reading, slice(0, rows)), (plan.asking, slice(rows, None))):
                    torch.manual_seed(0)
                    q, k, v, grad = (torch.randn(heads, rows + 12, dim, dtype=torch.float64) for _ in range(4))
                    inputs = [q[:, part].clone(), k, v]
                    for t in inputs:
                        t.requires_grad_()
                    got = adapter_attention.Attention.apply(*inputs, parts)
                    expected = plain(*inputs, attn_mask=allowed[part])
                    torch.testing.assert_close(got, expected)
                    both = [torch.autograd.grad(o, inputs, grad[:, part]) for o in (got, expected)]
                    for mine, theirs in zip(*both):
                        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)

    def test_gradients_end_at_the_documents_keys_and_values_where_asked(self):
        network, _ = adapted(tiny_model())
        pack = packs(1)[0]
        ids, positions, targets, _ = pack.tensors()
        gradients, outputs = {}, {}
        for is_whole in (True, False):
            hidden, _ = network.learn(ids, positions, pack.plan(), is_whole=is_whole)
            outputs[is_whole] = hidden
            gradients[is_whole] = torch.autograd.grad(hidden[targets >= 0].sum(), list(network.adapter().values()))
        torch.testing.assert_close(outputs[True], outputs[False])
        apart = dict(zip(network.adapter(), zip(gradients[True], gradients[False])))
        # The last layer's keys are read by questions alone; those below also by the document.
        last = "base_model.model.model.layers.2.self_attn.k_proj.lora_B.weight"
        first = last.replace("layers.2", "layers.0")
        torch.testing.assert_close(*apart[last], rtol=1e-3, atol=1e-4)
        self.assertFalse(torch.allclose(*apart[first], rtol=1e-2))
        self.assertTrue(all(g.abs().sum() > 0 for g in gradients[False]))

    def test_adapters_gradients_are_autograds(self):
        network, merged = adapted(tiny_model())
        module = network.layers[1].q_proj
        module.double()
        x, parts = torch.randn(9, 32, dtype=torch.float64, requires_grad=True), [*module.a, *module.b]
        parameters = [x, *module.a.values(), *module.b.values()]
        plain = torch.cat([x @ w.t() + 2 * (x @ module.a[name].t()) @ module.b[name].t()
                           for name, w in zip(module.a, module.weight.split(module.sizes))], 1)
        self.assertEqual(parts[:3], ["q_proj", "k_proj", "v_proj"])
        weights = torch.randn_like(plain)
        mine = torch.autograd.grad((module(x) * weights).sum(), parameters)
        for got, expected in zip(mine, torch.autograd.grad((plain * weights).sum(), parameters)):
            torch.testing.assert_close(got.double(), expected.double(), rtol=1e-5, atol=1e-5)

    def test_watched_shares_are_those_of_transformers_attention(self):
        network, _ = adapted(tiny_model())
        network.load_adapter({n: torch.zeros_like(p) for n, p in network.adapter().items()})
        model = tiny_model()
        model.set_attn_implementation("eager")
        pack = next(p for p in packs(9) if any(q.kind == "fact" for q in p.questions))
        q = next(q for q in pack.questions if q.kind == "fact")
        q.visible = np.ones(len(pack.document), bool)
        pack = adapter_data.Pack(pack.document, pack.positions, [q])
        ids, positions, targets, block = pack.tensors()
        watch = train_adapter.watch_of(pack, targets, block, {1: [0, 3]}, 5)
        with torch.no_grad():
            _, shares = network.learn(ids, positions, pack.plan(), watch)
            paid = model(input_ids=ids[None], position_ids=positions[None], output_attentions=True).attentions[1][0]
        rows, first = len(pack.document), len(pack.document) + len(q.prompt) - 1
        for number, head in enumerate((0, 3)):
            of_document = paid[head, first:first + len(q.answer), 5:rows]
            expected = of_document[:, torch.from_numpy(q.gold)[5:]].sum(1) / of_document.sum(1)
            torch.testing.assert_close(shares[number].exp(), expected, rtol=1e-3, atol=1e-4)

    def test_an_adapters_file_is_what_peft_writes(self):
        network, _ = adapted(tiny_model())
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            adapter_network.save_adapter(folder, network.adapter(), "somebody/tiny")
            config = json.loads((folder / "adapter_config.json").read_text())
            read = adapter_network.read_adapter(folder)
        self.assertEqual((config["peft_type"], config["r"], config["lora_alpha"]), ("LORA", 16, 32))
        self.assertEqual(set(config["target_modules"]), {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj",
                                                         "up_proj", "down_proj"})
        self.assertEqual(len(read), 2 * 7 * 3)
        name = "base_model.model.model.layers.2.mlp.down_proj.lora_"
        self.assertEqual(read[name + "A.weight"].shape, (16, 48))
        self.assertEqual(read[name + "B.weight"].shape, (32, 16))
        for name, t in network.adapter().items():
            self.assertEqual(read[name].dtype, torch.float16)
            torch.testing.assert_close(read[name].float(), t.detach(), rtol=1e-3, atol=1e-5)
        with self.assertRaisesRegex(ValueError, "not this model's"):
            network.load_adapter({"another": torch.zeros(1)})


    @unittest.skipUnless(importlib.util.find_spec("peft"), "needs peft")
    def test_peft_loads_an_adapter(self):
        import peft
        network, merged = adapted(tiny_model())
        with tempfile.TemporaryDirectory() as folder:
            adapter_network.save_adapter(pathlib.Path(folder), network.adapter(), "somebody/tiny")
            model = peft.PeftModel.from_pretrained(tiny_model(), folder).eval()
        ids = torch.tensor([TOKENS.of("Who has the key?")])
        with torch.no_grad():
            torch.testing.assert_close(model(input_ids=ids).logits, merged(input_ids=ids).logits,
                                       rtol=1e-2, atol=5e-2)


class AnswersTest(unittest.TestCase):
    def test_answers_together_are_those_of_each_alone(self):
        network, merged = adapted(tiny_model())
        document = documents()[0]
        rows = adapter_data.Text(TOKENS, document.text[:400])
        questions = document.questions[:5]
        visible = [rows.focused(q["question"], 2) for q in questions]
        self.assertFalse(all(v.all() for v in visible))
        with torch.no_grad(), mock.patch.object(adapter_answers, "MOST_TOKENS", 6):
            past = adapter_answers.read_document(network, rows)
            said = adapter_answers.answers(network, TOKENS, past, questions, visible, torch.float32)
            for q, seen, answer in zip(questions, visible, said):
                pack = adapter_data.Pack(rows.ids, np.arange(rows.rows), [])
                tokens = []
                while len(tokens) < 6 and TOKENS.end not in tokens:
                    asked = adapter_data.Question(TOKENS.question(q["question"]), tokens, seen, None, "")
                    tokens.append(int(logits_alone(merged, pack, asked)[-1].argmax()))
                self.assertEqual(answer, TOKENS.text(tokens).strip())

    def test_right_is_an_accepted_string_or_a_refusal(self):
        fact = {"kind": "fact", "answers": ["Port 80", "eighty"]}
        self.assertTrue(adapter_answers.is_right(fact, "It is port 80."))
        self.assertFalse(adapter_answers.is_right(fact, "It is port 8."))
        self.assertFalse(adapter_answers.is_right({"kind": "fact", "answers": ["3"]}, "In 1903"))
        self.assertTrue(adapter_answers.is_right({"kind": "fact", "answers": ["3"]}, "3 of them"))
        self.assertTrue(adapter_answers.is_right({"kind": "absent", "answers": []}, adapter_data.ABSENT))
        self.assertFalse(adapter_answers.is_right({"kind": "absent", "answers": []}, "Ana"))


class DataTest(unittest.TestCase):
    def write(self, folder, name, package, text, recorded=None):
        record = {"package": package, "version": "1", "file": "f", "begin": 0, "end": len(text),
                  "sha256": hashlib.sha256(recorded or text).hexdigest()}
        question = {"question": "Who?", "answer": "Ana", "answers": ["Ana"], "kind": "fact",
                    "passages": [{"begin": 0, "end": 3}]}
        (folder / f"{name}.jsonl").write_text(f"{json.dumps(record)}\n{json.dumps(question)}\n")
        (folder / f"{name}.txt").write_bytes(text)

    def test_texts_that_are_not_the_recorded_ones_are_skipped_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            folder, said = pathlib.Path(folder), []
            self.write(folder, "p--good", "p", b"Ana has it.\n")
            self.write(folder, "p--changed", "p", b"Ana has it!\n", recorded=b"Ana has it.\n")
            self.write(folder, "p--gone", "p", b"Ana has it.\n")
            (folder / "p--gone.txt").unlink()
            self.write(folder, "git--judge", "git", b"Ana has it.\n")
            found = adapter_data.documents(folder, folder, said.append)
        self.assertEqual([(d.name, d.text) for d in found], [("p--good", b"Ana has it.\n")])
        self.assertEqual(len(said), 3)
        for name, reason in (("p--changed", "not the recorded one"), ("p--gone", "missing"),
                             ("git--judge", "judging")):
            self.assertTrue(any(name in line and "SKIPPED" in line and reason in line for line in said), name)

    def test_no_question_of_this_repository_is_about_what_judges(self):
        said = []
        adapter_data.documents(ROOT / "tools/reader/questions", "/nowhere", said.append)
        self.assertGreater(len(said), 150)
        self.assertEqual([line for line in said if "judging" in line], [])

    def test_gold_rows_hold_the_answer_and_masks_hide_the_rest(self):
        kinds, focused, hidden = set(), 0, 0
        for pack in packs(40):
            rows = len(pack.document)
            for q in pack.questions:
                kinds.add(q.kind)
                answer = TOKENS.text(q.answer)
                if q.kind == "fact":
                    self.assertIn(answer, TOKENS.text(pack.document[q.gold].tolist()))
                    self.assertTrue(q.visible[q.gold].all())
                else:
                    self.assertEqual(answer, adapter_data.ABSENT)
                    self.assertFalse(q.gold.any())
                    # A fact is refused only where its passage cannot be seen.
                    stated = q.source["answers"][0]
                    if q.source["kind"] == "fact":
                        hidden += 1
                        self.assertNotIn(stated, TOKENS.text(pack.document[q.visible].tolist()))
                if not q.visible.all():
                    focused += 1
                    if q.kind == "fact":
                        self.assertTrue(q.visible[:adapter_data.SINKS].all())
                        self.assertTrue(q.visible[-adapter_data.WINDOW:].all())
                self.assertEqual(len(q.visible), rows)
                self.assertEqual(q.answer[-1], TOKENS.end)
        self.assertEqual(kinds, {"fact", "absent"})
        self.assertGreater(focused, 50)
        self.assertGreater(hidden, 5)

    def test_targets_are_the_next_tokens_of_answers(self):
        for pack in packs(3):
            ids, positions, targets, block = pack.tensors()
            rows = len(pack.document)
            for number, q in enumerate(pack.questions):
                own = (block == number).nonzero()[:, 0]
                self.assertEqual(ids[rows:][own].tolist(), q.prompt + q.answer)
                predicting = own[targets[own] >= 0]
                self.assertEqual(targets[predicting].tolist(), q.answer)
                self.assertEqual(ids[rows:][predicting[:-1] + 1].tolist(), q.answer[:-1])
                self.assertEqual(int(positions[rows:][own[0]]), int(pack.positions[-1]) + 1)
            self.assertTrue((positions[:rows].diff() > 0).all())
            self.assertLess(int(positions.max()), adapter_data.MAX_POSITIONS)

    def test_positions_jump(self):
        jumped = [p for p in packs(20) if int(p.positions[-1]) >= len(p.document)]
        self.assertTrue(4 < len(jumped) < 20)

    def test_packs_are_the_same_wherever_they_begin(self):
        whole, later = packs(6), packs(2, first=4)
        for a, b in zip(whole[4:], later):
            self.assertTrue(np.array_equal(a.document, b.document))
            self.assertTrue(np.array_equal(a.positions, b.positions))
            for one, other in zip(a.questions, b.questions, strict=True):
                self.assertEqual((one.prompt, one.answer), (other.prompt, other.answer))
                self.assertTrue(np.array_equal(one.visible, other.visible))
        self.assertFalse(np.array_equal(packs(1, seed=2)[0].document, whole[0].document))

    def test_questions_move_with_their_text(self):
        q = {"question": "Who?", "answer": "Ana", "answers": ["Ana"], "kind": "fact",
             "passages": [{"begin": 10, "end": 20}]}
        self.assertEqual(adapter_data.moved(q, 5, 25, 100)["passages"], [{"begin": 105, "end": 115}])
        self.assertIsNone(adapter_data.moved(q, 15, 25, 0))
        outside = adapter_data.moved(q, 20, 30, 0)
        self.assertEqual((outside["kind"], outside["answer"]), ("absent", adapter_data.ABSENT))

    def test_words_find_the_sentence(self):
        text = adapter_data.Text(TOKENS, documents()[0].text)
        for q in documents()[0].questions[:20]:
            seen = text.focused(q["question"], 1)
            self.assertTrue(seen[text.rows_of([(p["begin"], p["end"]) for p in q["passages"]])].all())
            self.assertLess(seen.mean(), 0.5)


class TrainingTest(unittest.TestCase):
    def train(self, out, stop_at):
        options = argparse.Namespace(out=pathlib.Path(out), seed=4, tokens=20000, minutes=0, stop_at=stop_at,
                                     say=1e9, save=1e9, judge=1e9, base_name="tiny")
        model = tiny_model()
        network = adapter_network.Network(model.config, model.state_dict(), seed=1)
        with mock.patch("builtins.print"):
            return train_adapter.run(network, TOKENS, documents(), [], options, torch.float32, "cpu", RECIPE)

    def test_an_interrupted_training_ends_like_an_uninterrupted_one(self):
        with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as halves:
            expected = self.train(whole, 5).state()
            self.assertEqual(self.train(halves, 2).steps, 2)
            resumed = self.train(halves, 5).state()
            saved = torch.load(pathlib.Path(halves) / "checkpoint.pt", weights_only=True)
        for key in ("steps", "tokens", "heads"):
            self.assertEqual(resumed[key], expected[key])
        for name in expected["adapter"]:
            for part in ("adapter", "mean"):
                self.assertTrue(torch.equal(resumed[part][name], expected[part][name]), name)
                self.assertTrue(torch.equal(saved[part][name], expected[part][name]), name)

    def test_it_learns(self):
        model = tiny_model()
        network = adapter_network.Network(model.config, model.state_dict(), seed=1)
        training = train_adapter.Training(network)
        training.heads = {1: [0, 1]}
        stream = packs(12)
        begun = [train_adapter.losses(network, p, training.heads, 5, "cpu") for p in stream[:2]]
        with mock.patch.object(train_adapter, "RATE", 0.01):
            for pack in stream * 3:
                training.step(pack, 1e9, 5, "cpu")
        ended = [train_adapter.losses(network, p, training.heads, 5, "cpu") for p in stream[:2]]
        for before, after in zip(begun, ended):
            self.assertLess(after[0].item(), 0.7 * before[0].item())
            self.assertLess(after[1].item(), before[1].item())

    def test_nothing_but_the_adapter_changes(self):
        model = tiny_model()
        network = adapter_network.Network(model.config, model.state_dict(), seed=1)
        self.assertEqual({id(p) for p in network.parameters()}, {id(p) for p in network.adapter().values()})
        # peft begins so too: an adapter of no training adds nothing.
        ids = torch.tensor(TOKENS.of("Nothing new here."))
        with torch.no_grad():
            expected = model(input_ids=ids[None]).logits[0]
            got = network.logits(network(ids, torch.arange(len(ids))))
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    unittest.main()
