import stat
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from cryptography import x509

from discreet import Examples
from discreet.entropy import SYSTEM
from discreet.errors import InputError, PlanError
from discreet.mpc.certificates import (
    Identity,
    default_names,
    make_certificates,
)
from discreet.mpc.encode import PAD, encode
from discreet.mpc.fleet import local_session
from discreet.mpc.model import ExactMPC
from discreet.mpc.owner import make_packages
from discreet.mpc.packages import combine
from discreet.mpc.session import Address, OwnerEntry, Session


@pytest.fixture
def session():
    return local_session((3, 5))


def test_a_session_reads_back_as_written(session):
    assert Session.from_toml(session.to_toml()) == session
    assert Session.from_toml(session.to_toml()).digest == session.digest


def test_a_noisy_session_reads_back_as_written():
    noisy = local_session((3, 5), ExactMPC(epsilon="0.5"))
    assert noisy.metrics == ("auc",)
    assert noisy.epsilon == Fraction(1, 2)
    assert Session.from_toml(noisy.to_toml()) == noisy


def test_addresses_are_not_part_of_the_agreement(session):
    moved = replace(
        session,
        parties=tuple(
            replace(p, intake=Address("elsewhere.example", 9)) for p in session.parties
        ),
    )
    assert moved.digest == session.digest


def test_every_term_is_part_of_the_agreement(session):
    others = [
        replace(session, id="0" * 32),
        replace(session, owners=(OwnerEntry("owner-1", 4), session.owners[1])),
        replace(session, owners=session.owners[::-1]),
        replace(session, parties=session.parties[::-1]),
        replace(session, metrics=("auc",)),
        replace(session, scores="logit"),
        replace(session, ties="none"),
        replace(session, hide_sizes=True, interval=False),
        replace(session, interval=False),
        replace(session, metrics=("auc",), epsilon=Fraction(1), interval=False),
        replace(session, analyst="other"),
    ]
    assert len({s.digest for s in [session, *others]}) == len(others) + 1


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("version = 3", "version = 2", "not of version 3"),
        ("version = 3", "version = ", "not valid TOML"),
        ("interval = true", "interval = 1", "true or false"),
        ('model = ""', 'model = "a\\u001b[2J"', "printable characters"),
        ('ties = "exact"', 'ties = "some"', "ties are"),
        ('scores = "probability"', 'scores = "other"', "scores are"),
        ("hide_sizes = false", "hide_sizes = 0", "true or false"),
        ("hide_sizes = false", "hidden = false", "unknown keys: hidden"),
        ('name = "party-2"', 'name = "party-1"', "same name"),
        ('name = "owner-2"', 'name = "Owner 2"', "lower-case"),
        ("rows = 3", "rows = 0", "between 1 and"),
        ("rows = 3", 'rows = "3"', "a whole number"),
        ("rows = 3", "rows = true", "a whole number"),
        ('analyst = "analyst"', "analyst = 1", "a text"),
        ('intake = "127.0.0.1', 'intake = "127.0.0.1:x', "host:port"),
        ("rows = 3", "rows = 99999999", "rows"),
    ],
)
def test_a_wrong_session_file_is_refused_with_a_sentence(session, old, new, sentence):
    text = session.to_toml()
    assert old in text
    with pytest.raises((PlanError, InputError), match=sentence):
        Session.from_toml(text.replace(old, new, 1))


def test_a_session_has_three_parties(session):
    with pytest.raises(PlanError, match="3 compute parties, got 2"):
        replace(session, parties=session.parties[:2])


class TestOwners:
    def test_shares_are_sorted_words_and_nothing_else(self, session):
        data = Examples([0.5, 0.25, 1.0], [1, 0, 1])
        packages = make_packages(session, "owner-1", data, entropy=SYSTEM)
        values = combine([p.pairs for p in packages])
        assert len(values) == session.values(0) == 3
        assert values.tolist() == encode(data).words.tolist()
        assert len({p.sharing for p in packages}) == 1

    def test_padding_hides_the_size(self):
        session = local_session((8, 8), ExactMPC(hide_sizes=True))
        sizes = set()
        for data in (Examples([0.5], [1]), Examples([0.5] * 8, [0, 1] * 4)):
            packages = make_packages(session, "owner-1", data, entropy=SYSTEM)
            sizes |= {len(p.encode()) for p in packages}
            words = combine([p.pairs for p in packages])
            assert np.count_nonzero(words != PAD) == len(data)
        assert len(sizes) == 1

    def test_another_number_of_rows_is_refused_before_anything_is_shared(self, session):
        with pytest.raises(InputError, match="has 2 examples, the session says 3"):
            make_packages(
                session, "owner-1", Examples([0.1, 0.2], [0, 1]), entropy=_never
            )

    def test_more_rows_than_the_padding_are_refused(self):
        session = local_session((2,), ExactMPC(hide_sizes=True))
        with pytest.raises(InputError, match="agree on a larger size"):
            make_packages(
                session, "owner-1", Examples([0.1] * 3, [0, 1, 0]), entropy=_never
            )

    def test_a_stranger_is_no_owner(self, session):
        with pytest.raises(InputError, match="names no owner 'party-0'"):
            make_packages(session, "party-0", Examples([0.1], [1]), entropy=_never)


def _never(size):
    raise AssertionError(f"{size} secret bytes were drawn")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates") / "new"
    make_certificates(folder, default_names(3, 2))
    return folder


class TestCertificates:
    def test_everybody_has_a_certificate_and_a_private_key(self, folder):
        for name in ("party-0", "party-2", "owner-1", "owner-2", "analyst"):
            identity = Identity.within(folder, name)
            assert stat.S_IMODE(identity.key.stat().st_mode) == 0o600
            found = x509.load_pem_x509_certificate(identity.certificate.read_bytes())
            names = found.extensions.get_extension_for_class(
                x509.SubjectAlternativeName
            ).value.get_values_for_type(x509.DNSName)
            assert names == [name]

    def test_the_authority_signed_them_and_its_key_is_gone(self, folder):
        authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
        member = x509.load_pem_x509_certificate((folder / "party-1.crt").read_bytes())
        member.verify_directly_issued_by(authority)
        assert not (folder / "ca.key").exists()

    def test_a_folder_with_certificates_is_left_alone(self, folder):
        with pytest.raises(InputError, match="holds certificates already"):
            make_certificates(folder, ["party-0"])

    def test_a_missing_file_is_named(self, folder):
        with pytest.raises(InputError, match=r"owner-3 has no file owner-3\.crt"):
            Identity.within(folder, "owner-3")
