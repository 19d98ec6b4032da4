#!/usr/bin/env python3
"""Collections as users meet them: index-document, ask-document, lectern-store, lectern-server.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with; else the bundled reader of the tools
Standard library only.
"""

import json
import os
import shutil
import subprocess
import unittest
import urllib.parse
from random import Random

import folder_test
import server_test
import tools_test
from tools_test import ToolsTest

PAPERS = {
    "harbour.txt": "Ältere Karten für 3 € 🏠.\n\nThe Douquouth harbour was dug by Ada Brok.\n",
    "old/fruit.txt": "Quinces are sold in Stuxwick on Tuesdays alone. Apples are sold daily.\n",
    "old/zoo.txt": "Zebras and quinces are kept behind the glassworks.\n",
    "empty.txt": " \n",
}
QUESTION = "Who dug the Douquouth harbour?"


class CollectionTest(ToolsTest):
    """Each test has the papers in a folder, and a store of its own."""

    def setUp(self):
        self.docs = self.path(self.id().split(".")[-1])
        self.at = ("--store", self.docs + ".store")
        for name, text in PAPERS.items():
            self.put(name, text)

    put = folder_test.FolderTest.put

    def run_json(self, tool, *args, **options):
        out, _ = self.check(0, tool, *self.at, "--json", *args, **options)
        return [json.loads(line) for line in out.splitlines()]

    def add(self, *args, **options):
        *rows, last = self.run_json("index-document", "--collection", "papers", "--progress",
                                    "none", *(args or [self.docs]), **options)
        self.assertIn("summary", last)
        return {os.path.relpath(row["file"], self.docs): row for row in rows}, last["summary"]

    def ask(self, *args, **options):
        return self.run_json("ask-document", "--collection", "papers", "--max-tokens", "12", *args,
                             **options)

    def documents(self):
        [shown] = self.run_json("lectern-store", "collection", "papers")
        return {row["name"]: row for row in shown["documents"]}


class AddTest(CollectionTest):
    def test_words_of_a_folder_need_no_model(self):
        rows, sums = self.add(env={"LECTERN_MODEL": "/nowhere"})
        self.assertEqual({name: row["result"] for name, row in rows.items()},
                         {"harbour.txt": "indexed", "old/fruit.txt": "indexed",
                          "old/zoo.txt": "indexed", "empty.txt": "skipped"})
        self.assertEqual(sums["indexed"], 3)
        self.assertEqual(rows["old/zoo.txt"]["name"], "old/zoo.txt")
        documents = self.documents()
        self.assertEqual(set(documents), {"harbour.txt", "old/fruit.txt", "old/zoo.txt"})
        self.assertTrue(all(row["document"] is None for row in documents.values()))
        self.assertEqual(documents["harbour.txt"]["source"],
                         os.path.realpath(os.path.join(self.docs, "harbour.txt")))
        self.assertEqual(self.run_json("lectern-store", "list"), [{"documents": []}])
        # Files that have not changed are left alone, one that has is renewed under its name.
        self.put("old/zoo.txt", "Zebras are kept elsewhere now.\n")
        rows, sums = self.add()
        self.assertEqual((sums["unchanged"], sums["renewed"], sums["skipped"]), (2, 1, 1))
        self.assertEqual(rows["old/zoo.txt"]["result"], "renewed")
        self.assertEqual(set(self.documents()), {"harbour.txt", "old/fruit.txt", "old/zoo.txt"})

    def test_for_people_it_names_the_next_command(self):
        out, err = self.check(0, "index-document", *self.at, "--collection", "my papers",
                              "--progress", "none", self.docs)
        self.assertIn("4 files: 3 indexed, 1 skipped", out)
        self.assertIn("next: ask-document --collection 'my papers' ", err)
        self.assertNotIn("model", err)

    def test_one_file_a_pattern_and_stdin(self):
        harbour = os.path.join(self.docs, "harbour.txt")
        self.add("--name", "port", harbour)
        self.add(os.path.join(self.docs, "old", "*.txt"))
        out, _ = self.check(0, "index-document", *self.at, "--collection", "papers", "--name",
                            "note", "-", stdin=b"Pears are sold at night.\n")
        self.assertEqual(out, "added to the collection: note\n")
        self.assertEqual(set(self.documents()), {"port", "fruit.txt", "zoo.txt", "note"})
        self.check_error(2, "needs a --name", "index-document", *self.at, "--collection", "papers",
                         "-", stdin=b"Pears.\n")
        self.check_error(2, "no document|white space|empty", "index-document", *self.at,
                         "--collection", "papers", "--name", "n", "-", stdin=b" \n")

    def test_a_killed_process_loses_nothing(self):
        self.add()
        random = Random(1)
        names = [f"more/{i}.txt" for i in range(40)]
        for name in names:
            self.put(name, " ".join(f"w{random.randrange(5000)}" for _ in range(4000)) +
                     f". The ox of {name.split('/')[1][:-4]} is named here.\n")
        command = [os.path.join(tools_test.BIN, "index-document"), *self.at, "--collection", "papers",
                   "--progress", "none", self.docs]
        killed, before = 0, set(self.documents())
        for _ in range(12):
            with subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as process:
                try:
                    process.wait(random.uniform(0.01, 0.4))
                except subprocess.TimeoutExpired:
                    killed += 1
                    process.kill()
            self.check(0, "lectern-store", *self.at, "verify", "--full")
            now = set(self.documents())
            self.assertLessEqual(before, now)
            before = now
        self.assertGreater(killed, 0)
        _, sums = self.add()
        self.assertEqual(sums["indexed"] + sums["unchanged"], 43)
        self.assertEqual(len(self.documents()), 43)
        [answer] = self.ask("Which files mention ox?")
        self.assertEqual(answer["collection"]["asked"][0]["passages"], 1)
        self.assertIn("40 documents mention", answer["answer"])

    def test_the_collection_of_all_documents_takes_no_files(self):
        nowhere = ("--store", self.docs + ".nowhere")
        self.check_error(3, "no store", "ask-document", *nowhere, "--collection", "all", "Who?")
        self.assertFalse(os.path.exists(self.docs + ".nowhere"))
        self.check(0, "index-document", *self.at, "--progress", "none", self.docs)
        self.assertEqual(self.ask_all(), 3)
        self.check_error(2, "add to another", "lectern-store", *self.at, "collection", "all",
                         "--add", "harbour.txt")
        _, err = self.check(2, "index-document", *self.at, "--collection", "all", self.docs)
        self.assertIn("has the documents of the store", err)
        self.check(0, "lectern-store", *self.at, "remove", "--yes", "harbour.txt")
        self.assertEqual(self.ask_all(), 2)

    def ask_all(self):
        """How many documents the collection of all has."""
        [answer] = self.run_json("ask-document", "--collection", "all", "Which files mention ox?")
        return answer["collection"]["count"]

    def test_usage_errors(self):
        for expected, args in (("FILE is required", ()),
                               ("FILE is required", ("--collection", "papers")),
                               ("--collection", ("--now", self.docs)),
                               ("--estimate", ("--estimate", "--collection", "papers", self.docs)),
                               ("80 bytes", ("--collection", "n" * 81, self.docs))):
            status, out, err = self.run_tool("index-document", *self.at, *args)
            self.assertNotEqual(status, 0, args)
            self.assertIn(expected, out + err)

    def test_now_indexes_all_that_are_left(self):
        self.add()
        [done] = self.run_json("index-document", "--collection", "papers", "--now", "--progress",
                               "none")
        self.assertEqual((done["indexed"], done["existed"], done["left"], done["failures"]),
                         (3, 0, 0, 0))
        self.assertTrue(all(row["document"] for row in self.documents().values()))
        self.put("more.txt", "Lighthouses are painted in May.\n")
        *_, summary, done = self.run_json("index-document", "--collection", "papers", "--now",
                                          "--progress", "none", self.docs)
        self.assertEqual(summary["summary"]["indexed"], 1)
        self.assertEqual((done["indexed"], done["existed"]), (1, 3))
        self.check_error(3, "no collection \"none\"; there are \"papers\"", "index-document",
                         *self.at, "--collection", "none", "--now")

    def store_bytes(self):
        return sum(os.path.getsize(os.path.join(folder, file))
                   for folder, _, files in os.walk(self.docs + ".store") for file in files)

    def test_now_ends_where_the_quota_does(self):
        now = ("--collection", "papers", "--now", "--progress", "none")
        self.add()
        words = self.store_bytes()
        self.run_json("index-document", *now)
        of_one = (self.store_bytes() - words) // 3
        shutil.rmtree(self.docs + ".store")
        self.add()
        out, err = self.check(0, "index-document", *self.at, *now, "--quota",
                              str(words + of_one * 3 // 2))
        self.assertIn("collection papers: 1 document indexed now, 0 before, 2 without room\n", out)
        self.assertRegex(err, "2 documents were left: .*quota")
        self.assertLessEqual(self.store_bytes(), words + of_one * 3 // 2)
        self.assertEqual(self.ask("--mentions", "zebras")[0]["count"], 1)
        self.put("more.txt", "Lighthouses are painted in May.\n" * 1000)
        _, err = self.check(5, "index-document", *self.at, "--collection", "papers", "--quota",
                            str(words), self.docs)
        self.assertIn("its quota is", err)

class AskCollectionTest(CollectionTest):
    def test_a_question_indexes_its_document(self):
        self.add()
        out, err = self.check(0, "ask-document", *self.at, "--collection", "papers", QUESTION)
        self.assertIn("asked 1 of 3 documents: harbour.txt (indexed now)", out)
        self.assertRegex(out, r"\[1\] harbour.txt, .* likely, bytes ")
        self.assertEqual(err.count("harbour.txt is indexed for its first question\n"), 1)
        self.assertIn("prefill: ", err)
        [answer] = self.ask(QUESTION)
        text = PAPERS["harbour.txt"]
        for passage in answer["evidence"]:
            self.assertEqual(passage["document"], "harbour.txt")
            self.assertEqual(text.encode()[passage["begin"]:passage["end"]].decode(),
                             passage["text"])
        collection = answer["collection"]
        self.assertEqual((collection["name"], collection["count"]), ("papers", 3))
        [asked] = collection["asked"]
        self.assertEqual((asked["name"], asked["chosen"], asked["new"], asked["passages"]),
                         ("harbour.txt", True, False, 0))
        self.assertEqual(asked["document"], answer["document"])
        self.assertEqual(asked["answer"], answer["answer"])
        # Offsets of other units are of the passage's own document.
        for unit, encoded in (("codepoint", text), ("utf16", text.encode("utf-16-le"))):
            [answer] = self.ask("--offset-unit", unit, QUESTION)
            width = 2 if unit == "utf16" else 1
            for passage in answer["evidence"]:
                got = encoded[width * passage["begin"]:width * passage["end"]]
                self.assertEqual(got if width == 1 else got.decode("utf-16-le"), passage["text"])
        # As the document answers that is asked by its name.
        [alone] = self.run_json("ask-document", "--document", "harbour.txt", "--max-tokens", "12",
                                QUESTION)
        self.assertEqual(alone["answer"], answer["answer"])
        self.assertIsNone(alone["collection"])
        self.assertTrue(all(passage["document"] is None for passage in alone["evidence"]))

    def test_a_conversation_and_a_file_of_questions(self):
        self.add()
        answers = self.ask(stdin=(QUESTION + "\nAnd when?\n/new\nAre zebras kept?\n").encode())
        self.assertEqual([a["collection"]["asked"][0]["name"] for a in answers],
                         ["harbour.txt", "harbour.txt", "old/zoo.txt"])
        self.assertGreater(answers[1]["tokens"]["question"], 0)
        questions = self.path(self.id() + ".jsonl")
        with open(questions, "w", encoding="utf-8") as file:
            file.write(json.dumps({"question": QUESTION, "answer": "Ada Brok"}) + "\n")
        [answer] = self.ask("--questions", questions)
        self.assertEqual((answer["question"], answer["expected"]), (QUESTION, "Ada Brok"))

    def test_mentions(self):
        self.add()
        [found] = self.ask("--mentions", "quinces")
        self.assertEqual(found["count"], 2)
        for one in found["documents"]:
            passage = one["passage"]
            self.assertEqual(passage["document"], one["name"])
            self.assertEqual(PAPERS[one["name"]].encode()[passage["begin"]:passage["end"]].decode(),
                             passage["text"])
        out, err = self.check(0, "ask-document", *self.at, "--collection", "papers", "--mentions",
                              "zebras quinces")
        self.assertIn("old/zoo.txt: 1 passage\n", out)
        self.assertNotIn("fruit", out)
        self.assertEqual(err, "")
        out, _ = self.check(0, "ask-document", *self.at, "--collection", "papers", "--mentions", "ox")
        self.assertEqual(out, "no document mentions this\n")
        # In words, without a model.
        out, _ = self.check(0, "ask-document", *self.at, "--collection", "papers",
                            "Which documents mention quinces?")
        self.assertIn("2 documents mention", out)
        self.assertIn("looked for words in 3 documents", out)
        self.assertEqual(self.run_json("lectern-store", "list"), [{"documents": []}])

    def test_what_is_wrong(self):
        self.check_error(3, "no collection \"none\"", "ask-document", *self.at, "--collection",
                         "none", "Who?")
        self.add()
        self.check_error(2, "--document", "ask-document", *self.at, "--collection", "papers",
                         "--document", "x", "Who?")
        self.check_error(2, "--collection", "ask-document", *self.at, "--mentions", "x")


class StoreCollectionTest(CollectionTest):
    def test_the_store_lists_and_changes_collections(self):
        self.add()
        self.ask(QUESTION)
        out, _ = self.check(0, "lectern-store", *self.at, "collections")
        self.assertRegex(out, "^3 documents, 1 indexed .* papers\n$")
        out, _ = self.check(0, "lectern-store", *self.at, "collection", "papers")
        self.assertRegex(out, r"[0-9a-f]{32} .* harbour.txt  from /.*harbour.txt\n")
        self.assertEqual(out.count("(not indexed)"), 2)
        change = ("lectern-store", *self.at, "collection", "papers")
        self.check(0, *change, "--rename-document", "old/zoo.txt", "zoo")
        self.check(0, *change, "--remove", os.path.join(self.docs, "old/fruit.txt"))
        self.assertEqual(set(self.documents()), {"harbour.txt", "zoo"})
        self.check_error(3, "no text named \"fruit\"", *change, "--remove", "fruit")
        self.check_error(2, "already|taken", *change, "--rename-document", "zoo", "harbour.txt")
        self.check_error(2, "takes the name", *change, "--rename-document", "zoo")
        out, _ = self.check(0, "lectern-store", *self.at, "collection", "other", "--add",
                            os.path.join(self.docs, "harbour.txt"))
        self.assertEqual(out, "added harbour.txt\n")
        self.check_error(2, "already", *change, "--rename", "other")
        self.check(0, *change, "--rename", "paper works")
        self.check_error(2, "--yes", "lectern-store", *self.at, "collection", "other", "--delete")
        self.check(0, "lectern-store", *self.at, "collection", "other", "--delete", "--yes")
        [listed] = self.run_json("lectern-store", "collections")
        self.assertEqual([one["name"] for one in listed["collections"]], ["paper works"])
        # Indexed documents stay, and "all" has them.
        [answer] = self.run_json("ask-document", "--collection", "all", "--max-tokens", "4", QUESTION)
        self.assertEqual(answer["collection"]["asked"][0]["name"], "harbour.txt")

    def test_verify_covers_collections(self):
        self.add()
        self.ask(QUESTION)
        self.check(0, "lectern-store", *self.at, "verify", "--full")
        path = self.docs + ".store/collections/papers.db"
        with open(path, "rb") as file:
            data = bytearray(file.read())
        at = data.find("behind the glassworks".encode())
        self.assertGreater(at, 0)
        data[at] ^= 1
        with open(path, "wb") as file:
            file.write(data)
        out, _ = self.check(6, "lectern-store", *self.at, "verify", "--full")
        self.assertRegex(out, "^collection papers: .*remove the collection")
        [found] = json.loads(self.check(6, "lectern-store", *self.at, "--json", "verify",
                                        "--full")[0])["damaged"]
        self.assertEqual((found["collection"], found["document"], found["code"]),
                         ("papers", None, "corrupt"))


class WatchCollectionTest(folder_test.FolderTest):
    watch = folder_test.WatchTest.watch
    next_row = folder_test.WatchTest.next_row
    check_next = folder_test.WatchTest.check_next
    end = folder_test.WatchTest.end

    def test_changes_renew_the_collection(self):
        path = self.put("a.txt", "Quinces are sold.")
        process = self.watch(more=("--collection", "papers"))
        self.assertEqual([row["result"] for row in self.first], ["indexed"])
        self.put("a.txt", "Zebras are kept.")
        self.check_next(process, "renewed", "a.txt")
        self.put("b.txt", "Pears.")
        self.check_next(process, "indexed", "b.txt")
        os.remove(path)
        self.assertIn("collection papers --remove", self.check_next(process, "deleted", "a.txt")["reason"])
        self.end(process)
        out, _ = self.check(0, "ask-document", *self.at, "--collection", "papers", "--json",
                            "--mentions", "zebras")
        self.assertEqual(json.loads(out)["count"], 1)


class ServerCollectionTest(CollectionTest):
    def start(self, *flags):
        server = server_test.Server(self.docs + ".store", *flags,
                                    environment=self.environment(LECTERN_MODEL=None))
        self.addCleanup(server.stop)
        return server

    def test_the_api(self):
        self.add()
        server = self.start("--model", tools_test.MODEL or self.reader())
        status, _, body = server.call("GET", "/v1/collections")
        self.assertEqual((status, [(c["name"], c["documents"], c["indexed"])
                                   for c in body["collections"]]), (200, [("papers", 3, 0)]))
        status, _, body = server.call("GET", "/v1/collections/papers")
        self.assertEqual(status, 200)
        self.assertEqual([(d["name"], d["source"], d["document"]) for d in body["documents"]],
                         [("harbour.txt", "harbour.txt", None), ("old/fruit.txt", "fruit.txt", None),
                          ("old/zoo.txt", "zoo.txt", None)])
        path = "/v1/collections/papers/text?document="
        status, headers, text = server.call("GET", path + "old%2Ffruit.txt")  # not indexed yet
        self.assertEqual((status, text), (200, PAPERS["old/fruit.txt"]))
        self.assertIn("text/plain", headers["Content-Type"])
        status, _, part = server.call("GET", path + "old%2Ffruit.txt&start=2&end=9")
        self.assertEqual((status, part), (200, text[2:9]))
        for query in (path + "old%2Ffruit.txt&start=9&end=2", "/v1/collections/papers/text"):
            self.assertEqual(server.call("GET", query)[0], 400, query)
        self.assertEqual(server.call("GET", path + "none")[0], 404)
        for path in ("/v1/collections/none", "/v1/collections/none/mentions?q=x",
                     "/v1/collections/none/text?document=x",
                     "/v1/models/collection:none"):
            status, _, body = server.call("GET", path)
            self.assertEqual((status, body["error"]["code"]), (404, "not_found"), path)
        path = "/v1/collections/papers/mentions?"
        status, _, body = server.call("GET", path + "q=quinces&limit=1&offset_unit=utf16")
        self.assertEqual((status, body["count"], len(body["documents"])), (200, 2, 1))
        self.assertEqual((body["offset_unit"], body["words"]), ("utf16", "quinces"))
        for query in ("", "q=", "q=x&limit=0", "q=x&limit=1.5", "q=x&least=1"):
            self.assertEqual(server.call("GET", path + query)[0], 400, query)
        events = server.events("POST", "/v1/ask", {"collection": "papers", "question": QUESTION,
                                                   "max_tokens": 12, "stream": True})
        names = [name for name, _ in events]
        self.assertEqual((names[0], names[-2:]), ("indexing", ["passages", "done"]))
        self.assertEqual(events[0][1]["document"], "harbour.txt")
        done = events[-1][1]
        [asked] = done["collection"]["asked"]
        self.assertEqual((asked["name"], asked["source"], asked["new"]),
                         ("harbour.txt", "harbour.txt", True))
        self.assertEqual(done["evidence"][0]["document"], "harbour.txt")
        self.assertNotIn(self.docs, json.dumps(events))
        # A conversation.
        fields = {"collection": "papers", "question": QUESTION, "max_tokens": 8}
        status, _, first = server.ask(**fields, session="new")
        self.assertEqual(status, 200)
        status, _, second = server.ask(question="And when?", session=first["session"], max_tokens=8)
        self.assertEqual((status, second["collection"]["asked"][0]["name"]), (200, "harbour.txt"))
        self.assertEqual(server.ask(document="harbour.txt", question="x", session=first["session"])[0],
                         400)
        self.assertEqual(server.ask(**fields, document="harbour.txt")[0], 400)
        status, _, body = server.ask(collection="none", question="Who?")
        self.assertEqual((status, body["error"]["param"]), (404, "collection"))

    def test_openai_formats(self):
        self.add()
        server = self.start("--model", tools_test.MODEL or self.reader())
        status, _, body = server.call("GET", "/v1/models")
        self.assertEqual([model["id"] for model in body["data"]], ["collection:papers"])
        status, _, model = server.call("GET", "/v1/models/" + urllib.parse.quote("collection:papers"))
        self.assertEqual((status, model["meta"]["documents"]), (200, 3))
        ask = {"model": "collection:papers", "max_tokens": 12,
               "messages": [{"role": "user", "content": QUESTION}]}
        status, _, body = server.call("POST", "/v1/chat/completions", ask)
        self.assertEqual((status, body["model"]), (200, "collection:papers"))
        lectern = body["lectern"]
        self.assertEqual(lectern["collection"]["asked"][0]["name"], "harbour.txt")
        self.assertEqual(lectern["answer"], body["choices"][0]["message"]["content"])
        chunks = server.events("POST", "/v1/chat/completions", {**ask, "stream": True})
        self.assertEqual(chunks[-1][1], "[DONE]")
        text = "".join(chunk["choices"][0]["delta"].get("content", "") for _, chunk in chunks[:-1])
        self.assertEqual(text, lectern["answer"])
        status, _, body = server.call("POST", "/v1/responses", {
            "model": "collection:papers", "input": "Which documents mention quinces?"})
        self.assertEqual(status, 200)
        content = body["output"][0]["content"][0]
        self.assertIn("2 documents mention", content["text"])
        files = [(a["filename"], a["file_id"], a["index"]) for a in content["annotations"]]
        self.assertEqual({(name, name) for name in ("old/fruit.txt", "old/zoo.txt")},
                         {(name, id) for name, id, _ in files})  # not indexed: they have no ids
        self.assertEqual({index for _, _, index in files}, {0, 1})
        status, _, body = server.call("POST", "/v1/chat/completions", {**ask, "model": "collection:no"})
        self.assertEqual((status, body["error"]["param"]), (404, "model"))

    def test_a_token_guards_collections(self):
        self.add()
        token = self.path("token")
        with open(token, "w", encoding="utf-8") as file:
            file.write(server_test.TOKEN + "\n")
        server = self.start("--token-file", token)
        for path in ("/v1/collections", "/v1/collections/papers",
                     "/v1/collections/papers/mentions?q=x",
                     "/v1/collections/papers/text?document=harbour.txt"):
            self.assertEqual(server.call("GET", path)[0], 401, path)
            self.assertEqual(server.call("GET", path, token=server_test.TOKEN)[0], 200, path)

    def test_without_a_model_words_still_answer(self):
        self.add()
        server = self.start()
        status, _, body = server.ask(collection="papers", question=QUESTION)
        self.assertEqual((status, body["error"]["param"]), (400, "model"))
        status, _, body = server.ask(collection="papers", question="Which files mention zebras?")
        self.assertEqual((status, body["document"]), (200, None))
        self.assertIn("old/zoo.txt", body["answer"])

    def reader(self):
        return os.path.join(tools_test.BIN, "../share/lectern/reader")


if __name__ == "__main__":
    assert tools_test.BIN, "LECTERN_BIN is not set"
    unittest.main()
