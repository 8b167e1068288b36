"""Exact areas by three compute parties as real processes.

    packages      replicated secret sharing, and shares as bytes
    session       what everybody agrees on: parties, owners, sizes, metrics; its file
    certificates  a test authority with a certificate for everybody
    transport     TLS 1.3 with names on both ends; frames on a stream
    failure       errors, exit codes, and waiting that hears the first failure
    computing     the disposable process that runs the engine, and SPU's link
    watchdog      starts that process, hears it, ends it
    peers         the parties' agreement before and their presence during a run
    intake        what a party accepts from owners and the analyst
    party         one compute party from its start to its exit
    owner         sends shares and leaves
    analyst       adds the parties' shares of the result
    fleet         all of them on one machine, as processes; the demo

Only ``computing`` needs the ``mpc`` extra: owners and the analyst run on any Python
that the package runs on.
"""
