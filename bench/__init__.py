"""Every speed promise as a ratio against its peer, on this machine, in one run.

docs/benchmarks.md tells what is measured and how.

    decode_jobs other_jobs   the promises, each with how to measure it (`jobs.Job`)
    passes aiokafka_peer jvm what one pass is: ours, aiokafka's, Kafka's own on the JVM
    data timing memory       input files made once; samples taken in turn; memory of a child process
    results                  table, JSON, machine facts

Reproduce: `make bench`; `.venv/bin/python -m bench --only decode-s --quick` for a look.
"""
