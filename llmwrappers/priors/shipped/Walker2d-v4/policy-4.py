import numpy as np
import math


def policy(obs):
    obs = np.asarray(obs, dtype=float)

    def clip(x, lo, hi):
        return max(lo, min(hi, x))

    V_DES = 1.0            # desired forward speed (m/s)
    TC = 0.26              # pendulum time constant (s)
    G = 9.81
    M_TOR, M_TH, M_SH, M_FT = 3.67, 4.06, 2.78, 3.17
    M_LEG = M_TH + M_SH + M_FT
    M_ALL = M_TOR + 2.0 * M_LEG

    z, ph = obs[0], obs[1]
    q = obs[2:8]
    vx, w = obs[8], obs[10]
    dq = obs[11:17]

    # ---------- forward kinematics (x relative to the torso centre) ----------
    hip_x = -0.2 * math.sin(ph)
    hip_z = z - 0.2 * math.cos(ph)
    hip_v = vx - 0.2 * math.cos(ph) * w

    legs = []
    com_x = 0.0
    com_v = M_TOR * vx
    for i in range(2):
        th, kn, ft = q[3 * i], q[3 * i + 1], q[3 * i + 2]
        dth, dkn, dft = dq[3 * i], dq[3 * i + 1], dq[3 * i + 2]
        a = th - ph
        da = dth - w
        b = a + kn
        db = da + dkn
        c = b + ft
        dc = db + dft
        kx = hip_x + 0.45 * math.sin(a)
        kz = hip_z - 0.45 * math.cos(a)
        kv = hip_v + 0.45 * math.cos(a) * da
        ax = kx + 0.5 * math.sin(b)
        az = kz - 0.5 * math.cos(b)
        av = kv + 0.5 * math.cos(b) * db
        fx = ax + 0.1 * math.cos(c)
        fv = av - 0.1 * math.sin(c) * dc
        h = min(az, az + 0.2 * math.sin(c)) - 0.06
        mx = (M_TH * (hip_x + 0.225 * math.sin(a))
              + M_SH * (kx + 0.25 * math.sin(b)) + M_FT * fx)
        mv = (M_TH * (hip_v + 0.225 * math.cos(a) * da)
              + M_SH * (kv + 0.25 * math.cos(b) * db) + M_FT * fv)
        com_x += mx
        com_v += mv
        legs.append(dict(
            th=th, kn=kn, ft=ft, dth=dth, dkn=dkn, dft=dft,
            a=a, da=da, b=b, c=c, dc=dc, ax=ax, h=h,
            gh=G * (mx - M_LEG * hip_x),
            gk=G * (M_SH * 0.25 * math.sin(b) + M_FT * (fx - kx)),
            ga=G * M_FT * 0.1 * math.cos(c)))
    com_x /= M_ALL
    v = com_v / M_ALL

    # ---------- which leg is stance ----------
    s0 = -legs[0]['h'] + 0.05 * legs[0]['ax']
    s1 = -legs[1]['h'] + 0.05 * legs[1]['ax']
    ist = 0 if s0 >= s1 else 1
    isw = 1 - ist
    st, sw = legs[ist], legs[isw]

    rel = com_x - st['ax']             # CoM ahead of the stance ankle
    xcap = rel + TC * v                # capture point ahead of stance ankle
    dx = sw['ax'] - st['ax']           # swing foot ahead of stance foot

    # ---------- gate: 1 = swing, 0 = keep on the ground and push ----------
    g = clip((xcap - 0.03) / 0.04, 0.0, 1.0)
    g_air = (clip((sw['h'] - st['h'] - 0.01) / 0.03, 0.0, 1.0)
             * clip((xcap + 0.10) / 0.05, 0.0, 1.0))
    g = max(g, g_air)

    # ---------- torso PD (total torque wanted on the torso, N m) ----------
    ph_des = -0.30 - 0.15 * clip(v - V_DES, 0.0, 1.0)
    T = clip(100.0 * (ph_des - ph) - 10.0 * w, -60.0, 60.0)

    # ---------- swing leg ----------
    d = TC * v - 0.07 + 0.15 * (v - V_DES)
    a_t = clip(d / 0.95 + 0.08, 0.12, 0.45)
    a_t = min(a_t, -ph - 0.02)                     # hip stop: thigh <= 0
    hip_swing = clip(120.0 * (a_t - sw['a']) - 12.0 * sw['da'] + sw['gh'],
                     -70.0, 70.0)

    bend = 0.60 + 0.35 * clip(v / 0.6, 0.0, 1.0)
    k_t = -float(np.interp(dx, [-0.15, 0.20], [bend, 0.15]))
    knee_swing = clip(80.0 * (k_t - sw['kn']) - 8.0 * sw['dkn'] + sw['gk'],
                      -80.0, 80.0)

    f_t = clip(-sw['b'] + 0.08, -0.6, 0.7)
    foot_swing = 25.0 * (f_t - sw['ft']) - 1.5 * sw['dft'] + sw['ga']

    # ---------- rear leg in push mode (double support) ----------
    con_sw = clip(1.0 - sw['h'] / 0.03, 0.0, 1.0)
    knee_push = 250.0 * (-0.08 - sw['kn']) - 12.0 * sw['dkn']
    foot_push = (-35.0 * clip((hip_x - sw['ax'] - 0.15) / 0.10, 0.0, 1.0) * con_sw
                 - 15.0 * sw['c'] - 1.0 * sw['dc'])

    hip_sw = g * hip_swing + (1.0 - g) * 0.5 * T
    knee_sw = g * knee_swing + (1.0 - g) * knee_push
    foot_sw = g * foot_swing + (1.0 - g) * foot_push

    # ---------- stance leg ----------
    hip_st = T - hip_sw
    knee_st = 250.0 * (-0.10 - st['kn']) - 12.0 * st['dkn']
    con_st = clip(1.0 - st['h'] / 0.03, 0.0, 1.0)
    cop = clip(0.30 * rel + 0.15 * (v - V_DES), 0.0, 0.17)
    cop += 0.05 * clip((rel - 0.15) / 0.10, 0.0, 1.0)      # late push-off
    foot_st = -232.0 * cop * con_st - 15.0 * st['c'] - 1.0 * st['dc']

    # ---------- assemble ----------
    act = np.zeros(6)
    act[3 * ist:3 * ist + 3] = [hip_st, knee_st, foot_st]
    act[3 * isw:3 * isw + 3] = [hip_sw, knee_sw, foot_sw]
    act = act / 100.0
    act = np.nan_to_num(act, nan=0.0, posinf=1.0, neginf=-1.0)
    return np.clip(act, -1.0, 1.0)
