"""Files, deletion, the network: samples from the tables, in common spellings."""

from __future__ import annotations

import sys

import pytest

from tests.analysis.helpers import analyze, codes, found
from tract_jupyter.analysis import KNOWN_HARMLESS, REMOVED_STDLIB, sinks

OUTSIDE = [
    "from os import truncate as t\nt('/etc/x', 0)", "import os\nos.mkfifo('/etc/x')",
    "from contextlib import chdir\nwith chdir('/etc'): pass", "import pathlib\npathlib.Path('/etc').walk()",
    "from pathlib import Path\nPath('x').copy('/etc/x')", "from pathlib import Path\nPath('x').rename('../x')",
    "from pathlib import Path\nPath('x').symlink_to('/etc')", "from pathlib import Path\nPath.read_text(Path('/etc/x'))",
    "import fileinput\nfileinput.input(files=['a', '/etc/x'])", "import linecache\nlinecache.getline('/etc/x', 1)",
    "import sqlite3\nsqlite3.connect('/etc/x', uri=True)", "import shelve\nshelve.open('../x')",
    "import zipfile\nzipfile.ZipFile('a.zip', 'w').write('/etc/x')", "import tarfile\ntarfile.open('a').extract('m', '/etc')",
    "import shutil\nshutil.make_archive('a', 'zip', '/etc')", "import shutil\nshutil.unpack_archive('a.zip', '../..')",
    "import logging\nlogging.basicConfig(filename='/etc/x')", "from logging.handlers import RotatingFileHandler as H\nH('/etc/x')",
    "import xml.etree.ElementTree as ET\nET.parse('/etc/x')", "import configparser\nconfigparser.ConfigParser().read(['/etc/x'])",
    "import wave\nwith wave.open('/etc/x', 'wb') as w: pass", "import filecmp\nfilecmp.cmp('a', '/etc/x')",
    "import mailbox\nmailbox.mbox('/var/mail/root')", "import numpy as np\nnp.memmap('/etc/x')", "a.tofile('/etc/x')",
    "import pandas as pd\nwith pd.ExcelWriter(path='/etc/x.xlsx') as w: pass", "import pandas as pd\npd.HDFStore('../x.h5')",
    "import polars as pl\npl.scan_parquet('/etc/x')", "df.write_parquet('/etc/x')", "import duckdb\nduckdb.connect('/etc/x')",
    "from sqlalchemy import create_engine\ncreate_engine('sqlite:////etc/x')", "import h5py\nh5py.File('/etc/x', 'w')",
    "import pyarrow.parquet as pq\npq.write_table(t, '/etc/x')", "import xarray as xr\nxr.open_dataset('../x.nc')",
    "from PIL import Image\nImage.open('a').save('/etc/x.png')", "import torch\ntorch.save(m, f='/etc/x')",
    "from safetensors.torch import save_file\nsave_file(t, '/etc/x')", "import networkx as nx\nnx.write_gexf(g, '/etc/x')",
    "import docx\ndocx.Document('/etc/x')", "from pypdf import PdfReader as R\nR('/etc/x')", "import fsspec\nfsspec.open('/etc/x')",
    "from llama_index.core import SimpleDirectoryReader as S\nS(input_dir='/etc')", "model.save_pretrained('/etc/x')",
    "from langchain_community.document_loaders import TextLoader\nTextLoader(file_path='/etc/x')",
]  # fmt: skip


@pytest.mark.parametrize("code", OUTSIDE)
def test_paths_that_lead_out(code):
    assert {"TJ203", "TJ204"} & {rule for rule, _ in found(code)}
    assert analyze(code).external_paths


@pytest.mark.parametrize(
    ("level", "code"),
    [
        ("high", "import shutil\nshutil.rmtree('out')"),
        ("medium", "def clean(path):\n    path.unlink(missing_ok=True)"),
        ("high", "for path in paths:\n    path.unlink()"),
        ("medium", "from os import ftruncate\nftruncate(f, 0)"),
        ("high", "from send2trash import send2trash"),
        ("medium", "import boto3\ns3 = boto3.client('s3')\ns3.delete_object(Bucket='a', Key='b')"),
        ("medium", "from pathlib import Path\nPath('a').move('b')"),
        ("high", "from distutils.dir_util import remove_tree\nremove_tree('x')"),
    ],
)
def test_destruction(level, code):
    assert ("TJ203", level) in found(code)


@pytest.mark.parametrize(
    ("rule", "level", "code"),
    [
        ("TJ301", "medium", "from smtplib import SMTP_SSL\nSMTP_SSL('x')"),
        ("TJ301", "medium", "import ftplib\nftplib.FTP_TLS('x')"),
        ("TJ301", "high", "import socket\nsocket.gethostbyname(data + '.example.org')"),
        ("TJ301", "high", "loop.create_datagram_endpoint(a, b)"),
        ("TJ301", "high", "from logging.handlers import HTTPHandler\nHTTPHandler('x', '/')"),
        ("TJ301", "medium", "from google.cloud import storage"),
        ("TJ301", "medium", "import paramiko as p\np.SSHClient()"),
        ("TJ301", "medium", "from pyngrok import ngrok"),
        ("TJ301", "medium", "from slack_sdk import WebClient"),
        ("TJ301", "high", "client.chat_postMessage(channel='a', text='b')"),
        ("TJ301", "high", "model.push_to_hub('me/model')"),
        ("TJ301", "medium", "import psycopg2\npsycopg2.connect('x')"),
        ("TJ301", "medium", "from openai import OpenAI"),
        ("TJ301", "medium", "import yfinance as yf\nyf.download('MSFT')"),
        ("TJ301", "medium", "import webbrowser\nwebbrowser.open(url)"),
        ("TJ301", "medium", "import antigravity"),
        ("TJ302", "high", "import asyncio\nasyncio.start_server(f, '0.0.0.0', 1)"),
        ("TJ302", "high", "import socket\ns = socket.socket()\ns.bind(('', 1))"),
        ("TJ302", "high", "import gradio as gr\nwith gr.Blocks() as demo:\n    pass\ndemo.launch()"),
        ("TJ302", "high", "from flask import Flask\napp = Flask(__name__)\napp.run()"),
        ("TJ302", "high", "from multiprocessing.connection import Listener"),
        ("TJ302", "high", "import debugpy\ndebugpy.listen(1)"),
        ("TJ303", "medium", "import xarray as xr\nxr.open_dataset('https://example.org/x.nc')"),
        ("TJ303", "high", "from sqlalchemy import create_engine\ncreate_engine('postgresql://u@h/d')"),
        ("TJ303", "high", "df.to_parquet('s3://bucket/x.parquet')"),
    ],
)
def test_network(rule, level, code):
    assert (rule, level) in found(code)


def test_a_session_of_an_earlier_cell_is_known():
    before = "import requests\ns = requests.Session()"
    assert ("TJ301", "high") in found("s.post('https://example.org', data=x)", before)


BENIGN = [
    "import pandas as pd\ndf = pd.read_csv('data/a.csv')\ndf.to_parquet('out/a.parquet')",
    "import pandas as pd\nwith pd.ExcelWriter('a.xlsx') as w:\n    df.to_excel(w, sheet_name='/x')",
    "df['a'].str.extract('/api/(x)', expand=False)\ndf['a'].str.extract('~(x)')",
    "import polars as pl\npl.scan_csv('a.csv').sink_parquet('b.parquet')",
    "import duckdb\ncon = duckdb.connect(':memory:')\ncon.sql('select 1')",
    "from sqlalchemy import create_engine\nengine = create_engine('sqlite:///data.db')",
    "from sqlalchemy import create_engine\nengine = create_engine('sqlite://')",
    "import sqlite3\ncon = sqlite3.connect('data.db')\npd.read_sql('select * from t', con)",
    "import logging\nlogging.basicConfig(level=logging.INFO)\nlogging.getLogger('/etc/x')",
    "import numpy as np\nnp.save('a.npy', a)\nnp.savez('b.npz', a=a)",
    "import matplotlib.pyplot as plt\nplt.savefig('figures/a.png')\nplt.style.use('ggplot')",
    "import seaborn as sns\ndf = sns.load_dataset('iris')",
    "from sklearn.datasets import fetch_california_housing\nX = fetch_california_housing()",
    "from transformers import AutoModel, pipeline\nm = AutoModel.from_pretrained('bert-base-uncased')",
    "from datasets import load_dataset\nds = load_dataset('imdb')\nds.save_to_disk('data/imdb')",
    "import torch\ntorch.save(model.state_dict(), 'model.pt')",
    "import tensorflow as tf\n(x, y), _ = tf.keras.datasets.mnist.load_data()\nmodel.save('model.keras')",
    "import nltk\nnltk.download('punkt')",
    "import cv2\nimg = cv2.imread('a.png')\ncv2.imwrite('b.png', img)\ncap = cv2.VideoCapture(0)",
    "from PIL import Image\nImage.open('a.png').resize((1, 1)).save('b.png')",
    "from pathlib import Path\nPath('out').mkdir(exist_ok=True)\nfor p in sorted(Path('data').glob('*.csv')): print(p.stat())",
    "import networkx as nx\ng = nx.read_edgelist('a.txt')\nnx.write_gexf(g, 'a.gexf')",
    "import joblib\njoblib.dump(model, 'model.joblib')",
    "from docx import Document\nd = Document()\nd.save('a.docx')",
    "import zipfile\nwith zipfile.ZipFile('a.zip') as z:\n    z.extractall('data')",
    "import tarfile\ntarfile.open('a.tar.gz').extract('m', 'data')",
    "from socket import gethostname, timeout\ntry:\n    f()\nexcept timeout:\n    gethostname()",
    "from http.client import responses, RemoteDisconnected\nresponses[404]",
    "from huggingface_hub import hf_hub_download\nhf_hub_download('a', 'b')",
    "user.save()\nform.extract()\nclient.close()\ndf.rename(columns={})\nxs.remove(1)\ns.replace('/', '~')",
    "from multiprocessing.connection import Pipe",
    "import bs4, networkx, sqlalchemy, sqlite3, xarray, zipfile, torch, openai",
]  # fmt: skip


@pytest.mark.parametrize("code", BENIGN)
def test_calls_inside_the_workspace_are_at_most_low(code):
    assert found(code) == set()


def test_every_kind_of_operation_is_used():
    assert len(sinks()) > 1000
    assert "TJ202" in codes("import shutil\nshutil.make_archive('a', 'zip', 'b')")


def test_known_modules():
    assert not KNOWN_HARMLESS & (sys.stdlib_module_names | REMOVED_STDLIB)
    assert {"numpy", "sklearn", "cv2", "PIL", "yaml", "tract_jupyter"} <= KNOWN_HARMLESS
    assert {"imp", "distutils", "asyncore", "cgi", "urllib2"} <= REMOVED_STDLIB
    assert all(name.isidentifier() for name in KNOWN_HARMLESS | REMOVED_STDLIB)
