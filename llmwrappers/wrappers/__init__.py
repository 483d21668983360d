"""The wrappers, one a file, and ``vector``, which reads their infos in vector environments."""
