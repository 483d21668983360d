# Deliberately bad: does nothing. Serves Hopper, Walker2d and Ant, which it tells apart by the length of the observation.
def policy(obs):
    n = 3 if len(obs) == 11 else 6 if len(obs) == 17 else 8
    return [0.0 for _ in range(n)]
