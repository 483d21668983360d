import numpy as np
import math


def critical(obs):
    o = [int(round(float(v))) for v in obs]
    x, y, hx, hy = o[0], o[1], o[2], o[3]
    rx, ry = -hy, hx
    # headings: 0 right, 1 down, 2 left, 3 up; a turn to the right adds 1
    DX = (1, 0, -1, 0)
    DY = (0, 1, 0, -1)
    if hx == 1:
        d = 0
    elif hy == 1:
        d = 1
    elif hx == -1:
        d = 2
    else:
        d = 3
    carried, ccol = o[4], o[5]

    ball = (x + o[40] * hx + o[41] * rx, y + o[40] * hy + o[41] * ry)
    if o[39] != 1 or 5 <= ball[1] <= 10:
        # No ball in the room above or below: nothing is known about this state.
        return False, 0, 0.0

    # ---- which door counts: the one in the wall towards the ball
    up = ball[1] < 5
    if up:
        row, frow, irow = 5, 6, 4
        inside = y < 5
    else:
        row, frow, irow = 10, 9, 11
        inside = y > 10

    # ---- where everything lies
    keys = []
    for i in (11, 15):
        if o[i] == 1:
            keys.append(((x + o[i + 1] * hx + o[i + 2] * rx, y + o[i + 1] * hy + o[i + 2] * ry), o[i + 3]))
    locked = []
    for i in (19, 23):
        if o[i] == 1:
            locked.append(((x + o[i + 1] * hx + o[i + 2] * rx, y + o[i + 1] * hy + o[i + 2] * ry), o[i + 3]))
    boxes = []
    for i in (27, 30):
        if o[i] == 1:
            boxes.append((x + o[i + 1] * hx + o[i + 2] * rx, y + o[i + 1] * hy + o[i + 2] * ry))
    closed = []
    if o[33] == 1:
        closed.append((x + o[34] * hx + o[35] * rx, y + o[34] * hy + o[35] * ry))
    opened = []
    if o[36] == 1:
        opened.append((x + o[37] * hx + o[38] * rx, y + o[37] * hy + o[38] * ry))

    objects = set(boxes)
    for cell, col in keys:
        objects.add(cell)
    objects.add(ball)

    # ---- the map: four rooms, the unlocked doors, without the objects
    rooms = set()
    for cx in range(11, 15):
        for cy in (1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14):
            rooms.add((cx, cy))
    for cx in range(6, 10):
        for cy in range(6, 10):
            rooms.add((cx, cy))
    free = set(rooms)
    for cell in closed + opened:
        free.add(cell)
    free.add((x, y))
    free = free - objects
    drop_ok = rooms - objects

    # ---- the door towards the ball
    lock = None
    tcol = 0
    for cell, col in locked:
        if cell[1] == row:
            lock = cell
            tcol = col
    door = lock
    if door is None:
        for cell in opened + closed:
            if cell[1] == row:
                door = cell
        if y == row:
            door = (x, y)
    front = None
    inner = None
    if door is not None:
        front = (door[0], frow)
        inner = (door[0], irow)

    # ---- plans: (rule, aimed cells, last action, must drop first, dropping is the aim)
    plans = []
    if lock is not None:
        right = [cell for cell, col in keys if col == tcol]
        blocked = front in objects and front not in right
        drop_ok.discard(front)
        if carried == 1 and ccol == tcol:
            if blocked:
                plans.append((4, set([front]), 3, 1, False))
                plans.append((4, set(), 3, 1, True))
            else:
                plans.append((3, set([lock]), 5, 0, False))
        elif carried == 0:
            if len(right) > 0:
                if blocked:
                    plans.append((5, set([front]), 3, 0, False))
                plans.append((6, set(right), 3, 0, False))
            elif len(boxes) > 0:
                plans.append((9, set(boxes), 5, 0, False))
        else:
            if len(right) > 0:
                plans.append((7, set(right), 3, 1, False))
            elif len(boxes) > 0 and carried == 1:
                plans.append((8, set(boxes), 5, 1, False))
            plans.append((8, set(), 5, 1, True))
    elif inside or door is not None:
        if door is not None and not inside:
            drop_ok.discard(inner)
            if y != row:
                drop_ok.discard(front)
        if carried == 0:
            plans.append((1, set([ball]), 3, 0, False))
            bar = set()
            for cell in (front, inner):
                if cell is not None and cell in objects and cell != ball:
                    bar.add(cell)
            if len(bar) > 0:
                plans.append((11, bar, 3, 0, False))
        else:
            plans.append((2, set([ball]), 3, 1, False))
            plans.append((2, set(), 3, 1, True))
    elif 6 <= y <= 9:
        if x <= 10:
            plans.append((10, set([(12, 6), (12, 7), (12, 8), (12, 9)]), 2, 0, False))
        elif len(opened) > 0 and len(closed) == 0:
            plans.append((10, set(opened), 5, 0, False))
        elif len(closed) > 0 and len(opened) == 0:
            plans.append((10, set(closed), 5, 0, False))

    # ---- shortest action sequence for the first plan that can be carried out
    rule = 0
    act = -1
    for number, goals, last, c0, anydrop in plans:
        seen = set([(x, y, d, c0)])
        frontier = [(x, y, d, c0, -1)]
        found = -1
        for depth in range(200):
            if found >= 0 or len(frontier) == 0:
                break
            following = []
            for px, py, pd, pc, pf in frontier:
                ahead = (px + DX[pd], py + DY[pd])
                if anydrop:
                    done = pc >= 2
                else:
                    done = pc != 1 and ahead in goals
                if done:
                    found = pf if pf >= 0 else last
                    break
                cand = []
                if ahead in free and pc - 2 != pd:
                    cand.append((ahead[0], ahead[1], pd, 0 if pc >= 2 else pc, 2))
                if pc == 1 and ahead in drop_ok:
                    cand.append((px, py, pd, 2 + pd, 4))
                cand.append((px, py, (pd + 3) % 4, pc, 0))
                cand.append((px, py, (pd + 1) % 4, pc, 1))
                for qx, qy, qd, qc, qa in cand:
                    state = (qx, qy, qd, qc)
                    if state not in seen:
                        seen.add(state)
                        following.append((qx, qy, qd, qc, pf if pf >= 0 else qa))
            frontier = following
        if found >= 0:
            rule = number
            act = int(found)
            break

    # an unlocked closed door on the way is opened first
    if act == 2 and (x + DX[d], y + DY[d]) in closed:
        act = 5

    if rule == 1:
        # The way is open and the hands are empty: walk to the ball, face it, pick it up (ends the episode).
        return True, act, 0.0
    if rule == 2:
        # The way is open, but the ball can only be taken with empty hands: go on and drop the key where it costs least.
        return True, act, 0.0
    if rule == 3:
        # The right key is in the hand: walk to the locked door towards the ball, face it, toggle.
        return True, act, 0.0
    if rule == 4:
        # The right key is in the hand, but an object bars the cell before the door: drop the key to clear that cell.
        return True, act, 0.0
    if rule == 5:
        # Empty hands, an object bars the cell before the door: take it away before the right key is fetched.
        return True, act, 0.0
    if rule == 6:
        # Empty hands and the key of the door's colour is to be seen: walk to it, face it, pick it up.
        return True, act, 0.0
    if rule == 7:
        # Wrong key or box in the hand while the right key lies about: drop it and go to the right key.
        return True, act, 0.0
    if rule == 8:
        # Wrong key or box in the hand and the right key is still in a box: put it down, so that a box can be used.
        return True, act, 0.0
    if rule == 9:
        # Empty hands and the right key is not to be seen: walk to the nearest box, face it, toggle it open.
        return True, act, 0.0
    if rule == 10:
        # The unlocked door is hidden in the list by a nearer one: toggle that one, so that the right door is listed.
        return True, act, 0.0
    if rule == 11:
        # The door is unlocked, but an object before or behind it bars the way to the ball: take it up.
        return True, act, 0.0
    # Nothing known about this state: the agent acts by itself.
    return False, 0, 0.0
