"""Clients and servers: the standard library, HTTP, remote shells and queues; more clients are in `services`.

High is what sends data to a place that the code chooses, runs commands there, or lets others in; medium are
services that one mostly asks for data or answers; low are downloads of models and sample data, and look-ups
that stay on this machine. Names that look like constants (``FTP_TLS``) need a place of their own beside the
``*`` of their module, and ``socket`` is also what the resolver calls ``socket.socket``.
"""

from __future__ import annotations

from tract_jupyter.analysis.tables import services
from tract_jupyter.analysis.tables.reader import levels, modules

_STANDARD = levels("""
    high .: socket.* smtplib.* ftplib.* telnetlib.* imaplib.* poplib.* nntplib.* xmlrpc.client.* http.client.*
        urllib.request.* urllib2.* xmlrpclib.* httplib.*
    high smtplib: SMTP SMTP_SSL LMTP
    high ftplib: FTP FTP_TLS
    high imaplib: IMAP4 IMAP4_SSL IMAP4_stream
    high poplib: POP3 POP3_SSL
    high nntplib: NNTP NNTP_SSL
    high urllib: urlopen urlretrieve URLopener FancyURLopener
    low urllib.request: quote unquote pathname2url url2pathname getproxies proxy_bypass parse_http_list
        parse_keqv_list
    low http.client: responses HTTPMessage HTTPResponse parse_headers IncompleteRead RemoteDisconnected
        BadStatusLine NotConnected InvalidURL CannotSendRequest ResponseNotReady OK CREATED ACCEPTED FOUND
        FORBIDDEN UNAUTHORIZED CONTINUE GONE CONFLICT
    low smtplib: SMTPServerDisconnected SMTPRecipientsRefused SMTPSenderRefused quoteaddr quotedata
    low ftplib: error_perm error_temp error_reply error_proto all_errors parse227 print_line
    low poplib: error_proto
    low imaplib.IMAP4: error abort readonly
    low imaplib: Internaldate2tuple Int2AP ParseFlags Time2Internaldate
    low xmlrpc.client: DateTime Binary Boolean MultiCall Fault dumps
    high .: socket
    high socket(): connect connect_ex send sendall sendto sendmsg sendfile
    high socket.socket(): connect connect_ex send sendall sendto sendmsg sendfile
    high socket.create_connection(): send sendall
    high http.client.HTTPConnection(): connect request putrequest endheaders send
    high http.client.HTTPSConnection(): connect request putrequest endheaders send
    high urllib.request.build_opener(): open
    high smtplib.SMTP(): sendmail send_message login connect
    high smtplib.SMTP_SSL(): sendmail send_message login connect
    high ftplib.FTP(): storbinary storlines retrbinary retrlines login connect
    high ftplib.FTP_TLS(): storbinary storlines retrbinary retrlines login connect
    low socket: gethostname getfqdn socketpair htons htonl ntohs ntohl inet_aton inet_ntoa inet_pton inet_ntop
        timeout error herror gaierror getdefaulttimeout setdefaulttimeout has_ipv6 has_dualstack_ipv6
        if_nameindex if_nametoindex if_indextoname getservbyname getservbyport getprotobyname SocketType
        AddressFamily SocketKind AddressInfo SocketIO SOMAXCONN
    high asyncio: open_connection open_unix_connection
    high asyncio.streams: open_connection open_unix_connection
    high ssl: get_server_certificate wrap_socket
    medium ssl: SSLSocket _create_unverified_context
    medium ssl.SSLContext(): wrap_socket wrap_bio
    medium ssl.create_default_context(): wrap_socket wrap_bio
    high multiprocessing.connection: Client SocketClient PipeClient XmlClient
    high multiprocessing.managers.BaseManager(): connect
    high multiprocessing.managers.SyncManager(): connect
    high logging.handlers: SocketHandler DatagramHandler HTTPHandler SMTPHandler
    medium logging.handlers: SysLogHandler
    medium urllib.robotparser.RobotFileParser(): read
    medium webbrowser: open open_new open_new_tab get BackgroundBrowser GenericBrowser Mozilla Chrome Chromium
    low webbrowser: register
    low xml.sax: make_parser
    low xml.dom.xmlbuilder: DocumentLS DOMBuilder
    low xml.etree.ElementInclude: include
    high ssl.SSLSocket(): connect send sendall
    high telnetlib.Telnet(): open write
    high urllib.request.URLopener(): open retrieve
    high urllib.request.FancyURLopener(): open retrieve
    high *: getaddrinfo gethostbyname create_connection sock_connect create_unix_connection
        create_datagram_endpoint sock_sendto sock_sendall connect_accepted_socket
    high ?: urlopen urlretrieve create_connection
""")

_HTTP = levels("""
    high .: requests.* httpx.* aiohttp.* urllib3.* pycurl.* treq.* httplib2.* niquests.* curl_cffi.*
        grequests.* requests_html.* requests_toolbelt.* requests_futures.* requests_oauthlib.* cloudscraper.*
        mechanize.* mechanicalsoup.* robobrowser.* tls_client.* primp.* asks.* requests_cache.* websocket.*
        websockets.* socketio.* engineio.* sseclient.* socks.* sockshandler.* picows.* httpcore.*
        geventhttpclient.* botasaurus.* rnet.*
    low .: requests.codes.* requests.structures.* requests.certs.* requests.utils.* requests.status_codes.*
        requests.cookies.* requests.compat.* aiohttp.web.* httpx.codes.*
    low requests: codes Response PreparedRequest structures certs utils status_codes models cookies
        URLRequired TooManyRedirects compat
    low requests.models: Response PreparedRequest
    low httpx: codes Response Headers QueryParams URL Cookies Auth BasicAuth Limits
    low aiohttp: ClientResponse BasicAuth FormData web CookieJar TCPConnector
    low urllib3: Retry disable_warnings HTTPResponse util add_stderr_logger
    low urllib3.util: Retry Url parse_url
    low urllib3.util.retry: Retry
    low websockets: ConnectionClosed ConnectionClosedOK
    low requests.packages.urllib3: disable_warnings
    low requests.auth: HTTPBasicAuth HTTPDigestAuth AuthBase
    high requests.Session(): get post put patch delete head options request send
    high requests.session(): get post put patch delete head options request send
    high httpx.Client(): get post put patch delete head options request send stream
    high httpx.AsyncClient(): get post put patch delete head options request send stream
    high aiohttp.ClientSession(): get post put patch delete head options request ws_connect
    high urllib3.PoolManager(): request urlopen
    high httplib2.Http(): request
    high websocket.WebSocket(): connect send recv
    high websockets.connect(): send recv
    high tornado.httpclient: AsyncHTTPClient HTTPClient HTTPRequest
    high tornado.tcpclient: TCPClient
    high tornado.websocket: websocket_connect
    high gevent.socket: socket create_connection
    high eventlet.green.urllib.request: urlopen
    high trio: open_tcp_stream open_ssl_over_tcp_stream open_unix_socket
    high anyio: connect_tcp connect_unix create_udp_socket create_connected_udp_socket
    high twisted.internet.reactor: connectTCP connectSSL connectUDP
    high twisted.web.client: Agent getPage downloadPage
    high six.moves.urllib.request: urlopen urlretrieve Request build_opener
    high six.moves.http_client: HTTPConnection HTTPSConnection
    high future.moves.urllib.request: urlopen urlretrieve
    high pyodide.http: pyfetch open_url pyxhr
    high js: fetch XMLHttpRequest WebSocket
    high .: selenium.* playwright.* pyppeteer.* splinter.* helium.* undetected_chromedriver.* seleniumwire.*
        seleniumbase.* DrissionPage.* nodriver.* browser_use.* crawl4ai.* scrapy.* scrapling.* crawlee.*
    low scrapy: Item Field Selector
    low .: selenium.webdriver.common.* selenium.webdriver.support.*
    medium .: wget.* feedparser.* newspaper.* trafilatura.* wikipedia.* wikipediaapi.* gdown.* pytube.*
        pytubefix.* yt_dlp.* youtube_dl.* youtube_transcript_api.* arxiv.* habanero.* scholarly.*
        duckduckgo_search.* ddgs.* googlesearch.* serpapi.* tavily.* exa_py.* firecrawl.* pooch.*
        ipfshttpclient.* internetarchive.* justext.* goose3.* instaloader.* snscrape.* pywikibot.* mwclient.*
        SPARQLWrapper.*
    low trafilatura: extract
    low pooch: os_cache file_hash
    medium fastai.data.external: untar_data download_url
    medium smart_open.http: open
""")

_REMOTE = levels("""
    high .: paramiko.* asyncssh.* pysftp.* sftpretty.* ftputil.* aioftp.* scp.* netmiko.* napalm.* pssh.*
        spur.* ssh2.* sshtunnel.* dns.* aiodns.* pycares.* ldap3.* ldap.* scapy.* nmap.* shodan.* censys.*
        ping3.* icmplib.* pysnmp.* whois.* pyngrok.* ngrok.* localtunnel.* flask_ngrok.* pycloudflared.*
        flask_cloudflared.* telnetlib3.* smbclient.* smb.* impacket.* pyshark.* pcapy.* stem.* torpy.*
        mitmproxy.* zeroconf.* upnpclient.* webdav3.* webdav4.* rpyc.* Pyro4.* Pyro5.* zerorpc.* speedtest.*
    low dns: name rdatatype rdataclass reversename
    high kubernetes.client: CoreV1Api AppsV1Api BatchV1Api ApiClient CustomObjectsApi
    high .: kubernetes.* docker.* podman.*
    high zmq: Context
    high zmq.asyncio: Context
    high nanomsg: Socket
    high pynng: Pub0 Sub0 Pair0 Req0 Rep0 Push0 Pull0
    high .: pika.* aio_pika.* kombu.* kafka.* aiokafka.* confluent_kafka.* nats.* stomp.* paho.mqtt.*
        asyncio_mqtt.* aiomqtt.* pulsar.* amqp.* proton.*
    high grpc: insecure_channel secure_channel
    high grpc.aio: insecure_channel secure_channel
    high mcp.client.sse: sse_client
    high mcp.client.streamable_http: streamablehttp_client
    medium .: fastmcp.Client
    medium dask.distributed: Client Scheduler
    medium distributed: Client
    medium ray: init
    medium ipyparallel: Client Cluster
    medium pyspark.sql.SparkSession.builder: remote
""")

TALKS = {
    **_STANDARD,
    **_HTTP,
    **_REMOTE,
    **services.DATABASES,
    **services.CLOUDS,
    **services.MESSAGES,
    **services.MODELS,
    **services.DATA,
}

TALKS_MODULES = modules("""
    high: telnetlib
    medium: socket _socket urllib.request http.client ftplib smtplib imaplib poplib nntplib xmlrpc.client
        urllib2 httplib xmlrpclib pycurl requests httpx aiohttp urllib3 paramiko boto3 websockets websocket
        antigravity httplib2 niquests curl_cffi treq grequests selenium playwright pyppeteer asyncssh pysftp
        ftputil scapy nmap shodan pyngrok ngrok smbclient impacket yagmail slack_sdk telegram discord tweepy
        twilio sendgrid
    low: urllib webbrowser socks ping3 telebot praw botocore
    none: urllib.parse urllib.error urllib.response http requests.exceptions botocore.exceptions aiohttp.web
        urllib3.exceptions urllib3.util
""")

LISTENS = levels("""
    high .: http.server.* socketserver.* xmlrpc.server.* wsgiref.simple_server.* multiprocessing.connection.*
        SimpleHTTPServer.* BaseHTTPServer.* SocketServer.* SimpleXMLRPCServer.* DocXMLRPCServer.* smtpd.*
        aiosmtpd.* pyftpdlib.* asyncore.dispatcher gevent.pywsgi.* gevent.server.* twisted.internet.endpoints.*
    low http.server: BaseHTTPRequestHandler SimpleHTTPRequestHandler CGIHTTPRequestHandler
    low socketserver: BaseRequestHandler StreamRequestHandler DatagramRequestHandler
    low multiprocessing.connection: Pipe Connection PipeConnection wait
    high socket: create_server
    high socket(): bind listen accept
    high socket.socket(): bind listen accept
    high socket.create_server(): listen accept
    high asyncio: start_server start_unix_server
    high asyncio.streams: start_server start_unix_server
    high multiprocessing.managers: BaseManager
    medium multiprocessing.managers: SyncManager
    high multiprocessing.managers.BaseManager(): get_server start
    high pydoc: browse
    high logging.config: listen
    high uvicorn: run Server
    high hypercorn.asyncio: serve
    high hypercorn.trio: serve
    high waitress: serve create_server
    high gunicorn.app.base: BaseApplication
    high cherrypy: quickstart
    high cherrypy.engine: start
    high bottle: run
    high bottle.Bottle(): run
    high werkzeug.serving: run_simple make_server
    high flask.Flask(): run
    high quart.Quart(): run run_task
    high sanic.Sanic(): run
    high robyn.Robyn(): start
    high tornado.web.Application(): listen
    high tornado.httpserver: HTTPServer
    high tornado.tcpserver: TCPServer
    high aiohttp.web: run_app TCPSite UnixSite AppRunner SockSite
    high websockets: serve unix_serve
    high websockets.server: serve
    high websockets.asyncio.server: serve
    high websockets.sync.server: serve
    high anyio: create_tcp_listener create_unix_listener
    high trio: serve_tcp serve_ssl_over_tcp serve_listeners open_tcp_listeners
    high twisted.internet.reactor: listenTCP listenSSL listenUDP listenUNIX
    high eventlet: listen
    high eventlet.wsgi: server
    high grpc: server
    high grpc.aio: server
    high fastmcp.FastMCP(): run run_async
    high mcp.server.fastmcp.FastMCP(): run
    high mcp.server.stdio: stdio_server
    high rpyc.utils.server: ThreadedServer ForkingServer OneShotServer
    high gradio.Interface(): launch
    high gradio.Blocks(): launch
    high gradio.ChatInterface(): launch
    high gradio.TabbedInterface(): launch
    high dash.Dash(): run run_server
    high jupyter_dash.JupyterDash(): run run_server
    high panel: serve
    high bokeh.server.server: Server
    high streamlit.web.bootstrap: run
    high streamlit.web.cli: main
    high nicegui.ui: run
    high shiny: run_app
    high voila.app: main
    high notebook.notebookapp: main
    high jupyter_server.serverapp: main launch_new_instance
    high jupyterlab.labapp: main
    high livereload: Server
    high tensorboard.program: TensorBoard
    high debugpy: listen
    high ptvsd: enable_attach
    high rpdb: set_trace
    high remote_pdb: set_trace RemotePdb
    high pydevd: settrace
    high *: create_server serve_forever create_unix_server sock_accept
    medium distributed: LocalCluster
    medium dask.distributed: LocalCluster
    medium ray.serve: run start
""")

LISTENS_MODULES = modules("""
    medium: http.server socketserver xmlrpc.server SimpleHTTPServer BaseHTTPServer SocketServer smtpd pyftpdlib
        aiosmtpd
    low: wsgiref.simple_server
""")
