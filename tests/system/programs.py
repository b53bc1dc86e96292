"""Running a program and expecting its exit status."""
import subprocess


def run(*command, code=0, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == code, f"{command}: exit code {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done
