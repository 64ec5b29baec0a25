"""Every speed promise as a ratio against its peer, on this machine, in one run.

docs/benchmarks.md tells what is measured and how.

    *_jobs spark_*_rows      the promises, each with how to measure it (`jobs.Job`); `__main__` lists them in order
    passes aiokafka_peer jvm what one pass is: ours, aiokafka's, Kafka's own on the JVM
    data timing memory       input files made once; samples taken in turn; memory of a child process
    results                  table, JSON, machine facts
    growth page plots        time and memory by size; docs/performance.md and its drawings

Reproduce: `make bench`; `.venv/bin/python -m bench --only decode-s --quick` for a look.
"""
