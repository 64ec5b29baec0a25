"""A writer that says what was acknowledged, until it is killed. Argument: the data directory."""

import sys

import tidelog


def main() -> None:
    """Append numbers, each durable before its line is printed."""
    with tidelog.open(sys.argv[1]) as store:
        topic = store.create_topic("acknowledged", exist_ok=True)
        for number in range(10_000_000):
            topic.append(b"%d" % number)
            sys.stdout.write(f"{number + 1}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
