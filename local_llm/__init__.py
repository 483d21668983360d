"""Asks a language model once, offline, and checks what it answers."""
