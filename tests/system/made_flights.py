"""Flights that are made up, as loggers write them."""
import math
import os
import random


def write_flights(folder, flights=12, seconds=12):
    """Flights of a quadrotor of 30 g near hover, each with a drag of its own, as its logger writes them: north-east-down and
    forward-right-down, milliseconds, duties of motors that count from the front right on, clockwise, and a battery that
    empties. In the physics' own frames here: body forward-left-up, rotors front left, back left, back right, front right."""
    names, mass, g, inertia, arm, ratio = [], 0.03, 9.81, (1.6e-5, 1.6e-5, 2.4e-5), 0.0397 / math.sqrt(2), 0.006
    signs = ((1, 1, -1, -1), (-1, 1, 1, -1), (-1, 1, -1, 1))
    for n in range(flights):
        draw = random.Random(n)
        drag, v, p, q, w = draw.uniform(0.02, 0.12), [0.0] * 3, [0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0] * 3
        noise = lambda size: draw.gauss(0, size)  # noqa: E731
        names.append(os.path.join(folder, f'flight{n}.csv'))
        with open(names[-1], 'w') as out:
            out.write('stamp,px,py,pz,vx,vy,vz,qx,qy,qz,qw,gyro_x,gyro_y,gyro_z,m1,m2,m3,m4,vbat\n')
            for row in range(50 * seconds):
                t, volts = row / 50, 4.1 - 0.05 * row / 50
                want = [0.4 * math.sin(0.9 * t + n), 0.4 * math.cos(0.7 * t + n)]
                tilt = [0.3 * (want[0] - v[0] - 0.3 * p[0]), -0.3 * (want[1] - v[1] - 0.3 * p[1])]  # about y, about x
                turn = [60 * (tilt[1] - 2 * q[0]) - 14 * w[0], 60 * (tilt[0] - 2 * q[1]) - 14 * w[1], -8 * q[2] - 4 * w[2]]
                torque = [inertia[i] * (turn[i] + noise(15 if i < 2 else 4)) for i in range(3)]
                lift = mass * (g + 3 * (1 - p[2]) - 2 * v[2] + noise(0.5)) / 4
                f = [lift + signs[0][i] * torque[0] / (4 * arm) + signs[1][i] * torque[1] / (4 * arm)
                     + signs[2][i] * torque[2] / (4 * ratio) for i in range(4)]
                duty = [math.sqrt(max(x, 0) / (2.4 * mass)) / volts for x in reversed(f)]
                out.write(','.join(f'{x:.7g}' for x in (
                    20 * row, p[0] + noise(1e-4), -p[1] + noise(1e-4), -p[2] + noise(1e-4), v[0] + noise(1e-3), -v[1] + noise(1e-3),
                    -v[2] + noise(1e-3), q[0], -q[1], -q[2], q[3], w[0] + noise(5e-3), -w[1] + noise(5e-3), -w[2] + noise(5e-3),
                    *duty, volts)) + '\n')
                for _ in range(10):
                    h, total = 0.002, sum(f)
                    up = (2 * (q[0] * q[2] + q[3] * q[1]), 2 * (q[1] * q[2] - q[3] * q[0]), 1 - 2 * (q[0] ** 2 + q[1] ** 2))
                    a = [total / mass * up[i] - drag / mass * 0.3 * v[i] - (g if i == 2 else 0) for i in range(3)]
                    v, p = [v[i] + h * a[i] for i in range(3)], [p[i] + h * v[i] + h * h / 2 * a[i] for i in range(3)]
                    w = [w[i] + h * torque[i] / inertia[i] for i in range(3)]
                    q = [q[0] + h / 2 * (q[3] * w[0] + q[1] * w[2] - q[2] * w[1]),
                         q[1] + h / 2 * (q[3] * w[1] + q[2] * w[0] - q[0] * w[2]),
                         q[2] + h / 2 * (q[3] * w[2] + q[0] * w[1] - q[1] * w[0]),
                         q[3] - h / 2 * (q[0] * w[0] + q[1] * w[1] + q[2] * w[2])]
                    size = math.sqrt(sum(x * x for x in q))
                    q = [x / size for x in q]
    return names
