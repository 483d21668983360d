import numpy as np
import math


def policy(obs):
    o = np.nan_to_num(np.asarray(obs, dtype=np.float64).ravel())

    # ---------- torso orientation ----------
    w, x, y, z = o[1], o[2], o[3], o[4]
    n = math.sqrt(w * w + x * x + y * y + z * z) + 1e-9
    w, x, y, z = w / n, x / n, y / n, z / n
    up_x = 2.0 * (x * z + w * y)
    up_y = 2.0 * (y * z - w * x)
    up_z = 1.0 - 2.0 * (x * x + y * y)
    yaw = math.atan2(2.0 * (x * y + w * z), 1.0 - 2.0 * (y * y + z * z))
    cy, sy = math.cos(yaw), math.sin(yaw)
    uz = max(up_z, 0.2)
    pitch = math.atan2(cy * up_x + sy * up_y, uz)      # > 0: leans forward
    roll = math.atan2(-sy * up_x + cy * up_y, uz)      # > 0: leans left
    d_pitch = o[26]
    d_roll = -o[25]

    # ---------- centre of mass and feet ----------
    ci = o[45:185].reshape(14, 10)
    cv = o[185:269].reshape(14, 6)
    m = ci[:, 9]
    off = ci[:, 6:9] / np.maximum(m, 1e-6)[:, None]
    vel = cv[:, 3:6] + np.cross(cv[:, 0:3], off)
    vcom = (m[:, None] * vel).sum(axis=0) / max(float(m.sum()), 1e-6)
    vx = float(np.clip(cy * vcom[0] + sy * vcom[1], -2.0, 3.0))
    vy = float(np.clip(-sy * vcom[0] + cy * vcom[1], -1.5, 1.5))

    com_z = o[0] + 0.035 * up_z - off[1, 2]
    feet = [off[6], off[9]]                            # right, left
    fx = [cy * f[0] + sy * f[1] for f in feet]         # forward of the com
    fy = [-sy * f[0] + cy * f[1] for f in feet]        # left of the com
    clr = [com_z + f[2] - 0.075 for f in feet]         # clearance
    air = [float(np.clip((c - 0.012) / 0.03, 0.0, 1.0)) for c in clr]
    both_air = float(np.clip((min(clr) - 0.02) / 0.04, 0.0, 1.0))

    # ---------- which leg swings ----------
    xi = -0.5 * (fy[0] + fy[1]) + 0.3 * vy             # lateral capture point
    sigma = 14.0 * (clr[0] - clr[1]) - 1.0 * (fx[0] - fx[1]) + 6.0 * xi
    w_right = 0.5 * (1.0 + math.tanh(sigma / 0.05))
    sw = [w_right, 1.0 - w_right]                      # swing weights

    # ---------- trunk ----------
    v_des = 1.0
    p_des = 0.08 + 0.05 * float(np.clip(v_des - vx, -1.0, 1.0))
    pel_pitch = pitch + o[6]
    pel_roll = roll - o[7]
    pm = 0.5 * (pitch + pel_pitch)
    dpm = d_pitch + 0.5 * o[29]
    rm = 0.5 * (roll + pel_roll)
    drm = d_roll - 0.5 * o[30]

    a = np.zeros(17)
    a[0] = 1.2 * (pitch - p_des) + 0.10 * d_pitch - 0.6 * o[6] - 0.03 * o[29]
    a[1] = -0.6 * o[5] - 0.04 * o[28]
    a[2] = -1.2 * roll - 0.10 * d_roll - 0.5 * o[7] - 0.04 * o[30]

    # ---------- foot placement ----------
    b_x = 0.14 * float(np.clip(0.4 + vx, 0.3, 1.0))
    x_des = float(np.clip(0.3 * vx - b_x, -0.35, 0.50))

    side = [-1.0, 1.0]                                 # right, left
    qi = [8, 12]                                       # first joint angle
    vi = [31, 35]                                      # first joint velocity
    ai = [3, 7]                                        # first action

    place_y = [0.0, 0.0]
    place_x = [0.0, 0.0]
    for i in range(2):
        s = side[i]
        q_hx, q_hy = o[qi[i]], o[qi[i] + 2]
        d_hx, d_hy = o[vi[i]], o[vi[i] + 2]
        # fore-aft
        ex = x_des - fx[i]
        q_t = float(np.clip(q_hy - ex / 0.75, -1.5, 0.35))
        place_y[i] = float(np.clip(1.0 * (q_t - q_hy) - 0.08 * d_hy, -0.4, 0.4))
        # sideways, outwards positive
        out = float(np.clip(s * 0.3 * vy + 0.05, 0.085, 0.40))
        eo = out - s * fy[i]
        q_t = float(np.clip(q_hx - eo / 0.8, -0.42, 0.07))
        place_x[i] = float(np.clip(1.5 * (q_t - q_hx) - 0.12 * d_hx, -0.4, 0.4))

    for i in range(2):
        j = 1 - i
        s = side[i]
        k = ai[i]
        q_hz, q_kn = o[qi[i] + 1], o[qi[i] + 3]
        d_hz, d_kn = o[vi[i] + 1], o[vi[i] + 3]
        wi = sw[i]
        # a leg off the floor is placed, a loaded one holds the trunk
        free = 1.0 - (1.0 - wi) * (1.0 - air[i])

        # hip x
        st_x = -0.18 + s * (1.5 * rm + 0.15 * drm)
        a[k] = free * place_x[i] + (1.0 - free) * float(np.clip(st_x, -0.4, 0.4))

        # hip z: point the leg along +x
        q_t = s * 0.3 * float(np.clip(yaw, -0.8, 0.8))
        a[k + 1] = 0.4 * (q_t - q_hz) - 0.01 * d_hz

        # hip y
        st_y = 1.2 * (pm - p_des) + 0.12 * dpm - 0.6 * sw[j] * place_y[j]
        a[k + 2] = free * place_y[i] + (1.0 - free) * float(np.clip(st_y, -0.4, 0.4))

        # knee
        prog = -fx[j] + 0.1 * vx                       # other foot is stance
        g_x = float(np.clip((0.32 - prog) / 0.12, 0.0, 1.0))
        g_y = float(np.clip((0.045 - s * xi) / 0.06, 0.0, 1.0))
        g = min(g_x, g_y) * (1.0 - both_air)
        flex_sw = 0.15 + 0.95 * g
        kn_sw = 0.6 * (-flex_sw - q_kn) - 0.04 * d_kn
        flex_st = float(np.clip(0.14 + 0.3 * fx[i], 0.06, 0.25))
        kn_st = 1.0 * (-flex_st - q_kn) - 0.05 * d_kn + 0.06 * (1.0 - air[i])
        a[k + 3] = (wi * float(np.clip(kn_sw, -0.4, 0.4))
                    + (1.0 - wi) * float(np.clip(kn_st, -0.4, 0.4)))

    # ---------- arms ----------
    kp = [0.7, 0.7, 0.4, 0.7, 0.7, 0.4]
    kd = [0.06, 0.06, 0.02, 0.06, 0.06, 0.02]
    for i in range(6):
        a[11 + i] = -kp[i] * o[16 + i] - kd[i] * o[39 + i]

    return np.clip(a, -0.4, 0.4)
