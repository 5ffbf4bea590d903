#!/usr/bin/python3
"""Many callers at once through a proxy, each logging in to the origin itself with requests-ntlm. Prints one
JSON object a line for each request: who asked, and whom the origin saw on which socket.

usage: requests-ntlm-callers.py URL PROXY CALLERS REQUESTS USER:PASSWORD...
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import requests

# Loads OpenSSL's legacy provider, without which hashlib has no MD4.
from cryptography.hazmat.backends.openssl import backend  # noqa: F401
from requests_ntlm import HttpNtlmAuth

url, proxy, callers, count, *accounts = sys.argv[1:]


def call(number):
    user, password = accounts[number % len(accounts)].split(":", 1)
    session = requests.Session()
    session.trust_env = False
    session.proxies = {"http": proxy, "https": proxy}
    session.auth = HttpNtlmAuth(user, password)
    lines = []
    for _ in range(int(count)):
        response = session.get(url, timeout=20)
        lines.append(json.dumps({
            "caller": number,
            "asked": user,
            "status": response.status_code,
            "user": response.headers.get("X-Lab-User"),
            "port": response.headers.get("X-Lab-Port"),
        }))
    return lines


with ThreadPoolExecutor(int(callers)) as pool:
    for lines in pool.map(call, range(int(callers))):
        print("\n".join(lines))
