import math
import numpy as np


def policy(obs):
    o = np.nan_to_num(np.asarray(obs, dtype=float))

    def clip(v, lo, hi):
        return max(lo, min(hi, v))

    z, p = o[0], o[1]
    vx, vz, pd = o[8], o[9], o[10]
    sp, cp = math.sin(p), math.cos(p)
    hip_z = z - 0.2 * cp
    hip_vz = vz + 0.2 * sp * pd
    v_des = 1.1

    # ---- kinematics ----
    mx = 3.665 * 0.2 * sp
    mv = 3.665 * 0.2 * cp * pd
    legs = []
    for i in (2, 5):
        th, kn, ft = o[i], o[i + 1], o[i + 2]
        thd, knd, ftd = o[i + 9], o[i + 10], o[i + 11]
        a, ad = th - p, thd - pd
        b, bd = a + kn, ad + knd
        f, fd = b + ft, bd + ftd
        sa, ca = math.sin(a), math.cos(a)
        sb, cb = math.sin(b), math.cos(b)
        x = 0.45 * sa + 0.5 * sb
        h = hip_z - 0.45 * ca - 0.5 * cb - 0.06 + min(0.0, 0.2 * math.sin(f))
        mx += (4.058 * 0.225 * sa
               + 2.781 * (0.45 * sa + 0.25 * sb)
               + 3.167 * (0.45 * sa + 0.5 * sb + 0.1 * math.cos(f)))
        mv += (4.058 * 0.225 * ca * ad
               + 2.781 * (0.45 * ca * ad + 0.25 * cb * bd)
               + 3.167 * (0.45 * ca * ad + 0.5 * cb * bd - 0.1 * math.sin(f) * fd))
        legs.append(dict(a=a, ad=ad, b=b, kn=kn, knd=knd, f=f, fd=fd, x=x, h=h))
    com = mx / 23.68
    v = vx - 0.2 * cp * pd + mv / 23.68
    cap = com + 0.32 * v

    # ---- stance choice ----
    c0, c1 = legs[0]['h'] < 0.02, legs[1]['h'] < 0.02
    if c0 and c1:
        st = 0 if abs(legs[0]['x'] + 0.08 - cap) <= abs(legs[1]['x'] + 0.08 - cap) else 1
    elif c0:
        st = 0
    elif c1:
        st = 1
    else:
        st = 0 if legs[0]['h'] <= legs[1]['h'] else 1
    sw = 1 - st
    S, W = legs[st], legs[sw]

    # ---- swing leg: foot to the capture point, height by a funnel ----
    x_t = cap - 0.10 + 0.06 * (v - v_des)
    x_t = clip(x_t, -0.30, 0.36)
    err = abs(x_t - W['x'])
    need = cap - S['x']                        # how far the capture point left the foot
    hold = 0.06 * clip((0.22 - need) / 0.08, 0.0, 1.0)
    if need < -0.10:                           # falling back: allow landing behind
        hold = 0.0
    h_des = clip(max(0.8 * (err - 0.05), hold), 0.0, 0.15)
    if h_des < 0.005:
        h_des = -0.03                          # press down for a sure contact
    drop = max(0.45, hip_z - 0.06 - h_des)     # hip to ankle, vertical
    L = clip(math.sqrt(x_t * x_t + drop * drop), 0.55, 0.94)
    ck = clip((L * L - 0.4525) / 0.45, -1.0, 1.0)
    k = math.acos(ck)
    alpha = math.asin(clip(0.5 * math.sin(k) / L, -1.0, 1.0))
    a_des = math.atan2(x_t, drop) + alpha
    a_des = clip(a_des, -0.6, -p - 0.03)       # thigh joint limit
    kn_des = -k
    u_sw = clip(3.0 * (a_des - W['a']) - 0.35 * W['ad'] + 0.08, -0.7, 0.7)
    k_sw = 2.2 * (kn_des - W['kn']) - 0.16 * W['knd']
    f_sw = 0.4 * (0.06 - W['f']) - 0.02 * W['fd']

    # ---- torso: sum of the hip torques ----
    p_des = -0.44 - 0.06 * clip(v - 1.0, -1.0, 1.5)
    torso = clip(0.8 * (p_des - p) - 0.08 * pd, -0.8, 0.8)
    u_st = clip(torso - u_sw, -1.0, 1.0)

    # ---- stance leg: virtual model (forces in N, torques in Nm) ----
    fz = 232.0 + 3000.0 * (0.98 - hip_z) - 350.0 * hip_vz
    fz = clip(fz, 60.0, 600.0)
    cop = com - 0.10 * 2.0 * (v_des - v)
    c = clip(cop - S['x'], -0.03, 0.18)
    xc = S['x'] + c
    H = max(0.6, hip_z)
    fx = clip(-(100.0 * u_st + xc * fz) / H, -0.9 * fz, 0.9 * fz)
    t_kn = -fx * (0.5 * math.cos(S['b']) + 0.06) - fz * (0.5 * math.sin(S['b']) + c)
    t_an = -0.06 * fx - c * fz
    k_vmc = t_kn / 100.0 - 0.05 * S['knd']
    f_vmc = t_an / 100.0 - 0.3 * S['f'] - 0.02 * S['fd']
    # posture PD, used in flight
    k_pos = 3.0 * (-0.30 - S['kn']) - 0.2 * S['knd']
    f_pos = 0.4 * (0.0 - S['f']) - 0.02 * S['fd']
    load = clip((0.035 - S['h']) / 0.02, 0.0, 1.0)
    k_st = load * k_vmc + (1.0 - load) * k_pos
    f_st = load * f_vmc + (1.0 - load) * f_pos
    # keep the stance knee from collapsing or locking hard
    if S['kn'] < -0.75:
        k_st += 2.0 * (-0.75 - S['kn'])

    act = np.zeros(6)
    act[3 * st:3 * st + 3] = [u_st, k_st, f_st]
    act[3 * sw:3 * sw + 3] = [u_sw, k_sw, f_sw]
    return np.clip(act, -1.0, 1.0)
