#!/usr/bin/python3
"""An HTTPS origin that logs callers in with NTLM by the system's GSSAPI and can insist on channel
bindings (RFC 5929, tls-server-end-point), as IIS does with Extended Protection.

  /off      no binding is given to the acceptor
  /check    a wrong binding is refused (401), an absent one is accepted
  /require  as /check, and an absent one is refused with 403

The login belongs to the TCP connection.   usage: channel-binding-origin.py PORT CERTIFICATE KEY
"""

import base64
import hashlib
import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import gssapi
from gssapi.raw import ChannelBindings

NTLM = gssapi.OID.from_int_seq("1.3.6.1.4.1.311.2.2.10")
CHANNEL_BOUND = 2048  # GSS_C_CHANNEL_BOUND_FLAG


def end_point_binding(certificate):
    with open(certificate, encoding="ascii") as file:
        der = ssl.PEM_cert_to_DER_cert(file.read())
    return b"tls-server-end-point:" + hashlib.sha256(der).digest()


class Origin(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    binding = b""

    def setup(self):
        super().setup()
        self.context = None  # a handshake that is half done
        self.caller = None  # what the finished one found out

    def do_GET(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        if scheme == "NTLM":
            self.step(base64.b64decode(token), body)
        elif self.caller:
            self.welcome(body)
        else:
            self.answer(401, {"error": "no credentials"}, "NTLM")

    do_POST = do_GET
    do_PUT = do_GET
    do_HEAD = do_GET

    def step(self, token, body):
        if self.context is None:
            self.caller = None
        bindings = None if self.path == "/off" else ChannelBindings(application_data=self.binding)
        try:
            # The raw call, because SecurityContext asks a half-done context whether it is complete,
            # and gss-ntlmssp 1.2.0 crashes on that.
            acceptor = gssapi.raw.acquire_cred(None, usage="accept", mechs=[NTLM]).creds
            result = gssapi.raw.accept_sec_context(token, acceptor, self.context, bindings)
        except gssapi.exceptions.GSSError as error:
            self.context = None
            self.answer(401, {"error": str(error)}, "NTLM")
            return
        if result.more_steps:
            self.context = result.context
            self.answer(401, {"error": "continue"}, "NTLM " + base64.b64encode(result.token).decode())
            return
        self.context = None
        name = gssapi.raw.display_name(result.initiator_name, False).name
        bound = CHANNEL_BOUND in {int(flag) for flag in result.flags}
        self.caller = {"user": name.decode().rstrip("\0"), "channelBound": bound}
        self.welcome(body)

    def welcome(self, body):
        if self.path == "/require" and not self.caller["channelBound"]:
            self.answer(403, {"error": "no channel binding", **self.caller})
            return
        self.answer(200, {
            **self.caller,
            "remotePort": self.client_address[1],
            "method": self.command,
            "uri": self.path,
            "bodyLength": len(body),
            "bodySha256": hashlib.sha256(body).hexdigest(),
            "tlsResumed": self.connection.session_reused,
        })

    def answer(self, status, content, challenge=None):
        text = json.dumps(content).encode() + b"\n"
        self.send_response(status)
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        self.send_header("X-Lab-User", self.caller["user"] if self.caller else "")
        self.send_header("X-Lab-Port", str(self.client_address[1]))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True


def main(port, certificate, key):
    Origin.binding = end_point_binding(certificate)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    server = Server(("127.0.0.1", int(port)), Origin)
    # The TLS handshake is left to the first read, which is in the connection's own thread.
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()


main(*sys.argv[1:])
