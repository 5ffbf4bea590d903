#!/usr/bin/python3
"""Apache's /upload: length and SHA-256 of a body of any length, read in pieces."""

import hashlib
import json
import os
import sys

digest = hashlib.sha256()
length = 0
while piece := sys.stdin.buffer.read(65536):
    digest.update(piece)
    length += len(piece)
answer = {
    "user": os.environ.get("REMOTE_USER"),
    "remotePort": int(os.environ["REMOTE_PORT"]),
    "method": os.environ["REQUEST_METHOD"],
    "uri": os.environ["REQUEST_URI"],
    "bodyLength": length,
    "bodySha256": digest.hexdigest(),
}
sys.stdout.write("Content-Type: application/json\r\n\r\n" + json.dumps(answer) + "\n")
