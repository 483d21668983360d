import numpy as np
import math


def _clip(x, lo, hi):
    return lo if x < lo else (hi if x > hi else x)


def _leg(hx, hz, hvx, p, pd, th, kn, ft, thd, knd, ftd):
    a1 = th - p
    a2 = a1 + kn
    a3 = a2 + ft
    r1 = thd - pd
    r2 = r1 + knd
    r3 = r2 + ftd
    kx = hx + 0.45 * math.sin(a1)
    kvx = hvx + 0.45 * math.cos(a1) * r1
    ax = kx + 0.5 * math.sin(a2)
    avx = kvx + 0.5 * math.cos(a2) * r2
    az = hz - 0.45 * math.cos(a1) - 0.5 * math.cos(a2)
    heel = az - 0.06
    toe = az + 0.2 * math.sin(a3) - 0.06
    # first moments (mass * x, mass * vx) of thigh, shank, foot
    mx = (4.06 * (hx + 0.225 * math.sin(a1))
          + 2.78 * (kx + 0.25 * math.sin(a2))
          + 3.17 * (ax + 0.1 * math.cos(a3)))
    mv = (4.06 * (hvx + 0.225 * math.cos(a1) * r1)
          + 2.78 * (kvx + 0.25 * math.cos(a2) * r2)
          + 3.17 * (avx - 0.1 * math.sin(a3) * r3))
    return {
        "th": th, "kn": kn, "ft": ft,
        "thd": thd, "knd": knd, "ftd": ftd,
        "a1": a1, "a2": a2, "ax": ax,
        "h": min(heel, toe), "mx": mx, "mv": mv,
    }


def policy(obs):
    o = [float(v) for v in obs]
    z, p = o[0], o[1]
    vx, pd = o[8], o[10]

    # ---------- kinematics (x relative to the torso centre) ----------
    hx = -0.2 * math.sin(p)
    hz = z - 0.2 * math.cos(p)
    hvx = -0.2 * math.cos(p) * pd
    R = _leg(hx, hz, hvx, p, pd, o[2], o[3], o[4], o[11], o[12], o[13])
    L = _leg(hx, hz, hvx, p, pd, o[5], o[6], o[7], o[14], o[15], o[16])
    M = 3.67 + 2.0 * (4.06 + 2.78 + 3.17)
    xc = (R["mx"] + L["mx"]) / M
    v = vx + (R["mv"] + L["mv"]) / M

    # ---------- which leg is stance ----------
    dx = _clip(R["ax"] - L["ax"], -0.4, 0.4)
    score = (L["h"] - R["h"]) + 0.05 * dx + 0.002
    right_stance = score > 0.0
    if right_stance:
        S, W = R, L
    else:
        S, W = L, R

    # ---------- gait quantities ----------
    w0 = 4.0
    x_rel = xc - S["ax"]                 # COM ahead of the stance ankle
    xi = x_rel + v / w0                  # capture point ahead of stance ankle
    v_eff = v + 2.0 * _clip(x_rel - 0.03, -0.12, 0.15)

    p0 = -0.32 - 0.1 * _clip(v - 0.8, 0.0, 1.0)

    # ---------- swing leg ----------
    d = -0.04 + 0.22 * v_eff
    d = _clip(d, -0.35, 0.45)
    a1_t = math.asin(_clip(d / 0.93, -0.6, 0.6))
    a1_t = _clip(a1_t, -0.35, max(-0.04, -p - 0.04))
    p_mix = p0 + 0.5 * (p - p0)
    th_t = _clip(a1_t + p_mix, -0.9, -0.03)
    u_wh = 2.0 * (th_t - W["th"]) - 0.22 * W["thd"]
    u_wh = _clip(u_wh, -0.7, 0.7)

    e = a1_t - W["a1"]                   # thigh still behind its target if > 0
    flex = _clip((e - 0.04) / 0.2, 0.0, 1.0)
    back = 0.6 * _clip((-e - 0.2) / 0.2, 0.0, 1.0)
    k_t = -0.06 - 1.0 * max(flex, back)
    u_wk = 1.2 * (k_t - W["kn"]) - 0.12 * W["knd"]

    behind = S["ax"] - W["ax"]
    if behind > 0.12 and W["h"] < 0.015:
        ft_t = -0.4 * _clip(1.0 - v, 0.0, 1.0)          # push-off
    else:
        ft_t = _clip(-W["a2"] + 0.05, -0.5, 0.7)        # foot flat
    u_wf = 0.6 * (ft_t - W["ft"]) - 0.035 * W["ftd"]

    # ---------- stance leg ----------
    t_des = 1.5 * (p0 - p) - 0.11 * pd                  # torso PD
    u_sh = t_des - u_wh
    u_sk = 3.0 * (-0.03 - S["kn"]) - 0.12 * S["knd"]
    u_sf = (-0.3 * S["ft"] - 0.03 * S["ftd"]
            + 0.06 * _clip((0.4 - v) / 0.4, 0.0, 1.0)
            - 0.35 * _clip((xi - 0.22) / 0.15, 0.0, 1.0))

    if right_stance:
        a = [u_sh, u_sk, u_sf, u_wh, u_wk, u_wf]
    else:
        a = [u_wh, u_wk, u_wf, u_sh, u_sk, u_sf]
    return np.clip(np.array(a, dtype=np.float64), -1.0, 1.0)
