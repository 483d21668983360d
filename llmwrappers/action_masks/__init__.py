"""Intervals and sets of allowed actions: the arithmetic under LLMActionMask."""
