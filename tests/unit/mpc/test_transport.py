"""Certificates: one for every member, from an authority that signs nobody else."""

import stat

import pytest
from cryptography import x509

from discreet.errors import InputError
from discreet.mpc.transport import MemberIdentity, default_names, make_certificates


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates") / "new"
    make_certificates(folder, default_names(2))
    return folder


def test_everybody_has_a_certificate_and_a_private_key(folder):
    for name in ("party-0", "party-2", "owner-1", "owner-2", "analyst"):
        identity = MemberIdentity.within(folder, name)
        assert stat.S_IMODE(identity.key.stat().st_mode) == 0o600
        found = x509.load_pem_x509_certificate(identity.certificate.read_bytes())
        names = found.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value.get_values_for_type(x509.DNSName)
        assert names == [name]


def test_the_authority_signed_them_and_its_key_is_gone(folder):
    authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    member = x509.load_pem_x509_certificate((folder / "party-1.crt").read_bytes())
    member.verify_directly_issued_by(authority)
    assert not (folder / "ca.key").exists()


def test_a_folder_with_certificates_is_left_alone(folder):
    with pytest.raises(InputError, match="holds certificates already"):
        make_certificates(folder, ["party-0"])


def test_a_missing_file_is_named(folder):
    with pytest.raises(InputError, match=r"owner-3 has no file owner-3\.crt"):
        MemberIdentity.within(folder, "owner-3")
