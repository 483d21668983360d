import numpy as np
import math


def critical(obs):
    DX = (1, 0, -1, 0)   # east, south, west, north
    DY = (0, 1, 0, -1)
    v = [int(round(float(t))) for t in obs]
    x, y, hx, hy = v[0], v[1], v[2], v[3]
    if hx == 1:
        h = 0
    elif hx == -1:
        h = 2
    elif hy == 1:
        h = 1
    else:
        h = 3
    hx, hy = DX[h], DY[h]
    rx, ry = -hy, hx
    kind = v[6]
    blocked = kind in (1, 2, 3, 5, 6, 7)

    # runs by direction of the world
    run = [0, 0, 0, 0]
    for i in range(4):
        run[(h + i) % 4] = v[7 + i]

    # objects in world coordinates
    closed = []
    for i in (11, 14):
        if v[i] == 1:
            closed.append((x + v[i + 1] * hx + v[i + 2] * rx,
                           y + v[i + 1] * hy + v[i + 2] * ry))
    has_open = v[17] == 1
    ox = x + v[18] * hx + v[19] * rx
    oy = y + v[18] * hy + v[19] * ry
    has_goal = v[20] == 1
    gx = x + v[21] * hx + v[22] * rx
    gy = y + v[21] * hy + v[22] * ry

    # the next thing to reach, for the rules that go by its side only
    if len(closed) > 0:
        tx, ty = closed[0]
    else:
        tx, ty = gx, gy

    # depth along direction d and offset to the side, seen from (px, py)
    dep = lambda ax, ay, px, py, d: (ax - px) * DX[d] + (ay - py) * DY[d]
    lat = lambda ax, ay, px, py, d: abs((ax - px) * DY[d]) + abs((ay - py) * DX[d])
    depths = lambda p: (p,) if p in (2, 3) else (2, 3)
    # can this closed door be in a wall of the room that lies behind (px, py) in direction d?
    hit_door = lambda ax, ay, px, py, d, p: any(
        (1 <= dep(ax, ay, px, py, d) <= q and 1 <= lat(ax, ay, px, py, d) <= 3)
        or (dep(ax, ay, px, py, d) == q + 1 and lat(ax, ay, px, py, d) <= 2)
        for q in depths(p))
    # can the goal be in the room that lies behind (px, py) in direction d?
    hit_goal = lambda px, py, d, p: (
        has_goal and 1 <= dep(gx, gy, px, py, d) <= max(depths(p))
        and lat(gx, gy, px, py, d) <= 2)
    manh = lambda ax, ay: abs(ax - gx) + abs(ay - gy)
    # action that leads to facing d (forward if it is faced already)
    face = lambda d: 2 if d == h else (0 if (d - h) % 4 == 3 else 1)
    # action that leads by (ax, ay) cells within a free rectangle
    comp = lambda d, ax, ay: DX[d % 4] * ax + DY[d % 4] * ay
    go = lambda ax, ay: (2 if comp(h, ax, ay) > 0 else
                         (1 if comp(h + 1, ax, ay) > 0 else
                          (0 if comp(h + 3, ax, ay) > 0 else 1)))

    # ---- 1: goal in a straight free line
    gd = -1
    if has_goal:
        for d in range(4):
            if lat(gx, gy, x, y, d) == 0 and 0 < dep(gx, gy, x, y, d) <= run[d] + 1:
                gd = d
    if gd >= 0:
        act = face(gd)
        # The goal lies in a straight free line: face it and walk into it.
        return True, act, 0.0

    # ---- 2: on the cell of an open door
    if has_open and ox == x and oy == y:
        ds = (0, 2) if run[0] + run[2] >= run[1] + run[3] else (1, 3)
        good = []
        first = -1
        for d in ds:
            if hit_goal(x, y, d, run[d]):
                good.append(d)
                if first < 0:
                    first = d
        for c in closed:
            for d in ds:
                if hit_door(c[0], c[1], x, y, d, run[d]):
                    good.append(d)
                    if first < 0:
                        first = d
        if h in good and not blocked:
            # In the doorway, and the goal or the next door belongs to the room ahead: go on.
            return True, 2, 0.0
        if first >= 0 and first != h:
            act = face(first)
            # In the doorway, facing wrongly: turn to the room with the next door or the goal.
            return True, act, 0.0
        side = -1
        for d in ds:
            if dep(tx, ty, x, y, d) > 0:
                side = d
        if side < 0 and h in ds:
            side = h
        if side >= 0:
            act = face(side)
            if not (act == 2 and blocked):
                # In the doorway, target further away: leave on the side on which it lies.
                return True, act, 0.0
        # In the doorway and nothing says where to go: leave it to the agent.
        return False, 0, 0.0

    # ---- rectangle of the present room: runs, cut at known open doors
    known = []
    if has_open:
        known.append((ox, oy))
    if kind == 4:
        known.append((x + hx, y + hy))
    ext = [run[0], run[1], run[2], run[3]]
    for d in range(4):
        for k in known:
            dist = dep(k[0], k[1], x, y, d)
            if lat(k[0], k[1], x, y, d) == 0 and 1 <= dist <= ext[d]:
                ext[d] = dist - 1
    wide = 0
    for d in (0, 1):
        a = ext[d]
        b = ext[d + 2]
        if a + b > 2:
            wide += 1
            if a > 2 and b <= 2:
                ext[d] = 2 - b
            elif b > 2 and a <= 2:
                ext[d + 2] = 2 - a
            else:
                ext[d] = 1
                ext[d + 2] = 1
    if wide == 2:
        # Wider than a room in both axes: outside the chain, the room rules do not hold.
        return False, 0, 0.0
    x0, x1 = x - ext[2], x + ext[0]
    y0, y1 = y - ext[3], y + ext[1]

    # ---- 4: goal in this room
    if has_goal and x0 <= gx <= x1 and y0 <= gy <= y1:
        act = go(gx - x, gy - y)
        if not (act == 2 and blocked):
            # The goal is in this room, a free rectangle: walk to it.
            return True, act, 0.0

    # in which wall of this room is a cell? -1: in none
    wall = lambda px, py: (
        0 if (px == x1 + 1 and y0 <= py <= y1) else
        (2 if (px == x0 - 1 and y0 <= py <= y1) else
         (1 if (py == y1 + 1 and x0 <= px <= x1) else
          (3 if (py == y0 - 1 and x0 <= px <= x1) else -1))))

    ring = []
    rest = []
    for i in range(len(closed)):
        cx, cy = closed[i]
        w = wall(cx, cy)
        if w >= 0:
            ring.append((manh(cx, cy), i, cx, cy, w))
        else:
            rest.append((cx, cy))

    # ---- 5: open door ahead that leads on
    if kind == 4:
        fx, fy = x + hx, y + hy
        p = run[h] - 1
        best = 9999
        if hit_goal(fx, fy, h, p):
            best = -1
        for c in rest:
            if hit_door(c[0], c[1], fx, fy, h, p):
                best = min(best, manh(c[0], c[1]))
        limit = 9999
        if len(ring) > 0:
            limit = min(ring)[0]
        if best < limit:
            # The open door ahead leads to the next door or the goal: walk through, no more toggling.
            return True, 2, 0.0

    # ---- 6: closed door of this room
    if len(ring) > 0:
        m = min(ring)
        cx, cy, w = m[2], m[3], m[4]
        sx, sy = cx - DX[w], cy - DY[w]
        if x == sx and y == sy:
            if h == w:
                if kind == 2:
                    # The closed door of this room is right ahead: open it.
                    return True, 5, 0.0
            else:
                act = face(w)
                # In front of the closed door of this room, facing elsewhere: turn to it.
                return True, act, 0.0
        else:
            act = go(sx - x, sy - y)
            if not (act == 2 and blocked):
                # A closed door of this room leads on: walk to the cell in front of it.
                return True, act, 0.0

    # ---- 7 and 8: no closed door here, the way on is an open door
    if len(ring) == 0 and has_open:
        w = wall(ox, oy)
        if w >= 0:
            sx, sy = ox - DX[w], oy - DY[w]
            if x == sx and y == sy:
                act = face(w)
            else:
                act = go(sx - x, sy - y)
            fits = hit_goal(ox, oy, w, 0)
            for c in rest:
                if hit_door(c[0], c[1], ox, oy, w, 0):
                    fits = True
            passable = not (act == 2 and blocked)
            if fits and passable:
                # This room has been solved, its open door leads to what comes next: go through it.
                return True, act, 0.0
            if dep(tx, ty, ox, oy, w) >= 1 and passable:
                # The target is further away, but on the far side of this open door: go through it.
                return True, act, 0.0

    # ---- 9: the listed open door is the entry: approach the target within the room
    if len(ring) == 0:
        qx = min(max(tx, x0), x1)
        qy = min(max(ty, y0), y1)
        if qx != x or qy != y:
            act = go(qx - x, qy - y)
            if not (act == 2 and blocked):
                # Move within the room to the target's side, where the right open door gets nearest.
                return True, act, 0.0

    # Nothing known about this state: leave it to the agent.
    return False, 0, 0.0
