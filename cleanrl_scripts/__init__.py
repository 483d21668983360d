"""CleanRL-style scripts, each started by its path; what they share is in ``common``, comparisons are in ``comparison``."""
