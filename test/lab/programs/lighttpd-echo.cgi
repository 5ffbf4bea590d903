#!/bin/sh
# lighttpd's /echo: who asked, on which of the client's sockets, as one JSON object and as fields.
bytes=$(wc -c)
printf 'Content-Type: application/json\r\nX-Lab-User: %s\r\nX-Lab-Port: %s\r\n\r\n' "$REMOTE_USER" "$REMOTE_PORT"
printf '{"user":"%s","remotePort":%s,"method":"%s","bodyLength":%s}\n' \
  "$REMOTE_USER" "$REMOTE_PORT" "$REQUEST_METHOD" "$bytes"
