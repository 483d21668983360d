"""Plays code that a language model wrote as ordinary Python, in a locked process and nowhere else; see THREAT_MODEL.md."""
