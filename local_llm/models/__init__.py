"""The interface for asking a model, and its backends, one per file."""
