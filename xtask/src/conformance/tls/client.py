"""A client for `cargo xtask conformance tls`: http.client, and resumed sessions of the module ssl.

Prints a line for each case. The arguments are the address, the port and the certificate of the
authority.
"""

import http.client
import socket
import ssl
import sys

address, port, authority = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def context(version):
    made = ssl.create_default_context(cafile=authority)
    made.minimum_version = made.maximum_version = version
    return made


def get(made, name, session=None):
    """One request over a connection of its own. Returns the session."""
    try:
        plain = socket.create_connection((address, port), timeout=20)
        secure = made.wrap_socket(plain, server_hostname=name, session=session)
        secure.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
        answer = http.client.HTTPResponse(secure)
        answer.begin()
        content = answer.read()
        print(name, secure.version(), secure.session_reused, answer.status, len(content))
        session = secure.session
        # The server ends TLS before it ends the connection, and an end without that is an error.
        secure.unwrap().close()
        return session
    except OSError as error:
        print(name, error)
        return None


for version in [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]:
    made = context(version)
    get(made, "site.test", get(made, "site.test"))
    for name in ["expired.test", "other.test"]:
        get(made, name)
