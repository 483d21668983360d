# Deliberately bad: every motor at full torque the other way, for ever.
def policy(obs):
    n = 3 if len(obs) == 11 else 6 if len(obs) == 17 else 8
    return [-1.0 for _ in range(n)]
