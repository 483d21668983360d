"""Plays a language model's code as ordinary Python, only in a locked process; see THREAT_MODEL.md."""
