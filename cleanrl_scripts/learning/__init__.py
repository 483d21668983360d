"""The parts of the learners: networks, updates, buffers, and the priors of --prior."""
