import numpy as np
import math


def _clip(x, lo, hi):
    return max(lo, min(hi, x))


def policy(obs):
    o = [float(x) for x in obs]
    L = 34.0 / 30.0

    th = o[0]                 # hull angle, + = leaning back
    w = o[1]                  # hull angular velocity (25 rad/s)
    v = o[2] * 8.333          # forward speed, m/s
    vy = o[3]                 # vertical speed (12.5 m/s)

    hip = [o[4], o[9]]
    hv = [o[5], o[10]]
    kn = [o[6] - 1.0, o[11] - 1.0]     # true knee angle, -1.6 .. -0.1
    kv = [o[7], o[12]]
    c = [o[8] > 0.5, o[13] > 0.5]

    # virtual legs (hip-to-foot line) in the world frame
    phi = [th + hip[i] + 0.5 * kn[i] for i in range(2)]
    r = [2.0 * L * math.cos(0.5 * kn[i]) for i in range(2)]
    fx = [r[i] * math.sin(phi[i]) for i in range(2)]
    fy = [-r[i] * math.cos(phi[i]) for i in range(2)]

    # ---- roles -----------------------------------------------------------
    both = c[0] and c[1]
    if both:
        st = 0 if fx[0] >= fx[1] else 1
        if kn[st] < -1.45 and phi[1 - st] > -0.3:
            st = 1 - st               # front foot only scuffed while folded
            both = False
    elif c[0]:
        st = 0
    elif c[1]:
        st = 1
    else:
        st = 0 if fy[0] <= fy[1] else 1
    sw = 1 - st
    grounded = c[st]

    # capture point relative to the stance foot (> 0: body will pass over it)
    xi = -0.25 * math.sin(th) - fx[st] + 0.45 * v
    p = phi[st]

    # ---- hull attitude -----------------------------------------------------
    th_t = -0.05 - 0.05 * _clip((2.0 - v) / 2.0, 0.0, 1.0)
    hull_u = 1.2 * (th - th_t) + 6.5 * w

    hip_u = [0.0, 0.0]
    knee_u = [0.0, 0.0]

    push = both and xi < 0.15

    # ---- stance leg --------------------------------------------------------
    fast = _clip((3.2 - v) / 0.8, 0.0, 1.0)        # less push when fast
    ext = _clip((0.10 - p) / 0.40, 0.0, 1.0)
    kn_st = -0.55 + (0.18 + 0.25 * fast) * ext     # bent ahead, extended behind
    if push:
        kn_st = -0.55 - 0.70 * _clip((0.15 - xi) / 0.30, 0.0, 1.0)
    k_st = 2.0 * (kn_st - kn[st]) - 0.2 * kv[st] - 6.0 * vy
    knee_u[st] = _clip(k_st, -0.9, 0.9)

    if push:
        hip_u[st] = 0.6 * hull_u
    elif grounded:
        hip_u[st] = hull_u
    else:
        hip_u[st] = 0.4 * hull_u - 0.3 * hv[st]
    hip_u[st] = _clip(hip_u[st], -0.9, 0.9)

    # ---- other leg ---------------------------------------------------------
    if push:
        # rear leg stays down and pushes the body over the front foot
        k_r = 2.0 * (-0.10 - kn[sw]) - 0.2 * kv[sw] - 4.0 * vy
        knee_u[sw] = _clip(k_r, -0.4, 0.7)
        hip_u[sw] = _clip(0.6 * hull_u - 0.15, -0.8, 0.8)
    else:
        if grounded and (not both) and xi < 0.0:
            # falling back: put the foot down behind the body
            phi_t = _clip(-0.15 + 0.25 * min(v, 0.0), -0.6, -0.15)
            kn_t = -0.30
            thigh_t = phi_t - 0.5 * kn_t
        else:
            phi_land = _clip(0.10 + 0.09 * v, 0.10, 0.50)
            s = _clip((0.05 - p) / 0.22, 0.0, 1.0)       # lift -> land
            s2 = _clip((-p - 0.35) / 0.20, 0.0, 1.0)     # late: reach down
            kn_land = -0.50 + 0.30 * s2
            kn_t = -1.50 * (1.0 - s) + kn_land * s
            thigh_t = 0.80 * (1.0 - s) + (phi_land - 0.5 * kn_land) * s
        hip_t = _clip(thigh_t - th, -0.75, 1.05)
        hip_u[sw] = _clip(0.9 * (hip_t - hip[sw]) - 0.4 * hv[sw], -0.8, 0.8)
        knee_u[sw] = _clip(1.0 * (kn_t - kn[sw]) - 0.3 * kv[sw], -0.8, 0.8)

    a = np.array([hip_u[0], knee_u[0], hip_u[1], knee_u[1]], dtype=np.float32)
    return np.clip(a, -1.0, 1.0)
