#!/usr/bin/env python3
"""The tutorial's car: writes logs of cars that differ, and drives one that nobody has seen with hilbertd.

usage: car.py logs FOLDER [--cars N] [--seconds T]
       car.py drive [SOCKETS] [--delay SECONDS]
"""
import argparse
import math
import os
import random
import sys
from collections import deque

DT = 0.05


class Car:
    """x, y [m], heading [rad] and speed [m/s]; throttle -1..1 and steering angle -0.5..0.5 rad. Drive, drag and how well the
    steering answers are the car's own."""

    def __init__(self, seed, delay=0.0):
        self.draw = random.Random(seed)
        self.drive, self.drag, self.grip = self.draw.uniform(2, 4), self.draw.uniform(0.3, 0.9), self.draw.uniform(0.6, 1.0)
        self.x = self.y = self.v = 0.0
        self.heading = self.draw.uniform(-math.pi, math.pi)
        self.waiting = deque([[0.0, 0.0]] * round(delay / DT))

    def step(self, throttle, steer):
        self.waiting.append([throttle, steer])
        throttle, steer = self.waiting.popleft()
        for _ in range(10):
            h = DT / 10
            self.x += h * self.v * math.cos(self.heading)
            self.y += h * self.v * math.sin(self.heading)
            self.heading += h * self.grip * self.v * math.tan(steer) / 0.3
            self.v += h * (self.drive * throttle - self.drag * self.v)

    def measured(self):
        """With the noise of its sensors, and a heading from -pi to pi, as compasses have it."""
        noise = self.draw.gauss
        heading = self.heading + noise(0, 0.005)
        return [self.x + noise(0, 0.005), self.y + noise(0, 0.005), math.remainder(heading, 2 * math.pi), self.v + noise(0, 0.01)]


def write_logs(folder, cars, seconds):
    os.makedirs(folder, exist_ok=True)
    for number in range(cars):
        car, throttle, steer = Car(number), 0.0, 0.0
        with open(f"{folder}/car{number:03}.csv", "w") as out:
            out.write("t,x,y,heading,v,throttle,steer\n")
            for k in range(round(seconds / DT)):
                if k % 10 == 0:  # another manoeuvre every half second
                    throttle, steer = car.draw.uniform(-1, 1), car.draw.uniform(-0.5, 0.5)
                row = [k * DT, *car.measured(), throttle, steer]
                out.write(",".join(f"{value:.6g}" for value in row) + "\n")
                car.step(throttle, steer)
    print(f"{cars} cars, {seconds:g} s each, in {folder}")


def drive(sockets, delay):
    """Four places in turn. All that a bridge needs: observe, ask, act."""
    import hilbert

    places, car, worst = [(3, 0), (3, 3), (0, 3), (0, 0)], Car(4711, delay), 0.0
    with hilbert.Controller(sockets) as controller:
        for k in range(800):
            x, y = places[k // 200]
            throttle, steer = controller.act(car.measured(), k * DT, target=[x, y, 0, 0])
            car.step(throttle, steer)
            off = math.hypot(car.x - x, car.y - y)
            if k % 200 == 199:
                worst = max(worst, off)
                print(f"{k * DT:5.1f} s  {100 * off:5.1f} cm from ({x}, {y})  {controller.reply.status}")
    sys.exit(0 if worst < 0.3 else 1)


if __name__ == "__main__":
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("command", choices=["logs", "drive"])
    options.add_argument("place", nargs="?")
    options.add_argument("--cars", type=int, default=100)
    options.add_argument("--seconds", type=float, default=20)
    options.add_argument("--delay", type=float, default=0.0)
    given = options.parse_args()
    if given.command == "logs":
        write_logs(given.place or "logs", given.cars, given.seconds)
    else:
        drive(given.place or "/run/hilbertd", given.delay)
