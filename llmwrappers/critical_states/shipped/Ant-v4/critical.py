import numpy as np
import math


def critical(obs):
    o = [float(v) for v in obs]
    for v in o:
        if not math.isfinite(v):
            return False, np.zeros(8), 0.0

    h, w, x, y, z = o[0], o[1], o[2], o[3], o[4]
    h1, k1, h2, k2, h3, k3, h4, k4 = o[5:13]
    vx, vy, vz, p, q, r = o[13:19]
    dh1, dk1, dh2, dk2, dh3, dk3, dh4, dk4 = o[19:27]

    up = 1.0 - 2.0 * (x * x + y * y)
    if up < 0.3:
        return False, np.zeros(8), 0.0

    pd = math.asin(max(-1.0, min(1.0, 2.0 * (w * y - x * z))))   # nose down > 0
    pdp = pd + 0.2 * q
    yaw = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    cy = math.cos(yaw)
    peak = h + max(vz, 0.0) ** 2 / 19.62

    def lim(v, lo, hi):
        return max(lo, min(hi, v))

    def act(a):
        return np.clip(np.array(a, dtype=float), -1.0, 1.0)

    # ---------- situations ----------
    nose_down = h > 0.64 and pd > -0.25 and (pdp > 0.7 or (pdp > 0.38 and vz > 0.8))
    rearing = h > 0.74 and pd < -0.15 and pdp < -0.45
    too_high = (peak > 0.955 and pdp < 0.8) or \
               (peak > 0.92 and not nose_down and not rearing)

    # A: launched / close to the height bound: fold the legs
    if too_high:
        t = lim(0.1 * yaw + 0.07 * r, -0.4, 0.4)
        pc = 0.3 * lim(pdp, -1.0, 1.0)
        rc = 0.05 * lim(p, -4.0, 4.0)
        a = [t - 0.02 * dh4,
             -0.05 - 0.5 * (k4 - 0.5) - 0.04 * dk4 + rc,
             t - 0.02 * dh1,
             -0.05 - 0.55 * (k1 - 0.5) - 0.05 * dk1 - rc,
             t - 0.02 * dh2,
             0.1 + 0.6 * (-0.5 - k2) - 0.04 * dk2 + pc + rc,
             t - 0.02 * dh3,
             0.1 + 0.6 * (-0.5 - k3) - 0.04 * dk3 + pc - rc]
        rew = -0.35 - 4.0 * (peak - 0.94) - 0.15 * (1.0 - cy)
        return True, act(a), float(lim(rew, -0.95, -0.25))

    # B: nose going down
    if nose_down:
        rew = 0.75 - 0.9 * pdp - 0.35 * (1.0 - cy) - 0.06 * max(0.0, 1.5 - vx)
        rew = float(lim(rew, -1.0, 0.4))
        if pd > 0.5 and q < 1.2 and -1.2 < vz < 0.4:
            # touching down on the +x feet: yield
            a = [-0.2,
                 -0.3 - 0.05 * dk4,
                 0.1,
                 -0.3 - 0.05 * dk1,
                 -0.02 * dh2,
                 0.25 + 0.6 * (-0.5 - k2) - 0.04 * dk2,
                 -0.02 * dh3,
                 0.2 + 0.7 * (-0.5 - k3) - 0.04 * dk3]
            return True, act(a), rew
        # in flight: +x legs ahead and down, -x legs up
        t = 0.0
        if r < -2.0:
            t = 0.1 * (r + 2.0)
        elif r > 2.0:
            t = 0.1 * (r - 2.0)
        t = lim(t, -0.3, 0.3)
        a = [lim(0.8 * (0.5 - h4) - 0.03 * dh4, -0.1, 0.9) + t,
             0.1 + 0.7 * (1.15 - k4) - 0.06 * dk4,
             lim(-0.8 * (h1 + 0.5) - 0.02 * dh1, -0.9, 0.1) + 0.5 * t,
             0.1 + 0.7 * (1.15 - k1) - 0.06 * dk1,
             -0.025 * dh2 + t,
             0.25 + 0.6 * (-0.5 - k2) - 0.04 * dk2,
             -0.03 * dh3 + 0.6 * t,
             0.2 + 0.7 * (-0.5 - k3) - 0.04 * dk3]
        return True, act(a), rew

    # C: rearing, nose up
    if rearing:
        m = lim(-pdp, 0.45, 1.4)
        rew = float(lim(-0.05 - 0.5 * m, -0.75, -0.25))
        if vz < -0.5:
            # coming down on the hind feet: brake the hips, stay soft
            a = [-0.057 * dh4, -0.1, -0.05 * dh1, -0.1,
                 -0.085 * dh2, 0.1, -0.11 * dh3, 0.1]
        else:
            # in flight: -x feet down and backward
            b = lim(0.7 * (m - 0.5), 0.0, 0.5)
            a = [0.0, -0.1, 0.0, lim(-0.4 - 0.03 * dk1, -0.6, -0.1),
                 b, -0.1 - 0.55 * m, -b, -0.3 - 0.3 * m]
        return True, act(a), rew

    # G: hard but level fall: absorb with small torques
    if vz < -2.0 and h < 0.75 and up > 0.8:
        c = 0.3 * lim(pd, -0.5, 0.5)
        a = [-0.1, 0.1 + c, 0.05, 0.3 + c, 0.2, -0.2 + c, 0.0, 0.15 + c]
        return True, act(a), 0.2

    # D: turned away, moving back and turning further
    if up > 0.5 and cy < 0.3 and vx < -0.3 and h > 0.7 \
            and r * yaw > 0.0 and (abs(r) > 1.2 or abs(p) > 2.5):
        t = lim(0.1 * yaw + 0.05 * r, -0.35, 0.35)
        rc = 0.04 * lim(p, -4.0, 4.0)
        a = [t - 0.035 * dh4,
             -0.05 * dk4 + rc,
             t - 0.035 * dh1,
             -0.05 * dk1 - rc,
             t - 0.035 * dh2,
             -0.05 * dk2 + rc,
             t - 0.035 * dh3,
             -0.05 * dk3 - rc]
        return True, act(a), -0.4

    level = up > 0.85 and cy > 0.75

    # E: stride, the hind legs still have room to push
    if level and vx > 1.3 and h < 0.7 and -1.7 < vz < 0.5 and (h3 - h2) > 0.0:
        if q < -3.5:
            a = [0.0,
                 -0.3 - 0.05 * max(dk4, 0.0),
                 -0.3,
                 -0.4 - 0.05 * max(dk1, 0.0),
                 0.4, -0.3, -0.4, -0.3]
            return True, act(a), 0.25
        t = lim(0.15 * yaw + 0.03 * r, -0.2, 0.2)
        a = [-0.3 - 0.25 * h4 - 0.02 * dh4 + t,
             0.2 - 0.075 * max(dk4, -2.0),
             0.15 - 0.5 * h1 - 0.03 * dh1 + t,
             0.1 - 0.04 * max(dk1, 0.0),
             0.52 + t,
             0.1 - 0.06 * dk2 + 0.04 * p,
             -0.65 - 0.5 * lim(h3, 0.0, 0.4) + t,
             -0.04 - 0.04 * min(dk3, 0.0)]
        press = max(dk1, dk4, -dk2, -dk3)
        rew = 0.95 - 0.1 * max(0.0, abs(q) - 1.0) \
            - 0.15 * max(0.0, -vz - 0.7) \
            - 0.03 * max(0.0, press - 4.0) \
            - 0.25 * max(0.0, 2.0 - vx)
        return True, act(a), float(lim(rew, 0.2, 0.95))

    # F: slow, with ankles swinging hard into the ground
    if level and vx <= 1.3 and h < 0.72 and vz < 0.0:
        press = max(dk1, dk4, -dk2, -dk3)
        if press > 8.0 or q < -4.0:
            a = [-0.05 - 0.01 * dh4,
                 -0.097 * max(dk4, 0.0),
                 -0.03 * dh1,
                 -0.08 * max(dk1, 0.0) - 0.6 * max(0.0, k1 - 0.9),
                 0.5,
                 0.12 * max(0.0, -dk2 - 2.0),
                 -0.5,
                 0.12 * max(0.0, -dk3 - 2.0)]
            return True, act(a), -0.15

    return False, np.zeros(8), 0.0
