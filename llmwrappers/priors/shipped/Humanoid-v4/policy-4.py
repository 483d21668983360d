import numpy as np
import math


def policy(obs):
    o = np.asarray(obs, dtype=float)

    # ---------------- torso orientation ----------------
    w, x, y, z = o[1], o[2], o[3], o[4]
    yaw = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    zx = 2.0 * (x * z + w * y)
    zy = 2.0 * (y * z - w * x)
    zz = 1.0 - 2.0 * (x * x + y * y)
    cy, sy = math.cos(yaw), math.sin(yaw)
    px = cy * zx + sy * zy
    py = -sy * zx + cy * zy
    pitch = math.atan2(px, max(zz, 0.1))      # > 0: leaning forward
    roll = math.atan2(-py, max(zz, 0.1))      # > 0: leaning to the right (-y)
    wx, wy, wz = o[25], o[26], o[27]

    ab_z, ab_y, ab_x = o[5], o[6], o[7]
    dab_z, dab_y, dab_x = o[28], o[29], o[30]
    p_pitch = pitch + ab_y                    # pelvis
    p_roll = roll + ab_x
    p_roll_rate = wx + dab_x
    p_yaw = yaw + ab_z

    # ---------------- centre of mass, feet ----------------
    cin = o[45:185].reshape(14, 10)
    cvl = o[185:269].reshape(14, 6)
    mass = cin[:, 9]
    mr = cin[:, 6:9]
    total = max(float(np.sum(mass)), 1.0)
    com_v = (np.sum(mass[:, None] * cvl[:, 3:6], axis=0)
             + np.sum(np.cross(cvl[:, 0:3], mr), axis=0)) / total

    def body_pos(i):
        return mr[i] / max(mass[i], 1e-3)

    def body_vel(i):
        return cvl[i, 3:6] + np.cross(cvl[i, 0:3], body_pos(i))

    ch, sh = math.cos(p_yaw), math.sin(p_yaw)

    def fwd(v):
        return ch * v[0] + sh * v[1]

    def lat(v):
        return -sh * v[0] + ch * v[1]

    pt, pp, pr, pl = body_pos(1), body_pos(3), body_pos(6), body_pos(9)
    base = o[0] + 0.035 * zz - pt[2] - 0.075
    hr = base + pr[2]
    hl = base + pl[2]
    xr, yr = fwd(pr), lat(pr)
    xl, yl = fwd(pl), lat(pl)
    vfr, vfl = fwd(body_vel(6)), fwd(body_vel(9))
    vx, vy = fwd(com_v), lat(com_v)

    # ---------------- foot placement, relative to the COM ----------------
    v_des = 0.9
    x_des = float(np.clip(0.12 + 0.30 * (vx - v_des), -0.08, 0.42))
    y_des_r = max(-0.35, min(-0.05 + 0.31 * vy, yl - 0.12))
    y_des_l = min(0.35, max(0.05 + 0.31 * vy, yr + 0.12))

    # ---------------- which leg swings ----------------
    sway = -(yr + yl) * 0.5 + 0.15 * vy
    d = (5.0 * (hr - hl) + 0.1 * (vfr - vfl)
         + abs(x_des - xr) - abs(x_des - xl)
         + 2.0 * sway + 0.03)
    arg = float(np.clip(25.0 * d, -30.0, 30.0))
    w_right = 1.0 / (1.0 + math.exp(-arg))
    grounded = float(np.clip((0.10 - min(hr, hl)) / 0.05, 0.0, 1.0))
    swing = [w_right * grounded, (1.0 - w_right) * grounded]

    # ---------------- legs ----------------
    x_hip = fwd(pp) + 0.02 * math.cos(p_pitch) - 0.04 * math.sin(p_pitch)
    y_pel = lat(pp)
    feet_x = [xr, xl]
    y_des = [y_des_r, y_des_l]
    side = [-1.0, 1.0]                        # right: -y, left: +y
    qi = [8, 12]
    ui = [3, 7]
    u = np.zeros(17)

    # swing hip commands first, the stance hip compensates their reaction
    ang = math.asin(float(np.clip((x_des - x_hip) / 0.75, -0.7, 0.7)))
    hip_sw = [0.0, 0.0]
    for k in range(2):
        q = qi[k]
        hy, kn = o[q + 2], o[q + 3]
        dhy = o[q + 2 + 23]
        tgt = float(np.clip(-ang + 0.5 * kn - p_pitch, -1.6, 0.3))
        hip_sw[k] = float(np.clip(1.3 * (tgt - hy) - 0.08 * dhy, -0.4, 0.4))

    trunk = 0.5 * (pitch + p_pitch)
    trunk_rate = wy + 0.5 * dab_y

    for k in range(2):
        s = side[k]
        q = qi[k]
        a = ui[k]
        ws = swing[k]
        wo = swing[1 - k]
        hx, hz, hy, kn = o[q], o[q + 1], o[q + 2], o[q + 3]
        dhx, dhy, dkn = o[q + 23], o[q + 25], o[q + 26]

        # --- swing ---
        fs = s * vy                            # COM velocity towards this side
        e_x = x_des - feet_x[k]
        lift_x = float(np.clip(e_x / 0.15, 0.0, 1.0)) * float(np.clip(1.5 - 3.0 * fs, 0.2, 1.0))
        lift_lat = float(np.clip(0.5 - 4.0 * fs, 0.0, 1.0))
        lift = max(lift_x, 0.6 * lift_lat)
        kn_sw = 0.7 * (-0.15 - 1.0 * lift - kn) - 0.03 * dkn
        y_hip = y_pel + s * 0.1
        beta = (y_des[k] - y_hip) / 0.8
        hx_t = float(np.clip(-s * (beta - p_roll), -0.40, 0.08))
        hx_sw = 2.0 * (hx_t - hx) - 0.12 * dhx
        hz_sw = 0.8 * (float(np.clip(s * 0.5 * yaw, -0.3, 0.3)) - hz)

        # --- stance ---
        kn_st = 1.5 * (-0.10 - kn) - 0.05 * dkn
        hy_st = (1.0 * (trunk - 0.06) + 0.10 * trunk_rate
                 - 0.6 * wo * hip_sw[1 - k]
                 + 0.5 * (1.0 - wo) * (-0.05 - hy) * (1.0 - ws))
        hx_st = (-0.28 * wo
                 - s * (2.0 * p_roll + 0.2 * p_roll_rate)
                 + 1.5 * (1.0 - wo) * (0.0 - hx))
        hz_st = -0.8 * hz - s * float(np.clip(0.3 * yaw + 0.05 * wz, -0.2, 0.2))

        cs = 1.0 - ws
        u[a] = ws * float(np.clip(hx_sw, -0.4, 0.4)) + cs * float(np.clip(hx_st, -0.4, 0.4))
        u[a + 1] = ws * float(np.clip(hz_sw, -0.4, 0.4)) + cs * float(np.clip(hz_st, -0.4, 0.4))
        u[a + 2] = ws * hip_sw[k] + cs * float(np.clip(hy_st, -0.4, 0.4))
        u[a + 3] = ws * float(np.clip(kn_sw, -0.4, 0.4)) + cs * float(np.clip(kn_st, -0.4, 0.4))

    # ---------------- trunk ----------------
    u[0] = 1.0 * (pitch - 0.05) + 0.10 * wy - 1.0 * ab_y - 0.08 * dab_y
    u[1] = -0.8 * ab_z - 0.05 * dab_z
    u[2] = 1.0 * roll + 0.10 * wx - 1.0 * ab_x - 0.08 * dab_x

    # ---------------- arms: soft hold ----------------
    for j in range(6):
        u[11 + j] = -0.6 * o[16 + j] - 0.04 * o[39 + j]

    u = np.nan_to_num(u)
    return np.clip(u, -0.4, 0.4)
