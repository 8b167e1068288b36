"""Answer until no file may grow any more, as on a full disk, and say what was sent."""

import resource
import sys
from fractions import Fraction
from itertools import count

from discreet.privacy.account import Use, answer_once
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger_entries import LedgerError
from discreet.privacy.loss import PureDP

LOSS = PureDP(Fraction(1, 2))


def main(path: str) -> None:
    with Ledger.new(path) as ledger:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        for i in count():
            session = b"%d" % i
            try:
                use = Use("icu", session, 0, LOSS, b"intent")
                answer_once(ledger, use, lambda: b"x" * 2000)
            except LedgerError as err:
                sys.stderr.write(f"{err}\n")
                break
            sys.stdout.write(f"{session.decode()}\n")


if __name__ == "__main__":
    main(sys.argv[1])
