"""hilbert-eval prior and hilbert-eval bound on small data sets.

usage: test_eval_bounds.py HILBERT_TRAIN HILBERT_EVAL HILBERT_SIM
"""
import json
import os
import sys
import tempfile
import unittest

from programs import run

TRAIN, EVAL, SIM = sys.argv[1:4]


class Bounds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.data = cls.path('walker.h5')
        run(SIM, 'collect', 'half-cheetah', '-f', '6', '-e', '2', '-n', '60', '-s', '1', '-q', '-o', cls.data)
        for nb in ('2', '4'):
            run(TRAIN, '--data', cls.data, '--output', cls.path(nb), '--nb', nb, '--hidden', '8', '--integration', 'direct',
                '--functions', '4', '--examples', '20', '--queries', '20', '--steps', '50')

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.temporary.name, name)

    def test_prior(self):
        models = [self.path(nb) for nb in ('2', '4')]
        result = json.loads(run(EVAL, 'prior', *models, '--data', self.data, '--examples', '50', '--json').stdout)
        self.assertEqual([m['nb'] for m in result['models']], [2, 4])
        for model, path in zip(result['models'], models):
            for fit, option in (('prior', ()), ('ridge', ('--no-prior',))):
                self.assertEqual([c['examples'] for c in model[fit]['by_examples']], [5, 10, 20, 50, 100, 200, 500, 1000, 2000])
                # the same fits as those of hilbert-eval predict
                other = json.loads(run(EVAL, 'predict', path, '--data', self.data, '--examples', '50', '--steps', '10',
                                       '--rollouts', '50', '--json', *option).stdout)['models'][0]
                self.assertEqual(model[fit]['error'], other['adapted']['median'][9])
        text = run(EVAL, 'prior', *models, '--data', self.data).stdout
        # what stands over basis functions is what stands over examples, and the last line says how flat it is
        rows = {tuple(line.split()[:2]): line.split() for line in text.split('over basis functions')[1].split('\n') if line}
        errors = []
        for model, nb in zip(result['models'], ('2', '4')):
            shown = [f"{c['last_step']:.2e}" for fit in ('prior', 'ridge') for c in model[fit]['by_examples']
                     if c['examples'] in (5, 50, 200, 2000)]
            self.assertEqual(rows[nb, nb][2:10], shown)
            errors.append([float(e) for e in shown])
        for ratio, pair in zip(rows['highest', '/'][3:], zip(*errors)):
            self.assertAlmostEqual(float(ratio), max(pair) / min(pair), delta=0.02 * float(ratio))
        inner = self.path('inner')
        run(TRAIN, '--data', self.data, '--output', inner, '--nb', '2', '--hidden', '8', '--method', 'inner_product', '--functions',
            '4', '--examples', '20', '--queries', '20', '--steps', '2')
        self.assertIn('has no prior', run(EVAL, 'prior', inner, '--data', self.data, code=1).stderr)

    def test_bound(self):
        result = json.loads(run(EVAL, 'bound', '--data', self.data, '--model', self.path('2'), '--json').stdout)
        error = {row['row']: row['median'] for row in result['rows']}
        self.assertEqual(result['plant'], 'half-cheetah')
        # the simulator repeats itself far better than it predicts other vehicles
        self.assertLess(error['as recorded'][9], 0.1 * error['mean hidden parameters'][9])
        # one step of a state that is off by S in every direction is off by about S^2 at least where nothing damps it
        small, large = error['state off by 0.01 std'][0], error['state off by 0.1 std'][0]
        self.assertLess(10 * small, large)
        self.assertGreater(error["off by the model's noise"][0], error['as recorded'][0])
        self.assertIn('mean hidden parameters', run(EVAL, 'bound', '--data', self.data).stdout)
        self.assertIn('wants --data', run(EVAL, 'bound', code=2).stderr)


unittest.main(argv=sys.argv[:1])
