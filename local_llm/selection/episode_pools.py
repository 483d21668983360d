"""Which episodes a policy is written with, chosen by and tested in: three sets of seeds that share none.

A choice among many flatters the chosen one on the episodes that it was chosen by. Sizes and order are those of EvoPolicyGym
(Wang et al., arXiv 2607.02440): 128 episodes to write, 64 to choose, 256 held out.
"""

WRITING_EPISODES, CHOOSING_EPISODES, HELD_OUT_EPISODES = 128, 64, 256
# Added to the seed of a run; it writes with its seed itself.
CHOOSING_SEED, HELD_OUT_SEED = 1_000_000, 2_000_000
