"""Physics in a file: hilbert-train --average FILE.yaml learns with it and stores it, hilbertctl shows it, and every
mistake is told with its place.

usage: test_physics.py HILBERT_TRAIN HILBERT_EVAL HILBERTCTL
"""
import json
import math
import os
import random
import re
import sys
import tempfile
import unittest

from programs import run

TRAIN, EVAL, CTL = sys.argv[1:4]
TINY = ['--nb', '3', '--hidden', '10,10', '--functions', '5', '--examples', '30', '--queries', '30', '--learning-rate', '0.01']
PHYSICS = """\
states:      {x: , v: m/s}
controls:    [u]
parameters:  {stiffness: 1.2 N/m, damping: 0.3}
expressions:
  spring: stiffness * x
  x: v
  v: u - spring - damping * v
"""


def write_logs(folder, files=8, rows=120):
    """Oscillators x'' = u - k x - d x' with their own k and d."""
    names = []
    for n in range(files):
        draw = random.Random(n)
        k, d, x, v = draw.uniform(0.8, 1.6), draw.uniform(0.2, 0.4), draw.gauss(0, 1), draw.gauss(0, 1)
        names.append(os.path.join(folder, f'log{n}.csv'))
        with open(names[-1], 'w') as out:
            out.write('t,x,v,u\n')
            for row in range(rows):
                u = draw.uniform(-1, 1)
                out.write(f'{0.1 * row:.6f},{x:.9f},{v:.9f},{u:.9f}\n')
                for _ in range(100):
                    x, v = x + 0.001 * v, v + 0.001 * (u - k * x - d * v)
    return names


class Physics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = cls.temporary.name
        cls.data = cls.path('data.h5')
        run(TRAIN, 'import-csv', '--output', cls.data, '--time', 't', '--states', 'x=x,v=v', '--controls', 'u=u', '--bounds', '-1..1',
            '--trim', '0', *write_logs(cls.folder))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def write(self, text, name='physics.yaml'):
        with open(self.path(name), 'w') as out:
            out.write(text)
        return self.path(name)

    def train(self, name, *options, code=0):
        return run(TRAIN, '--force', '--data', self.data, '--output', self.path(name), *options, code=code)

    def test_physics_is_learned_with_stored_and_shown(self):
        file = self.write(PHYSICS)
        self.train('with', *TINY, '--steps', '30', '--average', file)
        os.remove(file)  # the basis file has it all
        shown = run(CTL, 'model', self.path('with')).stdout
        self.assertIn('average        nominal: expressions, stiffness 1.2, damping 0.3\n', shown)
        self.assertIn("                 v' = u - spring - damping * v\n", shown)
        model = json.loads(run(CTL, 'model', '--json', self.path('with')).stdout)
        self.assertEqual(model['nominal']['parameters'], {'stiffness': 1.2, 'damping': 0.3})
        self.assertIn("x' = v\n", model['nominal']['expressions'])
        # a model to start from brings its physics along
        self.train('again', '--steps', '3', '--initial', self.path('with'))
        self.assertEqual(json.loads(run(CTL, 'model', '--json', self.path('again')).stdout)['nominal'], model['nominal'])

    def test_parameters_can_be_others_than_the_files(self):
        file = self.write(PHYSICS)
        self.train('other', *TINY, '--steps', '3', '--average', file + ':damping=0.25')
        model = json.loads(run(CTL, 'model', '--json', self.path('other')).stdout)
        self.assertEqual(model['nominal']['parameters'], {'stiffness': 1.2, 'damping': 0.25})
        said = self.train('none', *TINY, '--steps', '3', '--average', file + ':dampin=0.25', code=1).stderr
        self.assertIn("average: 'dampin=0.25' is not a parameter=value of " + file, said)

    def test_right_physics_predict_better_than_wrong_ones(self):
        left = {}
        for name, text in (('right', PHYSICS), ('wrong', PHYSICS.replace('u - spring', 'u + spring'))):
            self.train(name, *TINY, '--steps', '1', '--average', self.write(text))
            predicted = json.loads(run(EVAL, 'predict', '--json', '--data', self.data, self.path(name)).stdout)
            left[name] = predicted['models'][0]['without_coefficients']['median'][0]
        self.assertLess(10 * left['right'], left['wrong'])

    def test_angles_wrap(self):
        """A heading that goes round and round, told from -pi to pi."""
        names = []
        for n in range(6):
            draw = random.Random(100 + n)
            gain, heading, rate = draw.uniform(0.8, 1.2), 0.0, draw.uniform(1, 3)
            names.append(self.path(f'turn{n}.csv'))
            with open(names[-1], 'w') as out:
                out.write('t,heading,rate,u\n')
                for row in range(150):
                    u = draw.uniform(-1, 1)
                    out.write(f'{0.1 * row:.6f},{math.remainder(heading, 2 * math.pi):.9f},{rate:.9f},{u:.9f}\n')
                    heading, rate = heading + 0.1 * rate + 0.005 * gain * u, rate + 0.1 * gain * u
        data = self.path('turns.h5')
        run(TRAIN, 'import-csv', '--output', data, '--time', 't', '--states', 'heading,rate', '--controls', 'u', '--bounds', '-1..1',
            '--trim', '0', *names)
        file = self.write('expressions: {heading: rate, rate: u}\n')
        said, left = {}, {}
        for name, options in (('angle', ['--angles', 'heading']), ('number', [])):
            done = run(TRAIN, '--force', '--data', data, '--output', self.path(name), *TINY, '--steps', '1', '--average', file, *options)
            said[name] = done.stderr
            predicted = json.loads(run(EVAL, 'predict', '--json', '--data', data, self.path(name)).stdout)
            left[name] = predicted['models'][0]['without_coefficients']['median'][0]
        self.assertNotIn('2 pi', said['angle'])
        self.assertRegex(said['number'], r"state 'heading' jumps by 2 pi, \d+ times: .* --angles heading")
        self.assertLess(100 * left['angle'], left['number'])
        model = json.loads(run(CTL, 'model', '--json', self.path('angle')).stdout)
        self.assertEqual([state['angle'] for state in model['states']], [True, False])

    def test_what_is_only_quick_is_no_angle(self):
        """It leaps by about 2 pi as often as by anything else: no reason for a warning."""
        draw, names = random.Random(7), []
        for n in range(6):
            names.append(self.path(f'quick{n}.csv'))
            with open(names[-1], 'w') as out:
                out.write('t,rattle,u\n' + ''.join(f'{0.1 * row:.6f},{draw.uniform(-6, 6):.9f},{draw.uniform(-1, 1):.9f}\n' for row in range(150)))
        data = self.path('quick.h5')
        run(TRAIN, 'import-csv', '--output', data, '--time', 't', '--states', 'rattle', '--controls', 'u', '--bounds', '-1..1',
            '--trim', '0', *names)
        done = run(TRAIN, '--data', data, '--output', self.path('quick'), *TINY, '--steps', '1', '--average', self.write('expressions: {rattle: u}\n'))
        self.assertNotIn('2 pi', done.stderr)

    def test_mistakes_are_told_with_their_place(self):
        for text, place in (
                (PHYSICS.replace('damping * v', 'dampng * v'), r":7:19: v: 'dampng' is neither a state nor a control"),
                (PHYSICS.replace('u - spring', 'u - spring)'), r":7:16: v: '\)' closes nothing"),
                (PHYSICS.replace('v: m/s', 'v: m/s, w: m'), r":1:28: states: the data have no 'w', only: x, v"),
                (PHYSICS.replace(', v: m/s', ''), r":1:14: states: 'v' of the data is missing"),
                (PHYSICS.replace('1.2 N/m', 'soft'), r":3:26: stiffness: 'soft' is not a number"),
                (PHYSICS.replace('  x: v\n', ''), r"the rate of state 'x' is missing"),
                (PHYSICS.replace('controls', 'inputs'), r":2:1: 'inputs' is none of states, controls"),
                (PHYSICS.replace('stiffness * x', 'stiffness * x / (u - u)'), r":7:6: v: it is not finite at a sample"),
                (PHYSICS.replace('damping * v', 'log(v)'), r":7:6: v: it is not finite at a sample of the data: x .*, v -"),
                (PHYSICS.replace('damping * v', '|\n   a\n  b: ['), r":\d+:\d+: "),
                ('expressions: {x: v}\nexpressions:\n', r""),
                ('- x', r':1:1: expected states, controls, parameters and expressions'),
                ('', r': expected states, controls, parameters and expressions')):
            file = self.write(text)
            said = self.train('mistake', *TINY, '--steps', '3', '--average', file, code=1).stderr
            self.assertRegex(said, re.escape(file) + '.*' + place if place else '.')
            self.assertFalse(os.path.exists(self.path('mistake')))
        said = self.train('mistake', *TINY, '--steps', '3', '--average', self.path('nowhere.yaml'), code=1).stderr
        self.assertIn('nowhere.yaml: No such file', said)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
