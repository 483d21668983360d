import math
import numpy as np


def policy(obs):
    o = np.nan_to_num(np.asarray(obs, dtype=float))

    def clip(v, lo, hi):
        return max(lo, min(hi, v))

    p, pd, vx = o[1], o[10], o[8]

    # ---- kinematics: world angles, ankle positions, centre of mass ----
    mx = 3.665 * 0.2 * math.sin(p)
    mv = 3.665 * 0.2 * math.cos(p) * pd
    legs = []
    for i in (2, 5):
        th, kn, ft = o[i], o[i + 1], o[i + 2]
        thd, knd, ftd = o[i + 9], o[i + 10], o[i + 11]
        a, ad = th - p, thd - pd
        b, bd = a + kn, ad + knd
        f, fd = b + ft, bd + ftd
        sa, ca = math.sin(a), math.cos(a)
        sb, cb = math.sin(b), math.cos(b)
        mx += (4.058 * 0.225 * sa
               + 2.781 * (0.45 * sa + 0.25 * sb)
               + 3.167 * (0.45 * sa + 0.5 * sb + 0.1 * math.cos(f)))
        mv += (4.058 * 0.225 * ca * ad
               + 2.781 * (0.45 * ca * ad + 0.25 * cb * bd)
               + 3.167 * (0.45 * ca * ad + 0.5 * cb * bd - 0.1 * math.sin(f) * fd))
        legs.append((th, kn, knd, f, fd, 0.45 * sa + 0.5 * sb))
    com = mx / 23.68
    v = vx - 0.2 * math.cos(p) * pd + mv / 23.68
    cap = com + 0.32 * v

    # ---- oscillator phase from the scissor angle ----
    w = 7.0
    D = o[2] - o[5]
    Dd = o[11] - o[14]
    theta = math.atan2(-Dd / w, D)
    stance_x = legs[0][5] if math.sin(theta) > 0.0 else legs[1][5]

    # ---- step amplitude from the capture point ----
    A = clip((cap - stance_x) + 0.12 * (v - 1.1), 0.20, 0.85)
    lead = 0.8
    D_t = A * math.cos(theta + lead)
    Dd_t = -A * w * math.sin(theta + lead)
    u = clip(2.2 * (D_t - D) + 0.22 * (Dd_t - Dd), -0.65, 0.65)

    # ---- torso ----
    p_des = -0.40 - 0.06 * clip(v - 1.0, -1.0, 1.5)
    torso = clip(0.8 * (p_des - p) - 0.08 * pd, -0.8, 0.8)
    w0 = 0.5 + 0.5 * math.tanh(3.0 * math.sin(theta))   # 1: right leg is stance
    weights = (w0, 1.0 - w0)

    hip = [weights[0] * torso + u, weights[1] * torso - u]
    # soft stop below the upper thigh limit, balanced on the other leg
    for i in (0, 1):
        s = 3.0 * max(0.0, legs[i][0] + 0.05)
        s = min(s, 0.6)
        hip[i] -= s
        hip[1 - i] += s

    act = np.zeros(6)
    for i in (0, 1):
        th, kn, knd, f, fd, x = legs[i]
        ti = theta + math.pi * i
        wi = weights[i]
        # knee: flexed in the swing, a little early
        flex = max(0.0, -math.sin(ti + 0.5))
        kn_des = -0.20 - 0.9 * flex
        kp = 2.2 + 1.8 * wi * (1.0 - flex)
        kd = 0.15 + 0.10 * wi * (1.0 - flex)
        knee = kp * (kn_des - kn) - kd * knd
        # ankle: level foot, push-off late in the stance
        late = max(0.0, -math.cos(ti)) * max(0.0, min(1.0, 2.0 * math.sin(ti)))
        ank = 0.4 * (0.06 * (1.0 - wi) - f) - 0.02 * fd
        if v < 1.8:
            ank -= 0.35 * wi * late * (1.0 if cap > x else 0.0)
        if cap > x + 0.24 and v > 1.5:
            ank -= 0.2 * wi          # too fast: lean on the toe
        if cap < x:
            ank += 0.08 * wi         # falling back: load the heel
        act[3 * i] = hip[i]
        act[3 * i + 1] = knee
        act[3 * i + 2] = ank
    return np.clip(act, -1.0, 1.0)
