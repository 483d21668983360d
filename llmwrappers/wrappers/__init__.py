"""The wrappers, one in each file, and ``vector``, which reads their infos in vector environments."""
