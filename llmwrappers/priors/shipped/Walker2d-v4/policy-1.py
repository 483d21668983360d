import math
import numpy as np


def policy(obs):
    o = np.nan_to_num(np.asarray(obs, dtype=float))

    def clip(v, lo, hi):
        return max(lo, min(hi, v))

    z, p = o[0], o[1]
    vx, pd = o[8], o[10]
    hip_z = z - 0.2 * math.cos(p)
    v_hip = vx - 0.2 * math.cos(p) * pd

    # ---- kinematics of both legs, centre of mass relative to the hip ----
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
        sf, cf = math.sin(f), math.cos(f)
        x = 0.45 * sa + 0.5 * sb
        h = hip_z - 0.45 * ca - 0.5 * cb - 0.06 + min(0.0, 0.2 * sf)
        mx += (4.058 * 0.225 * sa
               + 2.781 * (0.45 * sa + 0.25 * sb)
               + 3.167 * (0.45 * sa + 0.5 * sb + 0.1 * cf))
        mv += (4.058 * 0.225 * ca * ad
               + 2.781 * (0.45 * ca * ad + 0.25 * cb * bd)
               + 3.167 * (0.45 * ca * ad + 0.5 * cb * bd - 0.1 * sf * fd))
        legs.append(dict(a=a, ad=ad, kn=kn, knd=knd, f=f, fd=fd, x=x, h=h))
    com = mx / 23.68
    v = v_hip + mv / 23.68
    cap = com + 0.32 * v                      # capture point (relative to hip)

    # ---- stance leg ----
    c0, c1 = legs[0]['h'] < 0.02, legs[1]['h'] < 0.02
    if c0 and c1:
        d0 = abs(legs[0]['x'] + 0.08 - cap)
        d1 = abs(legs[1]['x'] + 0.08 - cap)
        st = 0 if d0 <= d1 else 1
    elif c0:
        st = 0
    elif c1:
        st = 1
    else:
        st = 0 if legs[0]['h'] <= legs[1]['h'] else 1
    sw = 1 - st
    S, W = legs[st], legs[sw]

    # ---- phase of the step: CoM progress over the stance ankle ----
    xs = com - S['x']
    e = clip((xs - 0.04) / 0.10, 0.0, 1.0)    # 0: lift and flex, 1: reach and land
    if v < 0.0:                               # falling backwards: land behind
        e = max(e, clip((-xs - 0.10) / 0.08, 0.0, 1.0))

    # ---- swing leg ----
    xf = clip(0.30 * v + 0.10 * (v - 1.2), -0.25, 0.36) + com
    a_land = xf / 0.93 + 0.10
    a_lift = max(a_land, 0.35) if v > -0.1 else a_land
    a_des = (1.0 - e) * a_lift + e * a_land
    a_des = clip(a_des, -0.5, -p - 0.03)      # thigh joint limit (angle <= 0)
    kn_des = (1.0 - e) * (-1.0) + e * (-0.15)
    u_sw = clip(3.0 * (a_des - W['a']) - 0.35 * W['ad'] + 0.08, -0.7, 0.7)
    k_sw = 2.0 * (kn_des - W['kn']) - 0.15 * W['knd']
    f_sw = 0.4 * (0.08 - W['f']) - 0.02 * W['fd']

    # ---- stance leg ----
    p_des = -0.36 - 0.08 * clip(v - 1.0, -1.0, 1.5)
    torso = 0.8 * (p_des - p) - 0.08 * pd
    u_st = clip(torso, -0.8, 0.8) - u_sw
    push = clip((xs - 0.08) / 0.12, 0.0, 1.0) if v > 0.0 else 0.0
    k_st = 4.0 * (-0.25 + 0.15 * push - S['kn']) - 0.25 * S['knd']
    ank = -0.04 - 0.35 * push
    if cap < S['x']:
        ank = 0.08
    f_st = 0.4 * (0.0 - S['f']) - 0.02 * S['fd'] + ank

    act = np.zeros(6)
    act[3 * st:3 * st + 3] = [u_st, k_st, f_st]
    act[3 * sw:3 * sw + 3] = [u_sw, k_sw, f_sw]
    return np.clip(act, -1.0, 1.0)
