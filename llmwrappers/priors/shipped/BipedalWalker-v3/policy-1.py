import numpy as np
import math


def policy(obs):
    o = [float(x) for x in obs]
    th, om, vx, vy = o[0], o[1], o[2], o[3]

    h = [o[4], o[9]]        # hip angles
    hv = [o[5], o[10]]      # hip speeds (4 rad/s)
    k = [o[6], o[11]]       # knee angles + 1
    kv = [o[7], o[12]]      # knee speeds (6 rad/s)
    c = [o[8] > 0.5, o[13] > 0.5]

    K_SUP = 0.1             # support knee
    V_FAST = 0.35           # fast enough: stop pushing

    # foot position ahead of the hip (in leg-segment lengths);
    # a leg already swinging forward counts as "more rear"
    score = [0.0, 0.0]
    for i in range(2):
        fx = math.sin(th + h[i]) + math.sin(th + h[i] + k[i] - 1.0)
        score[i] = fx - 0.3 * hv[i]
    rear = 0 if score[0] < score[1] else 1
    front = 1 - rear

    hip_t = [None, None]    # None: only the hull term acts on that hip
    knee_t = [K_SUP, K_SUP]

    if c[0] and c[1]:
        # double support: front leg carries, rear leg pushes and then lifts
        st, sw = front, rear
        lift = (k[sw] > 0.86 or vx > V_FAST
                or hv[sw] > 0.2 or kv[sw] < -0.25)
        if vx < -0.05:
            lift = False    # rolling backwards: keep pushing
        knee_t[st] = K_SUP
        if lift:
            hip_t[sw] = 1.1
            knee_t[sw] = -0.6
        else:
            knee_t[sw] = 1.0
    elif c[0] or c[1]:
        # single support
        st = 0 if c[0] else 1
        sw = 1 - st
        knee_t[st] = K_SUP
        if vx < -0.04 and h[st] > 0.5:
            # falling backwards: prop with the free leg behind
            hip_t[sw] = 0.0
            knee_t[sw] = 0.4
        elif h[st] > 0.10 or (h[sw] < 0.45 and h[st] > -0.35
                              and hv[sw] > 0.0):
            # swing forward, folded
            hip_t[sw] = 1.1
            knee_t[sw] = -0.6
        else:
            # put it down
            hip_t[sw] = 0.35
            knee_t[sw] = K_SUP
    else:
        # in the air
        hip_t[front] = 0.45
        knee_t[front] = K_SUP
        if hv[rear] > 0.1:
            hip_t[rear] = 1.1
            knee_t[rear] = -0.6
        else:
            knee_t[rear] = K_SUP

    a = np.zeros(4)
    for i in range(2):
        hip = 0.0
        if hip_t[i] is not None:
            hip = 0.45 * (hip_t[i] - h[i]) - 0.125 * hv[i]
            hip += 0.45 * th + 0.5 * om
        else:
            hip = 0.6 * th + 1.5 * om
        knee = 2.0 * (knee_t[i] - k[i]) - 0.125 * kv[i] - 7.5 * vy
        a[2 * i] = hip
        a[2 * i + 1] = knee

    return np.clip(a, -1.0, 1.0)
