# Deliberately bad: a damper with the wrong sign, which drives every joint further the way it turns.
def policy(obs):
    n = 3 if len(obs) == 11 else 6 if len(obs) == 17 else 8
    return [1.0 if velocity > 0 else -1.0 for velocity in obs[-n:]]
