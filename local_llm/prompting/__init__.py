"""Environments and episodes in words: the prompts."""
