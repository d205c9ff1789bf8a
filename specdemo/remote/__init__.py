"""A lane that is a server: races against vLLM, SGLang, llama.cpp or whatever speaks OpenAI's API. Imports no torch."""
