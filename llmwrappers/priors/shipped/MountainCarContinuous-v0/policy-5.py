import numpy as np
import math


def policy(obs):
    x = float(obs[0])
    v = float(obs[1])

    power = 0.0015
    grav = 0.0025
    goal = 0.45

    k = 8.0             # pumping force per unit of velocity
    u_floor = 0.1       # least pumping force (to get started)
    e_left = 0.0002     # going left: enough energy, do not hit the wall
    e_margin = 2e-5     # energy to spare at the goal

    # velocity centred on this step, and energy
    vc = v - 0.5 * grav * math.cos(3.0 * x)
    energy = 0.5 * vc * vc + grav / 3.0 * math.sin(3.0 * x)
    e_target = grav / 3.0 * math.sin(3.0 * goal) + e_margin

    # pumping: along the velocity, proportional to the speed
    pump = max(u_floor, k * abs(vc))

    if vc >= 0.0:
        # moving right: constant force that just reaches the goal
        dist = max(goal - x, 0.03)
        f_need = (e_target - energy) / (power * dist)
        f_max = 0.35 + 0.4 * min(max(x / goal, 0.0), 1.0)
        if f_need <= 0.0:
            u = 0.0                 # the swing suffices: coast
        elif f_need <= f_max:
            u = 1.05 * f_need       # last leg
        else:
            u = pump                # build up the swing
    else:
        # moving left: pump until high enough on the left hill
        if energy >= e_left:
            u = 0.0
        else:
            u = -pump

    u = min(max(u, -1.0), 1.0)
    return np.array([u], dtype=np.float32)
