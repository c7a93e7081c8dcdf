"""Clients and servers."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels, modules

TALKS = levels("""
    high .: requests.* httpx.* aiohttp.* urllib3.* pycurl.* treq.* httplib2.* niquests.* curl_cffi.*
        urllib2.* socket.* websocket.* websockets.* socks.* smtplib.* ftplib.* telnetlib.* imaplib.*
        poplib.* nntplib.* xmlrpc.client.* paramiko.* asyncssh.* boto3.* botocore.* google.cloud.*
        azure.* dns.* ldap3.* kubernetes.*
    high urllib.request: urlopen urlretrieve Request build_opener URLopener FancyURLopener
    high urllib: urlopen urlretrieve
    high http.client: HTTPConnection HTTPSConnection
    high zmq: Context
    high asyncio: open_connection open_unix_connection
    high *: create_connection sock_connect
    high psycopg: connect
    high psycopg2: connect
    high pymysql: connect
    high redis: Redis
    high pymongo: MongoClient
    low socket: gethostname getfqdn
    medium .: webbrowser.* huggingface_hub.*
    medium ssl: wrap_socket get_server_certificate
""")

TALKS_MODULES = modules("""
    high: socket telnetlib _socket
    medium: urllib.request http.client ftplib smtplib imaplib poplib xmlrpc.client urllib2 pycurl
        requests httpx aiohttp urllib3 paramiko boto3 websockets websocket
    low: urllib webbrowser
    none: urllib.parse urllib.error http requests.exceptions
""")

LISTENS = levels("""
    high .: http.server.* socketserver.* xmlrpc.server.* wsgiref.simple_server.*
        multiprocessing.connection.*
    high uvicorn: run
    high asyncio: start_server start_unix_server
    high multiprocessing.managers: BaseManager
    high flask.Flask(): run
    high gradio.Interface(): launch
    high *: create_server serve_forever
""")

LISTENS_MODULES = modules("""
    medium: http.server socketserver xmlrpc.server
""")
