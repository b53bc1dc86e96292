#!/usr/bin/env python3
"""hilbertd as the policy of a Gymnasium environment: the loop is five lines, at the end.

The daemon runs with the settings of config/cart.yaml and `latency: {clock: vehicle}`: it waits for the environment, and the
environment for it. Nobody tells it the cart's mass and drag, which differ from episode to episode.
usage: gymnasium_loop.py [FOLDER of the daemon's sockets]
"""
import random
import sys

import hilbert


class CartEnv:
    """Gymnasium's interface, so that this runs without it: with it, take gymnasium.make(...) instead."""

    dt = 0.05

    def reset(self, *, seed=None):
        draw = random.Random(seed)
        self.mass, self.drag = draw.uniform(0.8, 1.6), draw.uniform(0.2, 0.8)
        self.position, self.velocity = draw.uniform(-1, 0), 0.0
        return [self.position, self.velocity], {}

    def step(self, action):
        self.velocity += self.dt * (action[0] - self.drag * self.velocity) / self.mass
        self.position += self.dt * self.velocity
        reward = -abs(self.position - 1)
        return [self.position, self.velocity], reward, False, abs(self.position) > 5, {}


env, worst = CartEnv(), 0.0
with hilbert.Controller(sys.argv[1] if len(sys.argv) > 1 else "/run/hilbertd") as controller:
    for episode in range(3):
        observation, _ = env.reset(seed=episode)
        for k in range(120):
            action = controller.act(observation, k * env.dt, target=[1.0, 0.0])
            observation, reward, *_ = env.step(action)
        print(f"episode {episode}: mass {env.mass:.2f}, drag {env.drag:.2f}: the cart is at {observation[0]:.3f} ({controller.reply.status})")
        worst = max(worst, -reward)
sys.exit(0 if worst < 0.05 else 1)
