import numpy as np
import math


def policy(obs):
    c = float(obs[0])
    sn = float(obs[1])
    w = float(obs[2])
    th = math.atan2(sn, c)          # 0 = upright, +-pi = hanging

    k = 4.0                         # gain on the speed error
    a = 2.0 * math.sqrt(15.0)       # zero-energy speed is a*|sin(th/2)|
    catch = 1.4                     # can be caught if |s| < 6/sqrt(15) = 1.55

    # distance from the stable manifold of the upright position
    s = w + a * math.sin(0.5 * th)

    if th * w < 0.0 or abs(s) < catch:
        # rising towards upright, or close enough to be caught
        u = -k * s
    else:
        # falling away from upright: drive the speed to the zero-energy speed
        # in the direction of motion (pumps when too slow, brakes when too fast)
        if w > 0.0:
            d = 1.0
        elif w < 0.0:
            d = -1.0
        else:
            d = 1.0 if sn >= 0.0 else -1.0
        u = -k * (w - d * a * abs(math.sin(0.5 * th)))

    u = max(-2.0, min(2.0, u))
    return np.array([u], dtype=np.float32)
