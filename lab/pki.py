"""The lab's own certificate authority, its certificates, kubeconfigs and SSH keys."""

from __future__ import annotations

import datetime
import ipaddress
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

YEARS_VALID = 10


@dataclass(frozen=True)
class KeyPair:
    """A private key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def write(self, folder: Path, name: str) -> None:
        """Write `name.crt` and `name.key`."""
        write_private(folder / f"{name}.crt", self.certificate_pem)
        write_private(folder / f"{name}.key", self.key_pem)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_bytes(data)


def authority(common_name: str = "numaforge-lab") -> KeyPair:
    """Return a new self-signed certificate authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _builder(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )
    return KeyPair(key, builder.sign(key, hashes.SHA256()))


def issue(
    issuer: KeyPair, common_name: str, *, organization: str | None = None, names: tuple[str, ...] = ()
) -> KeyPair:
    """Return a certificate for clients, and for servers under `names` (DNS names and IP addresses)."""
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if names else [])
    builder = (
        _builder(x509.Name(attributes), issuer.certificate.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    )
    if names:
        alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
    return KeyPair(key, builder.sign(issuer.key, hashes.SHA256()))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    """Valid from yesterday, since a restored guest's clock lags until it is set."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS_VALID))
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def kubeconfig(server: str, ca: KeyPair, user: str, credentials: KeyPair | str) -> bytes:
    """Return a kubeconfig; `credentials` is embedded, or the path of a PEM file with certificate and key."""
    if isinstance(credentials, str):
        secrets = {"client-certificate": credentials, "client-key": credentials}
    else:
        secrets = {
            "client-certificate-data": b64encode(credentials.certificate_pem).decode(),
            "client-key-data": b64encode(credentials.key_pem).decode(),
        }
    authority_data = b64encode(ca.certificate_pem).decode()
    context = f"{user}@numaforge-lab"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "numaforge-lab",
                "cluster": {"server": server, "certificate-authority-data": authority_data},
            }
        ],
        "users": [{"name": user, "user": secrets}],
        "contexts": [{"name": context, "context": {"cluster": "numaforge-lab", "user": user}}],
        "current-context": context,
    }
    return yaml.safe_dump(document, sort_keys=False).encode()


def ssh_key(comment: str) -> tuple[bytes, str]:
    """Return a new SSH private key and its public line."""
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private, f"{public.decode()} {comment}"
