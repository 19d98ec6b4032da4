"""Lectern in other programs and frameworks, each in a file of its own, which nothing here imports:

    mcp_server    the command lectern-mcp: assistants list, search, ask and cite documents
    langchain     a retriever and a chat model
    llama_index   a retriever and a query engine
    llm           a plugin of the command `llm`
    jupyter       how notebooks show answers

Each needs the extra of its name: pip install 'lectern[mcp]', 'lectern[langchain]' …"""
