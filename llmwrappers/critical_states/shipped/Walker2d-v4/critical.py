import numpy as np
import math


def critical(obs):
    z, p = float(obs[0]), float(obs[1])
    rt, rk, ra = float(obs[2]), float(obs[3]), float(obs[4])
    lt, lk, la = float(obs[5]), float(obs[6]), float(obs[7])
    vx, vz, w = float(obs[8]), float(obs[9]), float(obs[10])
    rtv = float(obs[11])
    rkv = float(obs[12])
    ltv = float(obs[14])
    lav = float(obs[16])

    def act(a):
        return np.clip(np.array(a, dtype=float), -1.0, 1.0)

    def rew(r):
        return float(min(1.0, max(-1.0, r)))

    # 1. Heel stumble: both heels stand, toes up, legs straight, body tips over
    if (1.05 < z < 1.155 and p > 0.34 and vz < -0.68 and w > 2.3
            and la > 0.68 and ra > 0.3
            and rt > -0.1 and lt > -0.1
            and abs(rk) < 0.08 and abs(lk) < 0.08):
        hip_r = -(0.45 + 0.08 * w + 1.0 * (p - 0.38))
        hip_l = -(0.30 + 0.035 * w + 1.5 * (p - 0.38))
        knee = min(1.0, max(0.5, 0.6 + 8.0 * (1.13 - z)))
        r = 0.15 - 0.04 * (w - 3.0) - 1.2 * (p - 0.38)
        return True, act([hip_r, knee, -1.0, hip_l, knee, -1.0]), rew(r)

    # 2. Push-off from the right toe
    if (1.08 < z < 1.145 and 0.35 < vz < 0.85 and 0.33 < p < 0.56
            and la > 0.6 and lav < -4.0
            and -0.38 < rt < -0.1 and rk > -0.12 and -0.45 < ra < 0.25
            and -3.0 < w < 4.0):
        hip = -0.4 - 1.5 * (p - 0.46) - 0.05 * w
        r = 0.6 - 2.0 * max(0.0, p - 0.46) - 0.03 * max(0.0, w - 1.0)
        return True, act([hip - 0.08, 1.0, -1.0, hip + 0.1, 0.6, -0.6]), rew(r)

    # 3. Flight / just before touch-down, too much lean or tipping
    if 1.165 < z < 1.225 and la > 0.45 and p > 0.44:
        falling = vz < -0.7 and abs(w) < 2.5 and z < 1.205
        tipping = vz < -0.2 and 3.2 < w < 8.0 and ra < -0.5
        if falling or tipping:
            hip_r = -0.3 - 0.03 * max(0.0, w)
            hip_l = -0.8 - 3.0 * max(0.0, p - 0.505)
            knee_r = min(0.8, max(0.15, -1.4 * rk))
            r = 0.1 - 0.03 * max(0.0, w) - 0.8 * max(0.0, -vz - 0.75)
            return True, act([hip_r, knee_r, -0.65 * ra,
                              hip_l, 0.5, -0.6 * la]), rew(r)

    # 7a. Fast fall with both knees folding
    if (1.06 < z < 1.15 and vz < -1.2 and p > 0.4
            and rk < -0.4 and lk < -0.2 and abs(w) < 6.0):
        return True, act([0.3, 1.0, 0.3, -0.4, 1.0, 0.3]), -0.75

    # 6. Torso snaps back, thighs swept backwards
    if (w < -6.0 and p > 0.45 and 1.0 < z < 1.165 and la < 0.1
            and -1.4 < vz < 0.3 and rtv < -5.0 and ltv < -8.0):
        r = -0.05 - 5.0 * max(0.0, 1.14 - z) - 0.8 * max(0.0, -vz - 0.9)
        if z < 1.045 and vz < -1.0:
            a = [0.8, 0.6, 0.6, 0.6, 1.0, 0.8]
        else:
            a = [0.9, min(0.7, -0.2 - 1.7 * rk), 1.0, -0.45, 1.0, -1.0]
        return True, act(a), rew(r)

    # 5. Fast forward fall with the torso tipping
    if (vx > 2.9 and w > 4.5 and 1.05 < z < 1.165 and -1.3 < vz < -0.55
            and la < 0.05 and rtv > 4.0 and p > 0.4):
        hip_r = -0.3 - 0.15 * (w - 5.0)
        knee_r = -1.3 * rk
        if knee_r < 0.0:
            knee_r = 0.0
        ankle_r = min(0.9, max(0.2, -0.8 * ra))
        ankle_l = -1.0 + 0.45 * max(0.0, -la - 0.2)
        r = (0.1 - 2.0 * (p - 0.44) - 5.0 * (1.14 - z)
             - 0.5 * (-vz - 0.7))
        return True, act([hip_r, knee_r, ankle_r, -1.0, 1.0, ankle_l]), rew(r)

    # 4. Left-toe support
    land = (1.085 < z < 1.17 and -0.95 < vz < -0.57 and 0.32 < p < 0.57
            and 0.08 < la < 0.3 and lt > -0.08 and lk > -0.22
            and rt < -0.15 and rk > -0.12 and -4.5 < w < 1.0)
    load = (1.1 < z < 1.17 and -0.9 < vz < -0.57 and 0.49 < p < 0.66
            and -0.34 < la < -0.05 and lt > -0.05 and lk > -0.1
            and -0.22 < rt < -0.02 and -0.32 < rk < -0.08
            and -2.5 < w < 3.2)
    sink = (1.08 < z < 1.13 and -0.82 < vz < -0.57 and 0.56 < p < 0.68
            and -0.52 < la < -0.2 and lt > -0.1 and lk > -0.28
            and -0.27 < rt < -0.07 and rk > -0.08 and ra < -0.85
            and -3.0 < w < 1.5)
    if land or load or sink:
        hip_r = 0.1 - 0.09 * w + 3.0 * max(0.0, -rt - 0.17)
        hip_l = -0.65 - 1.5 * (p - 0.5) - 0.04 * w
        if land:
            knee_r = 0.7 - 7.0 * max(0.0, rk)
            ankle_r = -0.45 if ra < -0.5 else 0.4
        elif load:
            knee_r = 0.3
            ankle_r = 0.4
        else:
            knee_r = 0.6 - 5.0 * max(0.0, rk - 0.02)
            ankle_r = 0.2
        if p < 0.5:
            r = 0.2 + 5.0 * (0.5 - p)
        else:
            r = 0.2 - 3.6 * (p - 0.5)
        r -= 0.02 * max(0.0, w)
        return True, act([hip_r, knee_r, ankle_r, hip_l, 1.0, -1.0]), rew(min(r, 0.85))

    # 7b. Both legs far behind, low and sinking
    if (0.985 < z < 1.035 and -0.95 < vz < -0.65 and rt < -0.42 and lt < -0.33
            and la < -0.75 and ra < -0.6 and abs(w) < 4.0):
        return True, act([1.0, 0.2, 1.0, 0.2, 1.0, -0.5]), -0.8

    # 7c. Extreme lean, the sink has nearly stopped
    if (1.0 < z < 1.075 and p > 0.7 and -0.45 < vz < 0.4
            and -4.5 < w < 2.5 and la < -0.5):
        hip_l = -0.8 - 1.0 * max(0.0, p - 0.79)
        return True, act([-0.6, 0.3, 0.5, hip_l, 1.0, -0.3]), -0.65

    return False, np.zeros(6), 0.0
