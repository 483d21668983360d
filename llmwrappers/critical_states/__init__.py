"""What an LLM wrote about an agent's episodes: which states are critical, what to do there, and what each is worth."""
