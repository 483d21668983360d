"""Plays Python that an LLM wrote so that it can do nothing but compute. Imports NumPy and nothing else of llmwrappers."""
