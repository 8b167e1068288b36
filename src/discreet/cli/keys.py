"""``discreet join``, ``keys`` and ``roster``: who is who, made by each and compared."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.files import read_plan
from discreet.cli.site import Authority, https_site
from discreet.errors import InputError
from discreet.plan.cohort import Roster, fingerprint, key_text
from discreet.plan.file import dumps
from discreet.plan.plan import Plan
from discreet.plan.revocation import SUFFIX as REVOKED_SUFFIX
from discreet.privacy.ledger import Ledger
from discreet.session.checkup import examine, failures
from discreet.session.policy import ANY, Starter, load
from discreet.transport import keys as made
from discreet.transport.doctor import joining_checks
from discreet.transport.keys import (
    LEDGER,
    POLICY,
    PORT,
    SERVER_DAYS,
    SUFFIX,
    CoordinatorKeys,
    PublicFile,
    SiteKeys,
)

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # they would show data
    help="Make, trust, renew, rotate and revoke keys; private halves stay where they are.",
)

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        help="Name or pattern of a model that the policy allows, such as 'sepsis-*'; "
        "repeat for more.",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        help="The day from which the key counts no longer, YYYY-MM-DD; by default the "
        "day that was noted before, else today."
    ),
]


class Rotated(StrEnum):
    """What of a coordinator's keys is replaced alone."""

    identity = "identity"
    authority = "authority"


Days = Annotated[int, typer.Option(min=1, help="How long the certificate holds.")]
KeyFolder = Annotated[Path, typer.Argument(help="The folder of the keys.")]


def join(
    coordinator: Annotated[Path, typer.Argument(help="The coordinator's public file.")],
    name: Annotated[str, typer.Option("--site", help="How the others call this site.")],
    folder: Annotated[
        Path | None, typer.Option(help="This site's folder; by default ./SITE.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="The proposed plan: the starter policy allows its model."),
    ] = None,
    model: Models = None,
    authority: Authority = None,
) -> None:
    """Set up this site, once: keys, trust, ledger, starter policy, a check.

    Whatever is there already is kept. Ends with the one file to send back, and the
    fingerprints to compare by voice.
    """
    other, runtime = PublicFile.read(coordinator), https_site(authority)
    agreed = None if plan is None else read_plan(plan)
    place = Path(name) if folder is None else folder
    made.check_same(place, other)
    own = made.site_in(place, name)
    made.trust(place, other)
    if not (place / LEDGER).exists():
        Ledger.new(place / LEDGER).close()
    starter = Starter.for_plan(name, other.identity, agreed, model or ())
    is_new = write_starter_policy(place, starter)
    findings = examine(joining_checks(SiteKeys(place), place / LEDGER, runtime))
    for finding in findings:
        typer.echo(str(finding))
    if is_new:
        typer.echo(f"{place / POLICY} is a starter policy: read and change it.")
        _tell_models(starter, agreed)
    typer.echo(
        f"Send {place / (name + SUFFIX)} to the coordinator; every other file in "
        f"{place} stays here."
    )
    typer.echo("Compare by voice, over a number that you know:")
    for public in (own, other):
        typer.echo(f"    {public.name:<13}{fingerprint(public.identity)}")
    if failures(findings):
        raise typer.Exit(1)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="How the others call this site.")],
    folder: Annotated[
        Path | None, typer.Option(help="Where the keys go; by default ./NAME.")
    ] = None,
) -> None:
    """Make this site's keys, at this site; one public file is for the others."""
    place = Path(name) if folder is None else folder
    public = made.new_site(place, name)
    _show_made(place, public)


@app.command()
def coordinator(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    host: Annotated[
        list[str],
        typer.Option(help="Name or address that the sites call; repeat for more."),
    ] = ["127.0.0.1", "localhost"],  # noqa: B006 - typer copies it
    port: Annotated[int, typer.Option(help="Port that the sites call.")] = PORT,
    days: Days = SERVER_DAYS,
) -> None:
    """Make the coordinator's identity, authority and certificate.

    The first --host and --port go into the public file: sites call that address.
    """
    public = made.new_coordinator(folder, host, port=port, days=days)
    _show_made(folder, public)
    typer.echo(f"The certificate holds {days} days: `discreet keys renew {folder}`.")


@app.command()
def renew(
    folder: KeyFolder,
    host: Annotated[
        list[str] | None,
        typer.Option(help="Name or address that the sites call; as before if absent."),
    ] = None,
    days: Days = SERVER_DAYS,
) -> None:
    """Renew the coordinator's certificate; the sites need to do nothing."""
    end = made.renew(folder, host or (), days=days)
    typer.echo(f"The certificate holds until {end:%Y-%m-%d}.")


@app.command()
def trust(
    folder: KeyFolder,
    public: Annotated[Path, typer.Argument(help="The coordinator's public file.")],
    plan: Annotated[
        Path | None,
        typer.Option(help="The agreed plan: the policy allows its model."),
    ] = None,
    model: Models = None,
) -> None:
    """Let this site connect to a coordinator; compare the fingerprint by voice first.

    Writes a starter policy beside the keys when there is none: noisy answers for this
    coordinator about the models that --plan or --name names, and nothing else.
    """
    other, own = PublicFile.read(public), made.public_file_in(folder)
    agreed = None if plan is None else read_plan(plan)
    made.trust(folder, other)
    typer.echo(f"{other.name} {fingerprint(other.identity)}")
    typer.echo("Compare these digits with the coordinator, by voice.")
    starter = Starter.for_plan(own.name, other.identity, agreed, model or ())
    if write_starter_policy(folder, starter):
        typer.echo(f"{folder / POLICY} is a starter policy: read and change it.")
        _tell_models(starter, agreed)
    elif not {ANY, key_text(other.identity)} & set(load(folder / POLICY).coordinators):
        typer.echo(
            f"{folder / POLICY} does not allow this coordinator yet: write "
            f'"{key_text(other.identity)}" into allow.coordinators.'
        )


@app.command()
def revoke(
    folder: KeyFolder,
    given: Annotated[
        str | None,
        typer.Argument(
            metavar="KEY",
            help="Somebody else's key: the file that its owner sent, NAME.revoked.toml, "
            "or ed25519:KEY of a key that was lost. Without it, this folder's own.",
        ),
    ] = None,
    name: Annotated[
        str, typer.Option("--site", help="Whose lost key it was, with ed25519:KEY.")
    ] = "",
    following: Annotated[
        str | None,
        typer.Option(
            "--next",
            help="That site's next key, with ed25519:KEY: it stays the same site for "
            "the comparison of exact sums.",
        ),
    ] = None,
    since: Since = None,
) -> None:
    """Revoke this folder's identity, or note that somebody else's was revoked.

    Plans whose roster holds a revoked key are refused here from then on. Compare the
    fingerprint by voice before you note somebody else's.
    """
    from discreet.transport import rotation  # noqa: PLC0415 - loads sessions

    if given is None and (name or following is not None):
        raise InputError(
            "--site and --next are of somebody else's lost key: give it as ed25519:KEY; "
            "without it this folder's own key would be revoked"
        )
    if given is None:
        path, revocation = rotation.revoke_own(folder, since=since)
        typer.echo(f"Revoked: {revocation}.")
        typer.echo(
            f"Send {path} to every member. `discreet keys rotate` makes a new key."
        )
        return
    noted = rotation.learn(folder, given, name=name, following=following, since=since)
    for revocation in noted:
        typer.echo(f"Noted: {revocation}.")
        if revocation.successor is not None:
            typer.echo(
                f"Its next key has the fingerprint {fingerprint(revocation.successor)}."
            )
    typer.echo("Compare these digits with its owner, by voice.")


@app.command()
def rotate(
    folder: KeyFolder,
    only: Annotated[
        Rotated | None,
        typer.Option(help="Of a coordinator: its identity, or its authority, alone."),
    ] = None,
    since: Since = None,
    days: Days = SERVER_DAYS,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Also while a session is interrupted.")
    ] = False,
) -> None:
    """Replace the keys in a folder: a site's identity, or all of a coordinator's.

    The old identity is revoked and gone: make receipts of its plans first. Plans need
    a new roster, and sites have to trust a coordinator's new public file.
    """
    from discreet.transport import rotation  # noqa: PLC0415 - loads sessions

    if not anyway:
        rotation.check_idle(folder)
    public = made.public_file_in(folder)
    if only is Rotated.authority and not public.is_coordinator:
        raise InputError(f"{folder} is a site's: it has no authority")
    if only is not Rotated.authority:
        public = rotation.rotate_identity(folder, since=since)
        typer.echo(
            f"Send {folder / (public.name + REVOKED_SUFFIX)} to every member: it revokes "
            "the old key."
        )
    if public.is_coordinator and only is not Rotated.identity:
        public = rotation.rotate_authority(folder, days=days)
    _show_made(folder, public)


def write_starter_policy(folder: Path, starter: Starter) -> bool:
    """Write a starter policy; never over a policy that is there."""
    path = folder / POLICY
    if path.exists():
        return False
    path.write_text(starter.text(), encoding="utf-8")
    return True


def _tell_models(starter: Starter, agreed: Plan | None) -> None:
    if starter.models:
        return
    if agreed is not None:
        typer.echo(
            "It allows no model yet, and the plan names none: ask for a plan made with "
            "`discreet plan --name NAME`."
        )
    else:
        typer.echo(
            "It allows no model yet: write the model's name into allow.models, or give "
            "--plan or --name the first time."
        )


def roster(
    plan: Annotated[Path, typer.Argument(help="The plan that the roster goes into.")],
    public: Annotated[
        list[Path] | None,
        typer.Argument(help="The public file of each site; none shows the roster."),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(help="Folder of the coordinator's keys: it lets these sites in."),
    ] = None,
) -> None:
    """Put the sites' public files into a plan's roster; print the fingerprints.

    Every site runs it on the plan that it got, without public files, and compares
    the digits with the others by voice: whoever made the roster could have put in
    keys of its own.
    """
    agreed = read_plan(plan)
    if not public:
        if agreed.roster is None:
            raise InputError(f"{plan.name} has no roster: give the sites' public files")
        show_roster(agreed, agreed.roster)
        return
    if keys is None:
        raise InputError("give the coordinator's folder with --keys")
    folder, files = CoordinatorKeys(keys), [PublicFile.read(path) for path in public]
    made_of = made.assemble(files, made.public_file_in(keys))
    signed = replace(agreed, roster=made_of)
    folder.revoked().check(signed)
    for file in files:
        folder.admit(file)
    plan.write_text(dumps(signed), encoding="utf-8")
    show_roster(signed, made_of)
    typer.echo(f"The roster is in {plan}; send it to every site.")


def show_roster(plan: Plan | None, members: Roster) -> None:
    """Print every key of a roster, and what is compared by voice."""
    named = [(member.name, member.key) for member in members.sites]
    if members.coordinator is not None:
        named.insert(0, ("coordinator", members.coordinator))
    for name, key in named:
        typer.echo(f"{name} {key_text(key)}")
        typer.echo(f"    {fingerprint(key)}")
    if plan is not None:
        typer.echo(f"plan {plan.digest().hex()[:32]}")
    typer.echo("Compare these digits with every site, by voice.")


def _show_made(folder: Path, public: PublicFile) -> None:
    typer.echo(f"{public.name} {fingerprint(public.identity)}")
    typer.echo(
        f"Send {folder / (public.name + SUFFIX)}; every other file here stays, and is "
        "this machine's alone."
    )


def consortium(
    folder: Annotated[
        Path, typer.Argument(help="Gets one folder per site and the coordinator's.")
    ],
    site: Annotated[list[str], typer.Option(help="Name of a site; repeat for each.")],
    host: Annotated[
        list[str],
        typer.Option(help="Name or address of the coordinator; repeat for more."),
    ] = ["127.0.0.1", "localhost"],  # noqa: B006 - typer copies it
    port: Annotated[int, typer.Option(help="Port of the coordinator.")] = PORT,
    plan: Annotated[
        Path | None,
        typer.Option(help="Write the roster of these sites into this plan."),
    ] = None,
    model: Models = None,
) -> None:
    """Rehearse: make everybody's keys, policies and ledgers in one place.

    In a real consortium each site makes its own: `discreet join`.
    """
    agreed = None if plan is None else read_plan(plan)
    roster = made.make_consortium(folder, site, hosts=host, port=port)
    starters = [
        Starter.for_plan(member.name, roster.coordinator or b"", agreed, model or ())
        for member in roster.sites
    ]
    for starter in starters:
        write_starter_policy(folder / starter.site, starter)
        Ledger.new(folder / starter.site / LEDGER).close()
    signed = None if agreed is None else replace(agreed, roster=roster)
    show_roster(signed, roster)
    if plan is not None and signed is not None:
        plan.write_text(dumps(signed), encoding="utf-8")
        typer.echo(f"The roster is in {plan}; send it to every site.")
    _tell_models(starters[0], agreed)
    typer.echo(
        "This is a rehearsal: one machine made, and has seen, everybody's keys. For "
        "real data each site runs `discreet join` at home."
    )
