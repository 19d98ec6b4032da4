#!/usr/bin/env python3
"""LangChain, LlamaIndex, llm and IPython upon the package, with the real frameworks. Environment:
integrations_store.py. Where a framework is missing its cases are skipped, and say so."""
import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import unittest
from unittest import mock

from integrations_store import (ENDLESS, LEASE_ID, PASSAGE, QUESTION, TOWNS_ID, WORK, lectern,
                                store)

REPAIRS = "Who pays for repairs to the roof?"


def needs(module):
    return unittest.skipUnless(importlib.util.find_spec(module), f"{module} is not installed")


async def cancelled(work):
    """Cancels a coroutine's task after a moment, and returns how long it took to end."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0.5)
    assert not task.done()
    began = asyncio.get_running_loop().time()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    return asyncio.get_running_loop().time() - began


@needs("langchain_core")
class LangChain(unittest.TestCase):
    def setUp(self):
        from lectern.integrations import langchain
        self.module = langchain
        self.chat = langchain.ChatLectern(store=store, document="towns")

    def test_retriever(self):
        retriever = self.module.LecternRetriever(store=store, document="lease.pdf", k=1)
        for found in (retriever.invoke(REPAIRS), asyncio.run(retriever.ainvoke(REPAIRS))):
            [document] = found
            self.assertEqual(document.page_content, "The owner pays for repairs to the roof.")
            self.assertEqual((document.metadata["page"], document.metadata["document"],
                              document.metadata["source"]),
                             (2, LEASE_ID, str((WORK / "lease.pdf").resolve())))
            start, end = document.metadata["start"], document.metadata["end"]
            self.assertEqual(store.text("lease.pdf")[start:end], document.page_content)

    def test_retriever_of_a_collection(self):
        found = self.module.LecternRetriever(store=store, collection="all").invoke(QUESTION)
        self.assertEqual((found[0].page_content, found[0].metadata["document"]),
                         (PASSAGE, TOWNS_ID))

    def test_retriever_of_few_tokens(self):
        found = self.module.LecternRetriever(store=store, document="towns",
                                             options={"max_tokens": 1}).invoke(QUESTION)
        self.assertEqual(found[0].page_content, PASSAGE)

    def test_chat(self):
        message = self.chat.invoke(QUESTION)
        self.assertEqual(message.content, "Stuxwick")
        about = message.response_metadata
        self.assertEqual(about["finish_reason"], "stop")
        self.assertEqual(about["passages"][0].page_content, PASSAGE)
        self.assertGreater(message.usage_metadata["input_tokens"], 5)
        self.assertEqual(asyncio.run(self.chat.ainvoke(QUESTION)).content, "Stuxwick")

    def test_streams(self):
        async def collect():
            return [chunk async for chunk in self.chat.astream(QUESTION)]

        for chunks in (list(self.chat.stream(QUESTION)), asyncio.run(collect())):
            self.assertGreater(len(chunks), 2)
            whole = chunks[0]
            for chunk in chunks[1:]:
                whole += chunk
            self.assertEqual(whole.content, "Stuxwick")
            self.assertEqual(whole.response_metadata["passages"][0].page_content, PASSAGE)
            self.assertGreater(whole.usage_metadata["output_tokens"], 0)

    def test_conversations(self):
        """Messages before the question reach the session as turns and instructions."""
        asked = {}
        real = lectern.Session.ask

        def ask(session, question, **options):
            asked.update(options, question=question)
            return real(session, question, **options)

        with mock.patch.object(lectern.Session, "ask", ask):
            self.chat.invoke([("system", "Be short."), ("human", "Who sings?"), ("ai", "Ann"),
                              ("human", [{"type": "text", "text": QUESTION}])], stop=["\n\n"])
        self.assertEqual((asked["question"], asked["turns"], asked["instructions"],
                          asked["stop_texts"]),
                         (QUESTION, [("Who sings?", "Ann")], "Be short.", ["\n\n"]))

    def test_what_cannot_be_asked(self):
        from langchain_core.messages import ToolMessage
        for messages in ([("ai", "Ann")], [ToolMessage("x", tool_call_id="1"), ("human", "Who?")],
                         [("human", [{"type": "image_url", "image_url": {"url": "data:,"}}])]):
            with self.assertRaises(lectern.InvalidArgumentError):
                self.chat.invoke(messages)

    def test_chain(self):
        from langchain_core.output_parsers import StrOutputParser
        from langchain_core.prompts import ChatPromptTemplate
        chain = ChatPromptTemplate.from_template("Where does the {name} committee meet?") | \
            self.chat | StrOutputParser()
        self.assertEqual(chain.invoke({"name": "Douquouth"}), "Stuxwick")

    def test_structured_output(self):
        from pydantic import BaseModel

        class Place(BaseModel):
            kind: bool

        chat = self.module.ChatLectern(store=store, document="towns")
        self.assertIsInstance(chat.with_structured_output(Place).invoke(QUESTION), Place)
        schema = {"title": "place", "description": "A place", "type": "object",
                  "properties": {"kind": {"type": "boolean"}}, "required": ["kind"]}
        self.assertIsInstance(chat.with_structured_output(schema).invoke(QUESTION)["kind"], bool)

    def test_cancelling_a_task_ends_the_answer(self):
        endless = self.module.ChatLectern(store=store, document="towns",
                                          options={**ENDLESS, "max_tokens": 3000})
        self.assertLess(asyncio.run(cancelled(endless.ainvoke(QUESTION))), 2)


@needs("llama_index.core" if importlib.util.find_spec("llama_index") else "llama_index")
class LlamaIndex(unittest.TestCase):
    def setUp(self):
        from lectern.integrations import llama_index
        self.module = llama_index

    def test_retriever(self):
        retriever = self.module.LecternRetriever(store, "lease.pdf", similarity_top_k=1)
        for found in (retriever.retrieve(REPAIRS), asyncio.run(retriever.aretrieve(REPAIRS))):
            [scored] = found
            self.assertEqual(scored.node.text, "The owner pays for repairs to the roof.")
            self.assertEqual(scored.node.metadata["page"], 2)
            self.assertEqual(scored.node.ref_doc_id, LEASE_ID)
            self.assertTrue(0 < scored.score <= 1)
            start, end = scored.node.start_char_idx, scored.node.end_char_idx
            self.assertEqual(store.text("lease.pdf")[start:end], scored.node.text)
        found = self.module.LecternRetriever(store, collection="all").retrieve(QUESTION)
        self.assertEqual((found[0].node.text, found[0].node.ref_doc_id), (PASSAGE, TOWNS_ID))

    def test_query_engine(self):
        engine = self.module.LecternQueryEngine(store, "towns")
        for response in (engine.query(QUESTION), asyncio.run(engine.aquery(QUESTION))):
            self.assertEqual(str(response), "Stuxwick")
            self.assertEqual(response.source_nodes[0].node.text, PASSAGE)
            self.assertTrue(response.metadata["has_evidence"])

    def test_streams(self):
        engine = self.module.LecternQueryEngine(store, "towns", streaming=True)
        response = engine.query(QUESTION)
        pieces = list(response.response_gen)
        self.assertGreater(len(pieces), 1)
        self.assertEqual("".join(pieces), "Stuxwick")
        self.assertEqual(response.source_nodes[0].node.text, PASSAGE)

        async def collect():
            response = await engine.aquery(QUESTION)
            return [piece async for piece in response.response_gen], response.source_nodes

        pieces, nodes = asyncio.run(collect())
        self.assertEqual(("".join(pieces), nodes[0].node.text), ("Stuxwick", PASSAGE))

    def test_in_a_router(self):
        """As one of LlamaIndex's own parts: a tool that other engines choose."""
        from llama_index.core.tools import QueryEngineTool
        tool = QueryEngineTool.from_defaults(self.module.LecternQueryEngine(store, "towns"),
                                             name="towns", description="About towns")
        self.assertEqual(str(tool.call(QUESTION).content), "Stuxwick")

    def test_errors_are_lecterns(self):
        with self.assertRaises(lectern.NotFoundError):
            self.module.LecternQueryEngine(store, "nope").query(QUESTION)

    def test_cancelling_a_task_ends_the_answer(self):
        engine = self.module.LecternQueryEngine(store, "towns", **ENDLESS, max_tokens=3000)
        self.assertLess(asyncio.run(cancelled(engine.aquery(QUESTION))), 2)


@needs("llm")
class Llm(unittest.TestCase):
    def setUp(self):
        os.environ["LLM_USER_PATH"] = str(WORK / "llm")
        import llm
        from llm.plugins import pm
        self.llm = llm
        if "lectern" not in [one.model_id for one in llm.get_models()]:
            # Not installed, but on PYTHONPATH: no entry point tells `llm` of it.
            from lectern.integrations import llm as plugin
            pm.register(plugin)

    def test_prompt(self):
        model = self.llm.get_model("lectern")
        response = model.prompt(QUESTION, document="towns")
        self.assertEqual(response.text(), "Stuxwick")
        self.assertGreater(response.usage().input, 5)
        self.assertEqual(response.response_json["evidence"][0]["text"], PASSAGE)
        self.assertEqual("".join(model.prompt(QUESTION, document="towns")), "Stuxwick")

    def test_passages(self):
        shown = self.llm.get_model("lectern").prompt(REPAIRS, document="lease.pdf",
                                                     passages=True).text()
        self.assertIn("\n> The owner pays for repairs to the roof. (p. 2", shown)

    def test_conversation(self):
        asked = []
        real = lectern.Session.ask

        def ask(session, question, **options):
            asked.append((question, options.get("turns"), options.get("instructions")))
            return real(session, question, **options)

        with mock.patch.object(lectern.Session, "ask", ask):
            talk = self.llm.get_model("lectern").conversation()
            talk.prompt(QUESTION, document="towns", passages=True, system="Be short.").text()
            talk.prompt("Who sings?", document="towns").text()
        self.assertEqual(asked[0], (QUESTION, None, "Be short."))
        self.assertEqual(asked[1][:2], ("Who sings?", [(QUESTION, "Stuxwick")]))

    def test_async(self):
        async def ask():
            model = self.llm.get_async_model("lectern")
            return await model.prompt(QUESTION, document="towns").text()

        self.assertEqual(asyncio.run(ask()), "Stuxwick")

    def test_schema(self):
        schema = {"type": "object", "properties": {"kind": {"type": "boolean"}},
                  "required": ["kind"]}
        read = json.loads(self.llm.get_model("lectern").prompt(QUESTION, document="towns",
                                                              schema=schema).text())
        self.assertIsInstance(read["kind"], bool)

    def test_errors(self):
        with self.assertRaisesRegex(self.llm.ModelError, 'no document "nope"'):
            self.llm.get_model("lectern").prompt(QUESTION, document="nope").text()
        with self.assertRaises(ValueError):
            self.llm.get_model("lectern").prompt(QUESTION, kv_budget=2).text()

    def test_command(self):
        program = os.path.join(os.path.dirname(sys.executable), "llm")
        if "LECTERN_LIBRARY" in os.environ:
            self.skipTest("only an installed wheel tells `llm` of the plugin")

        def run(*arguments, status=0):
            done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                                  check=False)
            self.assertEqual(done.returncode, status, done.stdout)
            return done.stdout

        self.assertIn("Lectern: lectern", run("models"))
        asked = ("-m", "lectern", "-o", "document", "towns")
        self.assertEqual(run(*asked, QUESTION), "Stuxwick\n")
        self.assertEqual(run("-c", *asked[2:], "--no-stream", QUESTION), "Stuxwick\n")
        self.assertIn("Stuxwick", run("logs", "-n", "1"))
        self.assertIn('no document "nope"',
                      run("-m", "lectern", "-o", "document", "nope", QUESTION, status=1))


class Notebooks(unittest.TestCase):
    @needs("IPython")
    def test_in_ipython(self):
        from IPython.core.formatters import DisplayFormatter
        with store.open("towns") as session:
            answer = session.ask(QUESTION)
        data, _ = DisplayFormatter().format(answer)
        self.assertIn("lectern-answer", data["text/html"])
        self.assertIn("Stuxwick", data["text/html"])


if __name__ == "__main__":
    unittest.main()
