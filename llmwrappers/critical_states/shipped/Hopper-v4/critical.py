import numpy as np
import math


def _clip(x, lo, hi):
    return max(lo, min(hi, x))


def critical(obs):
    z = float(obs[0])
    ta = float(obs[1])
    th = float(obs[2])
    leg = float(obs[3])
    foot = float(obs[4])
    vx = float(obs[5])
    vz = float(obs[6])
    tw = float(obs[7])
    thw = float(obs[8])
    lw = float(obs[9])
    fw = float(obs[10])

    # clearance of the lowest point of the foot above the floor
    p1 = th - ta
    p2 = p1 + leg
    p3 = p2 + foot
    ankle = z - 0.2 * math.cos(ta) - 0.45 * math.cos(p1) - 0.5 * math.cos(p2)
    s3 = math.sin(p3)
    clear = ankle + min(0.26 * s3, -0.13 * s3) - 0.06
    contact = clear < 0.012

    if contact:
        # 1. heel touchdown: the landing that works
        if (foot > 0.6 and p3 > 0.0 and -0.62 < th < -0.1
                and -2.6 < vz < -1.5 and vx > 1.6 and 1.05 < z < 1.3):
            hip = _clip(0.25 - 0.42 * tw - 0.18 * thw - 2.0 * max(0.0, ta - 0.05),
                        -1.0, 1.0)
            knee = _clip(0.8 + 0.4 * max(0.0, -vz - 1.7), 0.7, 1.0)
            r = (1.0 - 0.7 * max(0.0, -vz - 1.7)
                 - 0.6 * max(0.0, -th - 0.25)
                 - 0.06 * abs(thw))
            return True, np.array([hip, knee, 1.0]), float(_clip(r, 0.3, 1.0))

        # 2. push-off of a real hop
        if (0.4 < vz < 1.35 and 1.03 < z < 1.12 and 0.03 < foot < 0.27
                and -0.86 < th < -0.6 and thw < -2.5 and fw < -4.5
                and vx > 2.4):
            hip = _clip(0.3 - 0.25 * thw - 0.2 * tw - 5.0 * max(0.0, ta - 0.05),
                        -1.0, 1.0)
            r = 0.15 + 1.5 * (th + 0.755)
            return True, np.array([hip, 1.0, -1.0]), float(_clip(r, -0.1, 0.4))

        # 4. toe touchdown with the leg behind the body
        if (vz < -1.65 and th < -0.6 and -0.5 < foot < 0.6
                and 1.07 < z < 1.18 and vx > 2.3):
            hip = _clip(0.5 - 0.15 * tw - 0.15 * thw - 3.0 * max(0.0, ta - 0.05),
                        -1.0, 1.0)
            ank = _clip(-1.0 + 2.0 * max(0.0, -foot - 0.15), -1.0, -0.5)
            r = (-0.72 + 1.0 * (foot + 0.2) + 3.5 * (th + 0.82)
                 - 0.4 * (-vz - 2.0))
            return True, np.array([hip, 1.0, ank]), float(_clip(r, -1.0, 0.5))

        # 5. late stance, thigh far back, fall nearly stopped
        if (-1.15 < vz < 0.25 and -1.05 < th < -0.8 and thw < -2.4
                and fw < -2.0 and -0.45 < foot < 0.4 and vx > 2.9
                and 0.94 < z < 1.09):
            hip = _clip(0.3 - 0.25 * thw - 0.2 * tw - 5.0 * max(0.0, ta - 0.05),
                        -1.0, 1.0)
            r = -0.38 + 0.8 * foot + 1.14 * (th + 0.85)
            return True, np.array([hip, 1.0, -1.0]), float(_clip(r, -0.9, 0.0))

        return False, np.zeros(3), 0.0

    # 3. flight with the landing leg not prepared
    if vx > 2.3:
        apex = (-0.72 < vz < -0.1 and foot < -0.46 and th < -0.735
                and z > 1.26)
        falling = (-1.55 < vz < -1.2
                   or (-1.2 <= vz < -0.85 and foot < -0.35 and fw < 0.5))
        descent = (falling and th < -0.62 and foot < 0.3
                   and 1.17 < z < 1.36)
        if apex or descent:
            hip = _clip(0.42 - 0.25 * tw - 0.13 * thw - 2.0 * ta, -1.0, 1.0)
            knee = _clip(0.4 - 0.32 * lw, -0.2, 1.0)
            # control steps left until contact (ballistic)
            g = 9.81
            t = (vz + math.sqrt(vz * vz + 2.0 * g * max(clear, 0.0))) / g
            n = min(18.0, t / 0.008)
            r = (-1.02 + 0.9 * (foot + 0.6) + 0.043 * n
                 + 0.04 * fw + 1.5 * (th + 0.75))
            return True, np.array([hip, knee, 1.0]), float(_clip(r, -1.0, 0.8))

    return False, np.zeros(3), 0.0
