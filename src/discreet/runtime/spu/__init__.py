"""Exact areas by three compute parties as real processes.

    shares        replicated secret sharing, NumPy and secret bytes only
    packages      shares of an owner and of the result as bytes
    session       what everybody agrees on: parties, owners, sizes, metrics
    sessionfile   the same as TOML
    certificates  a test authority with a certificate for everybody
    transport     TLS 1.3 with names on both ends; frames on a stream
    link          SPU's own link between the parties' engines
    computing     the disposable process that runs the engine
    watchdog      starts that process, hears it, ends it
    alarm         the first failure, and waiting that hears it
    peers         the parties' agreement before and their presence during a run
    intake        what a party accepts from owners and the analyst
    party         one compute party from its start to its exit
    owner         sends shares and leaves
    opening       the analyst adds the parties' shares of the result
    fleet         all of them on one machine, as processes
    demo          a fleet with data, beside scikit-learn

Only ``link`` and ``computing`` need the ``mpc`` extra: owners and the analyst run
on any Python that the package runs on.
"""
