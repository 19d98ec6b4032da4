#!/usr/bin/env python3
"""The reader's training, and what it exports: needs PyTorch, sentencepiece and transformers from
PyPI. Run by `tests/full.sh reader`, for it takes minutes.
"""

import pathlib
import random
import sys
import tempfile
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/reader"))

import documents  # noqa: E402
import network  # noqa: E402
import train  # noqa: E402

MODEL = ROOT / "tools/reader/model"
SMALL = train.Preset(network.Shape(width=160, layers=3, ffn=128), [
    train.Stage(0.5, 64, 96, 2, (0.5, 1.0), plain=1.0),
    train.Stage(0.5, 96, 96, 2, (0.5, 1.0))])


def train_small(out, *arguments):
    train.PRESETS["small"] = SMALL
    train.main(["--preset", "small", "--tokens", "4000", "--out", str(out), "--threads", "1",
                *arguments])
    return torch.load(pathlib.Path(out) / "checkpoint.pt", weights_only=True)


class TrainTest(unittest.TestCase):
    def test_an_interrupted_training_ends_like_an_uninterrupted_one(self):
        with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as halves:
            expected = train_small(whole)
            self.assertLess(train_small(halves, "--stop-at", "4")["batches"], expected["batches"])
            resumed = train_small(halves)
            self.assertEqual(resumed["batches"], expected["batches"])
            for name, weights in expected["model"].items():
                self.assertTrue(torch.equal(weights, resumed["model"][name]), name)

    def test_pieces_encode_apart_as_they_do_together(self):
        tokens = train.Tokens(MODEL / "tokenizer.model")
        for seed in range(40):
            d = documents.make_document(random.Random(seed), 3000, 25, documents.Options())
            apart = sum((tokens.of_piece(p.text) for p in d.pieces), [])
            self.assertEqual(apart, tokens.pieces.encode(d.text()))

    def test_batches_say_where_the_answers_stand(self):
        tokens = train.Tokens(MODEL / "tokenizer.model")
        stage = train.Stage(1, 384, 320, 4, (0.3, 0.9))
        batch = train.make_batch(tokens, stage, "1", longest_jump=1000)
        watch = batch.watch(384, 8)
        item, row, place = watch[4]
        self.assertGreater(len(item), 100)
        predicted = batch.ids[item, 384 + row + 1]
        self.assertTrue(torch.equal(predicted, batch.ids[item, place]))
        self.assertTrue((batch.weights[item, 384 + row] == 1).all())
        # The name that leads to the answer is in the document, and not in the question.
        item, row, place = watch[3]
        self.assertGreater(len(item), 10)
        for i, q, d in zip(item.tolist(), row.tolist(), place.tolist()):
            self.assertNotEqual(d, batch.source[i, 384 + q])
            self.assertEqual(batch.kinds[i][batch.block[i, 384 + q]], "two_hop")

    def test_a_deeper_reader_begins_as_the_one_it_comes_from(self):
        tokens = train.Tokens(MODEL / "tokenizer.model")
        batch = train.make_batch(tokens, train.Stage(1, 96, 160, 1, (0.5, 1.0)), "4")
        layers = network.load(MODEL).shape.layers
        with torch.no_grad():
            run = lambda m: m.logits(m(batch.ids, batch.positions, 96, batch.question_mask(96)))
            expected = run(network.load(MODEL))
            for more in (0, 1, 2, 4):
                deep = network.deepen(network.load(MODEL), layers + more)
                self.assertEqual(len(deep.layers), layers + more)
                self.assertTrue(torch.equal(run(deep), expected))

    def test_a_question_sees_the_document_and_itself_alone(self):
        tokens = train.Tokens(MODEL / "tokenizer.model")
        stage = train.Stage(1, 96, 160, 1, (0.5, 1.0), weight=0, jump=0, plain=1.0)
        batch = train.make_batch(tokens, stage, "3")
        model = network.load(MODEL)
        with torch.no_grad():
            hidden = model(batch.ids, batch.positions, 96, batch.question_mask(96))
            kept = model.prefill(batch.ids[0, :96])
            self.assertEqual(kept[0][0].shape[1], 96)
            for block in range(2):
                rows = (batch.block[0] == block).nonzero()[:, 0]
                alone = torch.cat([batch.ids[0, :96], batch.ids[0, rows]])
                positions = torch.cat([batch.positions[0, :96], batch.positions[0, rows]])
                mask = torch.full((len(rows), len(rows)), float("-inf")).triu(1)
                mask = torch.cat([torch.zeros(len(rows), 96), mask], 1)[None, None]
                expected = model(alone[None], positions[None], 96, mask)[0, 96:]
                self.assertLess((hidden[0, rows] - expected).abs().max().item(), 1e-3)

    def test_a_step_in_bfloat16_is_close_to_one_in_f32(self):
        """Takes the step of a GPU on the CPU, with the shape that a GPU trains."""
        tokens = train.Tokens(MODEL / "tokenizer.model")
        preset = train.PRESETS["gpu"]
        preset.shape.vocab = tokens.pieces.vocab_size()
        model = network.Reader(preset.shape)
        network.wire(model, train.token_shares(tokens))
        stage = train.Stage(1, 192, 160, 2, (0.3, 0.9), weight=1.0)
        batch = train.make_batch(tokens, stage, "2", longest_jump=1000)
        losses = []
        for enabled in (False, True):
            with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
                hidden, looked = model(batch.ids, batch.positions, 192, batch.question_mask(192),
                                       batch.document_mask(192), batch.watch(192, 10))
            chosen = batch.weights == 1
            logits = model.logits(hidden[chosen].float())
            targets = torch.roll(batch.ids, -1, 1)[chosen]
            loss = torch.nn.functional.cross_entropy(logits, targets) - looked.mean()
            loss.backward()
            losses.append(loss.item())
        self.assertLess(abs(losses[0] - losses[1]), 0.05 * losses[0])

    def test_the_exported_folder_is_a_llama(self):
        import transformers
        theirs = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
        self.assertEqual(type(theirs).__name__, "LlamaForCausalLM")
        ours = network.load(MODEL)
        tokens = train.Tokens(MODEL / "tokenizer.model")
        text = documents.make_document(random.Random(1), 1200, 12, documents.Options()).text()
        ids = torch.tensor([[train.BOS] + tokens.pieces.encode(text)])
        size = ids.shape[1] - 40
        with torch.no_grad():
            expected = theirs(ids).logits[0, size:]
            positions = torch.arange(ids.shape[1])[None]
            causal = torch.full((40, 40), float("-inf")).triu(1)
            mask = torch.cat([torch.zeros(40, size), causal], 1)[None, None]
            logits = ours.logits(ours(ids, positions, size, mask))[0, size:]
        self.assertLess((logits - expected).abs().max().item(), 1e-3 * expected.std().item())


if __name__ == "__main__":
    unittest.main()
