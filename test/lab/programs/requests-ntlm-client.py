#!/usr/bin/python3
"""An independent NTLM client: python3-requests-ntlm. Prints one JSON object a line for each of the
requests, which share a session.

usage: requests-ntlm-client.py URL USER PASSWORD COUNT [CERTIFICATE] [no-binding] [proxy=URL]
"""

import json
import sys

import requests

# Loads OpenSSL's legacy provider, without which hashlib has no MD4.
from cryptography.hazmat.backends.openssl import backend  # noqa: F401
from requests_ntlm import HttpNtlmAuth

url, user, password, count, *more = sys.argv[1:]
proxies = [word.removeprefix("proxy=") for word in more if word.startswith("proxy=")]
certificates = [word for word in more if word.startswith("/")]
session = requests.Session()
session.trust_env = False
session.auth = HttpNtlmAuth(user, password, send_cbt="no-binding" not in more)
for certificate in certificates:
    session.verify = certificate
for proxy in proxies:
    session.proxies = {"http": proxy, "https": proxy}
for _ in range(int(count)):
    response = session.get(url, timeout=20)
    print(json.dumps({
        "status": response.status_code,
        "earlier": [earlier.status_code for earlier in response.history],
        "user": response.headers.get("X-Lab-User"),
        "port": response.headers.get("X-Lab-Port"),
        "body": response.text,
    }))
