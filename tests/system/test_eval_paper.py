"""hilbert-eval paper at its tiniest scale: data, all rows, flights and tables; an interrupted run; files of another run.

usage: test_eval_paper.py HILBERT_EVAL HILBERT_SIM
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from waiting import wait_until

EVAL, SIM = sys.argv[1:3]
PAPER = ['NODE', *(f'{row}, {how}' for how in ('inner product', 'least squares')
                   for row in ('FE + Res', 'FE + NODE', 'FE + NODE + Res')), 'Oracle']


def paper(folder, *arguments, code=0):
    command = [EVAL, 'paper', '--sim', SIM, '--data', folder, '--scale', 'tiny', *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, f'{command}: exit code {done.returncode}, expected {code}\n{done.stdout}{done.stderr}'
    return done


def without_times(result):
    """What must not depend on the day, the machine, the folder or the number of threads."""
    if isinstance(result, dict):
        return {k: without_times(v) for k, v in result.items()
                if k not in ('date', 'machine', 'seconds', 'cpu_seconds', 'planning_ms', 'command')}
    return [without_times(v) for v in result] if isinstance(result, list) else result


class Paper(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = cls.temporary.name
        cls.first = json.loads(paper(cls.folder, 'quadrotor', '--json', '--threads', '2').stdout)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def test_rows_and_errors(self):
        rows = self.first['rows']
        self.assertEqual([r['row'] for r in rows], [*PAPER, 'ours', 'ours, with physics'])
        for row in rows:
            self.assertEqual(row['steps'], rows[0]['steps'])
            self.assertGreater(row['cpu_seconds'], 0)
            self.assertEqual(len(row['adapted']['median']), 12)
            for lower, median, upper in zip(*(row['adapted'][k] for k in ('lower', 'median', 'upper'))):
                self.assertTrue(0 < lower <= median <= upper)
            # the authors' figure: 5 functions with 2 rollouts each
            for lower, median, upper in zip(*(row['pooled'][k] for k in ('lower', 'median', 'upper'))):
                self.assertTrue(0 < lower <= median <= upper)
            self.assertEqual(len(row['by_function']), 5)
            for function in row['by_function']:
                self.assertTrue(0.020 <= function['mass'] <= 0.032)
            # the error of the curve is the median of the functions' errors
            errors = sorted(function['error'] for function in row['by_function'])
            self.assertAlmostEqual(errors[2], row['adapted']['median'][9], delta=1e-5 * errors[2])
            counts = [c['examples'] for c in row['by_examples']]
            self.assertEqual(counts, [5, 10, 20, 50, 100, 200, 500, 1000, 2000] if row['nb'] else [])
        self.assertEqual([(b['row'], b['nb']) for b in self.first['bases']],
                         [('ours', 1), ('ours', 2), ('FE + NODE + Res, least squares', 1), ('FE + NODE + Res, least squares', 2)])
        # the quadrotor's physics is most of what there is to know
        self.assertLess(rows[-1]['adapted']['median'][9], 0.1 * rows[0]['adapted']['median'][9])

    def test_flights(self):
        flown = {r['row']: r['flights'] for r in self.first['rows'] if 'flights' in r}
        self.assertEqual(list(flown), ['NODE', 'FE + NODE, inner product', 'FE + NODE + Res, inner product', 'FE + NODE, least squares',
                                       'FE + NODE + Res, least squares', 'ours', 'ours, with physics'])
        for flights in flown.values():
            self.assertEqual(flights['flights'], 2)
        self.assertEqual(flown['ours, with physics']['crashes'], 0)
        self.assertGreater(flown['ours, with physics']['slew_quartiles'][1], 0)

    def test_flights_within_a_time(self):
        with tempfile.TemporaryDirectory() as other:
            sim = os.path.join(other, 'sim')
            with open(sim, 'w') as script:
                script.write(f'#!/bin/sh\n[ "$1" != fly ] || echo "$@" >> "{other}/flown"\n[ "$1" != fly ] || [ -z "$SLOW" ] || '
                             f'sh -c "ulimit -t 2; while :; do :; done"\nexec "{SIM}" "$@"\n')
            os.chmod(sim, 0o755)
            given = ['quadrotor', '--sim', sim, '--json', '--no-plot', '--no-bases', '--rows', 'ours,ours-physics']
            none = json.loads(paper(other, *given, '--flight-seconds', '0').stdout)
            self.assertTrue(all('flights' not in row for row in none['rows']))
            # a flight takes longer than there is time: one mass of the two is flown, and known from then on
            os.environ['SLOW'] = 'yes'
            try:
                few = json.loads(paper(other, *given, '--flight-seconds', '1').stdout)
            finally:
                del os.environ['SLOW']
            self.assertEqual([row['flights']['flights'] for row in few['rows']], [1, 1])
            again = json.loads(paper(other, *given, '--flight-seconds', '1').stdout)
            self.assertEqual(without_times(again), without_times(few))
            with open(os.path.join(other, 'flown')) as flown:
                self.assertEqual([line.count('--functions 1 --episodes 1') for line in flown], [1] * 2)
            self.assertIn('1 flights instead of 2', paper(other, *given, code=1).stderr)
            # with time enough all are flown, as without a limit
            for name in os.listdir(os.path.join(other, 'quadrotor-tiny')):
                if 'flight' in name:
                    os.remove(os.path.join(other, 'quadrotor-tiny', name))
            all_of_them = json.loads(paper(other, *given, '--flight-seconds', '1000').stdout)
            first = {row['row']: row for row in self.first['rows']}
            for row in all_of_them['rows']:
                self.assertEqual(without_times(row['flights']), without_times(first[row['row']]['flights']))

    def test_flights_where_no_model_is_shipped(self):
        with tempfile.TemporaryDirectory() as other:
            sim = shutil.copy(SIM, os.path.join(other, "the pilot's sim"))
            given = ['quadrotor', '--sim', sim, '--json', '--no-plot', '--no-bases', '--rows', 'ours-physics']
            row = json.loads(paper(os.path.join(other, "pilot's"), *given).stdout)['rows'][0]
            first = next(r for r in self.first['rows'] if r['row'] == row['row'])
            self.assertEqual(without_times(row['flights']), without_times(first['flights']))

    def test_rollouts(self):
        given = ['quadrotor', '--no-plot', '--no-bases', '--rows', 'ours', '--flight-seconds', '0', '--rollouts', '3']
        self.assertIn(' 3 rollouts each', paper(self.folder, *given).stdout)
        # the tables of the others are left as they were
        paper(self.folder, 'quadrotor')

    def test_few_functions(self):
        few, model = self.path('few.h5'), self.path('quadrotor-tiny', 'ours.safetensors')
        subprocess.run([SIM, 'collect', 'quadrotor', '-o', few, '-f', '2', '-e', '2', '-s', '5'], check=True, capture_output=True)
        done = subprocess.run([EVAL, 'predict', model, '--data', few, '--steps', '3', '--examples', '20', '--json'],
                              check=True, capture_output=True, text=True)
        for bins in json.loads(done.stdout)['models'][0]['hidden'].values():
            self.assertEqual([b['functions'] for b in bins], [1, 1])
            self.assertTrue(all(b['last_step'] > 0 for b in bins))

    def test_what_is_there_is_used_again(self):
        model = self.path('quadrotor-tiny', 'node.safetensors')
        before = os.stat(model).st_mtime_ns
        self.assertEqual(self.first['command'], f'hilbert-eval paper --sim {SIM} --data {self.folder} --scale tiny quadrotor --json '
                                                '--threads 2')
        again = paper(self.folder, 'quadrotor', '--json')
        self.assertEqual(without_times(json.loads(again.stdout)), without_times(self.first))
        self.assertEqual(os.stat(model).st_mtime_ns, before)
        with open(self.path('quadrotor-tiny', 'tables.json')) as tables:
            self.assertEqual(without_times(json.load(tables)), without_times(self.first))

    def test_same_seed_same_result(self):
        with tempfile.TemporaryDirectory() as other:
            one = json.loads(paper(other, 'quadrotor', '--json', '--no-plot', '--threads', '1').stdout)
        self.assertEqual(without_times(one), without_times(self.first))

    def test_text_and_picture(self):
        text = paper(self.folder, 'quadrotor').stdout
        for row in [*PAPER, 'ours', 'ours, with physics']:
            self.assertIn('\n' + row + ' ', text)
        self.assertIn('Oracle                           not flown: a planner does not know the hidden parameters', text)
        self.assertIn('shows that everything works, and nothing else', text)
        with open(self.path('quadrotor-tiny', 'tables.txt')) as tables:
            self.assertEqual(tables.read(), text)
        with open(self.path('quadrotor-tiny', 'curves.svg')) as svg, \
                open(self.path('quadrotor-tiny', 'curves.png'), 'rb') as png:
            self.assertIn('<svg', svg.read(1000))
            self.assertEqual(png.read(4), b'\x89PNG')

    def test_walker(self):
        result = json.loads(paper(self.folder, 'half-cheetah', '--json', '--no-plot').stdout)
        self.assertEqual([r['row'] for r in result['rows']], [*PAPER, 'ours'])
        self.assertNotIn('flights', result['rows'][-1])
        self.assertEqual(result['examples'], 200)

    def test_rows_and_seeds(self):
        with tempfile.TemporaryDirectory() as other:
            train, test = (self.path('quadrotor-tiny', f'{name}.h5') for name in ('train', 'test'))
            given = ['quadrotor', '--no-bases', '--train', train, '--test', test]
            result = json.loads(paper(other, *given, '--json', '--rows', 'fe-res,ours', '--seeds', '3').stdout)
            self.assertEqual([(r['row'], [a['seed'] for a in r['again']]) for r in result['rows']],
                             [('FE + Res, least squares', [1, 2]), ('ours', [1, 2])])
            self.assertEqual(result['bases'], [])
            self.assertTrue(os.path.exists(os.path.join(other, 'quadrotor-tiny', 'curves.png')))
            # the first seed is the same run as without the others, and the others differ from it
            first = {r['row']: r['adapted'] for r in self.first['rows']}
            for row in result['rows']:
                self.assertEqual(row['adapted'], first[row['row']])
                self.assertEqual(len({r['adapted']['median'][9] for r in (row, *row['again'])}), 3)
            text = paper(other, *given, '--finished', '--seeds', '9').stdout
            self.assertIn('\n3 x ours ', text)
            self.assertNotIn('\nNODE ', text)
            medians = sorted(r['adapted']['median'][9] for r in (result['rows'][1], *result['rows'][1]['again']))
            line = next(line for line in text.split('\n') if line.startswith('3 x ours'))
            self.assertIn(f'{medians[1]:.2e} [{medians[0]:.1e} {medians[2]:.1e}]', line)
            self.assertIn("'many' is not one of node, fe-res-ip", paper(other, 'ant', '--rows', 'many', code=2).stderr)

    def test_the_same_time_for_all(self):
        with tempfile.TemporaryDirectory() as other:
            result = json.loads(paper(other, 'half-cheetah', '--json', '--no-plot', '--cpu-seconds', '1').stdout)
            self.assertEqual(result['cpu_seconds_a_row'], 1)
            self.assertGreater(len({row['steps'] for row in result['rows']}), 3)
            again = json.loads(paper(other, 'half-cheetah', '--json', '--no-plot', '--cpu-seconds', '1').stdout)
            self.assertEqual(without_times(again), without_times(result))
            # what was trained for a second is not shown as trained for two
            refused = paper(other, 'half-cheetah', '--no-plot', '--cpu-seconds', '2', code=1).stderr
            self.assertIn('node.safetensors.batch: for 1 s of processor time instead of 2', refused)

    def test_interrupted(self):
        with tempfile.TemporaryDirectory() as other:
            process = subprocess.Popen([EVAL, 'paper', 'quadrotor', '--sim', SIM, '--data', other, '--scale', 'tiny',
                                        '--json', '--no-plot'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            model = os.path.join(other, 'quadrotor-tiny', 'node.safetensors')
            wait_until(lambda: os.path.exists(model) or process.poll() is not None, 'the first model', 300, every=0.001)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=60)
            if process.returncode:
                self.assertEqual(process.returncode, 1)
                self.assertIn('continues from here', errors)
                out = paper(other, 'quadrotor', '--json', '--no-plot').stdout
            self.assertEqual(without_times(json.loads(out)), without_times(self.first))

    def test_flights_that_failed_are_flown_again(self):
        with tempfile.TemporaryDirectory() as other:
            broken = os.path.join(other, 'broken-sim')
            with open(broken, 'w') as script:
                script.write(f'#!/bin/sh\n[ "$1" = fly ] && exit 1\nexec "{SIM}" "$@"\n')
            os.chmod(broken, 0o755)
            self.assertIn('0 flights instead of 2', paper(other, 'quadrotor', '--sim', broken, '--no-plot', code=1).stderr)
            again = paper(other, 'quadrotor', '--json', '--no-plot')
            self.assertEqual(without_times(json.loads(again.stdout)), without_times(self.first))

    def test_files_of_another_run_are_refused(self):
        self.assertIn('train.h5: of another seed or size', paper(self.folder, 'quadrotor', '--seed', '1', code=1).stderr)
        with tempfile.TemporaryDirectory() as other:
            os.mkdir(os.path.join(other, 'ant-tiny'))
            os.symlink(self.path('quadrotor-tiny', 'fe-res.safetensors'),
                       os.path.join(other, 'ant-tiny', 'node.safetensors'))
            os.symlink(self.path('quadrotor-tiny', 'fe-res.safetensors.jsonl'),
                       os.path.join(other, 'ant-tiny', 'node.safetensors.jsonl'))
            self.assertIn('made with another kind', paper(other, 'ant', '--no-plot', code=1).stderr)

    def test_usage(self):
        self.assertIn('quadrotor, half-cheetah or ant', paper(self.folder, code=2).stderr)
        self.assertIn('quadrotor, half-cheetah or ant', paper(self.folder, 'bicycle', code=2).stderr)
        self.assertIn('small, medium, full or tiny', paper(self.folder, 'ant', '--scale', 'huge', code=2).stderr)
        with tempfile.TemporaryDirectory() as other:
            self.assertIn('--sim PATH', paper(other, 'ant', '--sim', '/nowhere/hilbert-sim', '--no-plot', code=1).stderr)
        text = subprocess.run([EVAL, 'paper', '--help'], capture_output=True, text=True, check=True).stdout
        for word in ('--scale', 'small', 'full', 'tiny', '--data', '--sim', '--json'):
            self.assertIn(word, text)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
