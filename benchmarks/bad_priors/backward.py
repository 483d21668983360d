# Deliberately bad: every motor backward with all it has, for ever.
# How many numbers an observation has: how many an action, in the ten environments with priors.
SIZES = {2: 1, 3: 1, 4: 1, 8: 2, 11: 3, 17: 6, 24: 4, 27: 8, 376: 17}


def policy(obs):
    n = SIZES[len(obs)]
    return [-3.0 for _ in range(n)]
