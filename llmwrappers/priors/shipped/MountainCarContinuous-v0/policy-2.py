import numpy as np
import math


def policy(obs):
    x = float(obs[0])
    v = float(obs[1])

    power = 0.0015
    grav = 0.0025
    u0 = grav / 3.0
    goal = 0.45

    slope = grav * math.cos(3.0 * x)
    # energy conserved by the discrete update without force
    h = 0.5 * v * v + u0 * math.sin(3.0 * x) - 0.5 * v * slope

    # direction of the swing: velocity, or where gravity will move the car
    if v > 1e-5:
        direction = 1.0
    elif v < -1e-5:
        direction = -1.0
    elif slope > 0.0:
        direction = -1.0
    else:
        direction = 1.0

    # pumping: along the velocity, larger where the car is fast
    pump = 0.15 + 6.0 * abs(v)

    if direction < 0.0:
        # swing to the left: stop when it is high enough (avoid the wall)
        if h > 0.2 * u0:
            f = 0.0
        else:
            f = -pump
    else:
        # constant force that brings the car to the goal with a margin
        dist = max(goal - x, 0.02)
        need = (1.03 * u0 - h) / (power * dist)
        limit = 0.4 if x < 0.2 else 0.7
        if need <= 0.0:
            f = 0.0
        elif need <= limit:
            f = need
        else:
            f = pump

    f = min(1.0, max(-1.0, f))
    return np.array([f], dtype=np.float32)
