# Deliberately bad: as good as random, from the last digits of the observation.
import math


def policy(obs):
    n = 3 if len(obs) == 11 else 6 if len(obs) == 17 else 8
    return [math.sin(1000.0 * (joint + 1) * float(sum(obs))) for joint in range(n)]
