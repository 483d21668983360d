import numpy as np
import math


def _clip(x, lo, hi):
    return max(lo, min(hi, x))


def policy(obs):
    o = np.nan_to_num(np.asarray(obs, dtype=np.float64))
    z, th, qt, ql, qf = (float(v) for v in o[0:5])
    vx, vz, dth, dqt, dql, dqf = (float(v) for v in o[5:11])

    # absolute angles (about +y): >0 = upper end ahead of lower end / heel up
    pt = th - qt                 # thigh
    pl = pt - ql                 # shank
    ps = pl - qf                 # foot pitch, 0 = flat, >0 = heel up
    dpt = dth - dqt
    dpl = dpt - dql
    dps = dpl - dqf
    phi = 0.47 * pt + 0.53 * pl      # lean of the whole leg
    dphi = 0.47 * dpt + 0.53 * dpl

    # ground contact from kinematics
    ankle_z = z - 0.2 * math.cos(th) - 0.45 * math.cos(pt) - 0.5 * math.cos(pl)
    toe_h = ankle_z - 0.26 * math.sin(ps) - 0.06
    heel_h = ankle_z + 0.13 * math.sin(ps) - 0.06
    contact = min(toe_h, heel_h) < 0.01

    # hip: torso attitude, always
    th_ref = -0.03
    a0 = -3.5 * (th - th_ref) - 0.28 * dth

    # knee: keep straight
    a1 = 3.0 * (0.04 - ql) - 0.25 * dql

    if contact:
        # waiting: press the heel a little, keep the foot flat, tip forward
        wait = _clip(0.06 + 0.4 * ps + 0.03 * dps, -0.2, 0.3)

        # push trigger: lean plus its rate, held on while the heel is rising
        hyst = _clip(0.12 * dps, 0.0, 0.4) if ps > 0.02 else 0.0
        u = phi + 0.1 * dphi + hyst
        gate = _clip((u - 0.42) / 0.05, 0.0, 1.0)

        # fade the push when the backward turning for the leg swing is reached
        w_eff = dphi + 0.18 * dth + 0.04 * dps
        w_cut = _clip(-2.4 * (phi - 0.12), -1.6, 0.2)
        fade = _clip((w_eff - w_cut) / 0.5, 0.0, 1.0)

        # do not push when the torso is already far back
        safe = _clip((th + 0.18) / 0.06, 0.0, 1.0)

        g = gate * fade * safe
        amp = _clip(0.85 + 0.5 * (phi - 0.4), 0.85, 1.0)
        a2 = (1.0 - g) * wait - amp * g
        a1 += 0.3 * g
    else:
        # flight: bring the foot flat for the landing
        a2 = 1.4 * (ps - 0.03) - 0.14 * dqf

    return np.clip(np.array([a0, a1, a2], dtype=np.float64), -1.0, 1.0)
