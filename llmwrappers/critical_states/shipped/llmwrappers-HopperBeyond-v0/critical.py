import numpy as np
import math


def critical(obs):
    x = float(obs[0])
    z = float(obs[1])
    phi = float(obs[2])
    q3 = float(obs[3])
    q4 = float(obs[4])
    q5 = float(obs[5])
    vx = float(obs[6])
    vz = float(obs[7])
    w = float(obs[8])
    d3 = float(obs[9])
    d4 = float(obs[10])
    d5 = float(obs[11])

    # absolute forward leans of thigh, shank, foot (foot: positive = toe down)
    tth = phi - q3
    tl = tth - q4
    tf = tl - q5
    wth = w - d3
    wl = wth - d4
    wf = wl - d5

    # heights of the undersides of toe and heel
    z_ankle = z - 0.2 * math.cos(phi) - 0.45 * math.cos(tth) - 0.5 * math.cos(tl)
    h_toe = z_ankle - 0.26 * math.sin(tf) - 0.06
    h_heel = z_ankle + 0.13 * math.sin(tf) - 0.06
    h_min = min(h_toe, h_heel)

    # centre of mass ahead of the ankle
    x_torso = 0.2 * math.sin(phi) + 0.45 * math.sin(tth) + 0.5 * math.sin(tl)
    x_thigh = 0.225 * math.sin(tth) + 0.5 * math.sin(tl)
    x_leg = 0.25 * math.sin(tl)
    x_foot = 0.065 * math.cos(tf)
    c = (3.53 * x_torso + 3.93 * x_thigh + 2.71 * x_leg + 5.09 * x_foot) / 15.26

    # speed of the centre of mass, and the speed that counts for tipping over the foot
    v_com = vx - (0.154 * math.cos(phi) * w
                  + 0.288 * math.cos(tth) * wth
                  + 0.211 * math.cos(tl) * wl)
    v_eff = 0.23 * v_com + 0.35 * vx
    xi = c + v_eff / 3.2

    # hip: keeps the torso upright; knee: a stiff straight strut
    hip = float(np.clip(-3.0 * phi - 0.25 * w, -1.0, 1.0))
    knee = float(np.clip(0.1 - 3.0 * q4 - 0.25 * d4, -1.0, 1.0))

    beyond = x > 1.15

    # Rule 1: already collapsed, or past saving backwards: nothing is known here, leave it to the agent.
    if z < 0.8 or xi < -0.25:
        return False, np.zeros(3), 0.0

    # Rule 2: flight (also the first drop, and the end of a push): hold torso and knee and
    # turn the foot for the landing, heel first if too slow, toe first if too fast.
    if h_min > 0.012 or (tf > 0.42 and vz > 0.3):
        ref = 0.10 if beyond else 0.16
        tf_des = float(np.clip(1.2 * (xi - ref), -0.15, 0.15))
        q5_des = float(np.clip(tl - tf_des, -0.7, 0.7))
        ankle = float(np.clip(2.5 * (q5_des - q5) - 0.2 * d5, -1.0, 1.0))
        return True, np.array([hip, knee, ankle]), 0.0

    # Rule 3: tipping forward too far to be stopped on this foot: push off with all force,
    # torso upright, to gain height and distance.
    if xi > 0.42 and c > 0.08:
        return True, np.array([hip, knee, -1.0]), 0.0

    # Rule 4: far enough: stand and balance, moving the pressure point under the foot
    # so that the capture point goes to the middle of the foot.
    if beyond and not (xi > 0.28 and c > 0.08):
        p = float(np.clip(xi + 1.2 * (xi - 0.09), -0.10, 0.22))
        ankle = float(np.clip(-0.75 * p + 0.4 * tf + 0.08 * wf, -1.0, 1.0))
        return True, np.array([hip, knee, ankle]), 0.0

    # Rule 5: leaning and moving forward enough, or a push is under way (ankle extending,
    # body rising): push off over the toe.
    start = c > 0.08 and xi > 0.24
    under_way = d5 < -0.3 and vz > 0.03 and c > 0.04 and xi > 0.10 and tf > -0.03
    if start or under_way:
        return True, np.array([hip, knee, -0.85]), 0.0

    # Rule 6: on the foot, not yet leaning: pressure to the heel so that the straight body
    # tips forward, foot kept flat, torso kept upright by the hip.
    if xi > 0.22:
        bias = -0.05
    else:
        bias = float(np.clip(0.09 + 1.0 * (0.04 - xi), 0.09, 0.25))
    ankle = float(np.clip(bias + 0.6 * tf + 0.1 * wf, -1.0, 1.0))
    return True, np.array([hip, knee, ankle]), 0.0
