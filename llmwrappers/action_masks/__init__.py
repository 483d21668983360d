"""Intervals and sets of allowed actions: the arithmetic of LLMActionMask."""
