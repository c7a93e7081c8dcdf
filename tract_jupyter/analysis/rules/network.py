"""The network: asking others (TJ301), listening (TJ302)."""

from __future__ import annotations

from typing import ClassVar

from tract_jupyter.analysis.rules.base import HIGH, LOW, MEDIUM, Rule, levels, register


@register
class TalksToNetwork(Rule):
    """Sends requests over the network.

    ## What it does
    Reports HTTP clients, sockets, mail, FTP, SSH, cloud SDKs and name look-ups.

    ## Why it matters
    A request carries data out (even a name look-up does) and brings instructions or code in.

    ## Example
    ```python
    requests.post("http://example.org/", data=secrets)
    ```

    ## What to do instead
    Use a tool for this service, whose address and arguments are reviewed.
    """

    code = "TJ301"
    name = "talks-to-network"
    category = "network"
    level = HIGH
    effect = "talks to another machine"
    remedy = "Use a tool for this service."
    symbols: ClassVar = {
        **levels(
            HIGH, "requests.* httpx.* aiohttp.* urllib3.* pycurl.* treq.* httplib2.* niquests.* curl_cffi.*"
        ),
        **levels(
            HIGH, "urlopen urlretrieve Request build_opener URLopener FancyURLopener", "urllib.request."
        ),
        **levels(HIGH, "urllib.urlopen urllib.urlretrieve urllib2.* http.client.HTTPConnection"),
        **levels(HIGH, "http.client.HTTPSConnection socket.* websocket.* websockets.* socks.* zmq.Context"),
        **levels(HIGH, "smtplib.* ftplib.* telnetlib.* imaplib.* poplib.* nntplib.* xmlrpc.client.*"),
        **levels(
            HIGH, "paramiko.* asyncssh.* boto3.* botocore.* google.cloud.* azure.* dns.* ldap3.* kubernetes.*"
        ),
        **levels(HIGH, "open_connection open_unix_connection", "asyncio."),
        **levels(HIGH, "*.create_connection *.sock_connect"),
        **levels(HIGH, "psycopg.connect psycopg2.connect pymysql.connect redis.Redis pymongo.MongoClient"),
        **levels(LOW, "socket.gethostname socket.getfqdn"),
        **levels(MEDIUM, "webbrowser.* ssl.wrap_socket ssl.get_server_certificate huggingface_hub.*"),
    }
    modules: ClassVar = {
        **levels(HIGH, "socket telnetlib _socket"),
        **levels(
            MEDIUM, "urllib.request http.client ftplib smtplib imaplib poplib xmlrpc.client urllib2 pycurl"
        ),
        **levels(MEDIUM, "requests httpx aiohttp urllib3 paramiko boto3 websockets websocket"),
        **levels(LOW, "urllib webbrowser"),
        **dict.fromkeys(("urllib.parse", "urllib.error", "http", "requests.exceptions"), None),
    }


@register
class ListensOnNetwork(Rule):
    """Opens a server.

    ## What it does
    Reports servers of the standard library and of common web frameworks.

    ## Why it matters
    A server lets others reach into the kernel for as long as it lives.

    ## Example
    ```python
    http.server.HTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
    ```

    ## What to do instead
    Run servers outside the notebook.
    """

    code = "TJ302"
    name = "listens-on-network"
    category = "network"
    level = HIGH
    effect = "lets other machines connect"
    remedy = "Run servers outside the notebook."
    symbols: ClassVar = {
        **levels(HIGH, "http.server.* socketserver.* xmlrpc.server.* wsgiref.simple_server.* uvicorn.run"),
        **levels(HIGH, "asyncio.start_server asyncio.start_unix_server multiprocessing.connection.*"),
        **levels(HIGH, "multiprocessing.managers.BaseManager flask.Flask().run gradio.Interface().launch"),
        **levels(HIGH, "*.create_server *.serve_forever"),
    }
    modules: ClassVar = levels(MEDIUM, "http.server socketserver xmlrpc.server")
