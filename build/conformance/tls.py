"""Certificates for servers and clients of the tests, created with openssl."""

import pathlib
import shutil
import ssl
import subprocess

import pytest


class Certificates:
    """A certificate authority, and its certificates for a server on loopback and for a client."""

    def __init__(self, folder):
        if not shutil.which("openssl"):
            pytest.skip("no openssl on this machine")
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.root, self.other = self._authority("root"), self._authority("other")
        self.server = self._leaf("server", "root", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        self.client = self._leaf("client", "root", "extendedKeyUsage=clientAuth")
        self.stranger = self._leaf("stranger", "other", "extendedKeyUsage=clientAuth")

    def _run(self, *args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=self.folder)

    def _authority(self, name):
        self._run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                  "-subj", f"/CN={name}",
                  "-keyout", f"{name}.key", "-out", f"{name}.crt", "-addext", "basicConstraints=critical,CA:TRUE")
        return str(self.folder / f"{name}.crt")

    def _leaf(self, name, authority, extension):
        """Creates a certificate. Returns the paths of the certificate and its key."""
        self._run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                  "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (self.folder / f"{name}.ext").write_text(extension + "\n")
        self._run("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.crt", "-CAkey", f"{authority}.key",
                  "-CAcreateserial", "-days", "2",
                  "-extfile", f"{name}.ext", "-out", f"{name}.crt")
        return str(self.folder / f"{name}.crt"), str(self.folder / f"{name}.key")

    def options(self, protocol, mutual=False):
        """The server's options, the same for http and grpc."""
        use = "use-ssl-mutual" if mutual else "use-ssl"
        files = {"server-cert": self.server[0], "server-key": self.server[1], "root-cert": self.root}
        return [f"--{protocol}-use-ssl=true", f"--{protocol}-{use}=true",
                *(f"--{protocol}-{k}={v}" for k, v in files.items())]

    def grpc(self, own=None, root=None):
        """The arguments of tritonclient's gRPC clients. own: (certificate, key) of the client."""
        a = {"ssl": True, "root_certificates": root or self.root}
        return {**a, "certificate_chain": own[0], "private_key": own[1]} if own else a

    def http(self, own=None, root=None):
        """The arguments of tritonclient's HTTP client."""
        a = {"ca_certs": root or self.root}
        return {"ssl": True, "ssl_options": {**a, "certfile": own[0], "keyfile": own[1]} if own else a}

    def http_aio(self, own=None, root=None):
        """The arguments of tritonclient's asyncio HTTP client."""
        context = ssl.create_default_context(cafile=root or self.root)
        if own:
            context.load_cert_chain(*own)
        return {"ssl": True, "ssl_context": context}
