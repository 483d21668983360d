import numpy as np
import math


def policy(obs):
    x = float(obs[0])
    v = float(obs[1])

    power = 0.0015
    grav = 0.0025
    goal = 0.45

    # energy, with the correction for the velocity-first integration
    slope = grav * math.cos(3.0 * x)
    energy = 0.5 * v * v + grav / 3.0 * math.sin(3.0 * x) - 0.5 * v * slope

    # energy at which the car coasts over the goal
    e_goal = grav / 3.0 * math.sin(3.0 * goal) + 1.0e-5
    # energy of a turning point just before the left wall
    e_left = grav / 3.0 * math.sin(3.0 * -1.15)

    # direction of the swing: velocity, or downhill when at rest
    if abs(v) > 1.0e-6:
        direction = 1.0 if v > 0.0 else -1.0
    else:
        direction = -1.0 if slope > 0.0 else 1.0

    # pump energy: push along the velocity, in proportion to it
    pump = 8.0 * v + 0.08 * direction

    if direction > 0.0:
        if energy >= e_goal:
            force = 0.0                      # the swing suffices: coast
        else:
            force = pump
            if x > 0.0:
                # constant force that closes the deficit by the goal
                need = (e_goal - energy) / (power * max(goal + 0.01 - x, 0.01))
                cap = 1.0 if x > 0.4 else 0.4
                if need <= cap:
                    force = max(force, need)
    else:
        if energy >= e_left:
            force = 0.0                      # more would be lost in the wall
        else:
            force = pump

    return np.clip(np.array([force], dtype=np.float32), -1.0, 1.0)
