"""Environments that are registered with Gymnasium under ``llmwrappers/``."""
