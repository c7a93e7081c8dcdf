"""Scripts of a data scientist, and scripts that do more than read, in the kernel of `prepared`."""

from __future__ import annotations

SETUP = """
import math
import numpy as np
import pandas as pd
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
import json, re, random, statistics, collections, itertools, functools, datetime

df = pd.DataFrame({
    "region": ["north", "south", "north", "east", "south", "east"],
    "month": pd.date_range("2026-01-01", periods=6, freq="MS"),
    "price": [3.5, 4.0, 2.5, 6.0, 1.0, 2.0],
    "units": [10, 20, 30, 40, 50, 60],
})
regions = pd.DataFrame({"region": ["north", "south", "east"], "manager": ["Ada", "Bob", "Cleo"]})
arr = np.arange(12.0).reshape(3, 4)
rows = [{"name": "ada", "n": 2}, {"name": "bob", "n": 1}]
words = ["a", "b", "a", "c"]
settings = {"a": [1, 2], "b": {"c": 3}}
text = "one two two"
total = 5
api_key = "sk-proj-" + "a1B2c3D4" * 6

class Account:
    def __init__(self): self.log = []
    def __add__(self, other): self.log.append("add"); return self
    def __getitem__(self, key): self.log.append("get"); return key
    def __format__(self, spec): self.log.append("format"); return ""
    def __repr__(self): self.log.append("repr"); return ""
    @property
    def value(self): self.log.append("value"); return 1

class Table(pd.DataFrame):
    def describe(self, *a, **k): raise SystemExit

account = Account()
accounts = [account]
nested = {"a": {"b": account}}
objects = pd.DataFrame({"a": [account, account]})
object_array = objects["a"].to_numpy()
own_table = Table({"a": [1]})
patched = pd.DataFrame({"a": [1, 2]})
object.__setattr__(patched, "describe", print)
labelled = pd.DataFrame({"a": [1]}); labelled.attrs["x"] = account
def helper(x): return x
class Hashed(Account): pass
class Zone(datetime.tzinfo):
    def utcoffset(self, when): account.log.append("zone"); return datetime.timedelta(0)
named = pd.Series([1, 2], name=Hashed())
sparse = pd.Series(pd.arrays.SparseArray(objects["a"].to_numpy()))
zoned = datetime.datetime(2026, 1, 1, tzinfo=Zone())
stream = (n for n in [1, 2])
counts = collections.defaultdict(account.log.append)
record = np.array([(1, 2.0), (3, 4.0)], dtype=[("a", int), ("b", float)])
options = pd.DataFrame({"put": [1], "call": [2], "clear": [3], "tofile": [4]})
ids, tags, whole, flags = pd.Index(["x", "y"], name="id"), {"a", "b"}, np.array([3, 1, 2]), np.array([True, False])
key_bytes = api_key.encode()
"""
"""What the notebook's user ran."""

ORDINARY = {
    "describe": "df.describe()",
    "head": "print(df.shape)\nprint(df.dtypes)\ndf.head(3)",
    "gaps": "gaps = df.isna().sum()\ngaps[gaps > 0].sort_values(ascending=False)",
    "groupby": (
        "df['price'].mean()\nby = df.groupby('region')['price'].agg(['mean', 'sum', 'count'])\n"
        "by.sort_values('sum', ascending=False)"
    ),
    "a new column in a copy": (
        "d = df.copy()\nd['revenue'] = d['price'] * d['units']\nd['quarter'] = d['month'].dt.quarter\n"
        "d.groupby(['region', 'quarter'], as_index=False)['revenue'].sum()"
    ),
    "named aggregation": "df.groupby('region').agg(low=('price', 'min'), n=('units', 'sum')).reset_index()",
    "merge": (
        "joined = df.merge(regions, on='region', how='left')\n"
        "joined.pivot_table(index='manager', values='price', aggfunc='mean')"
    ),
    "filter": "cheap = df[(df['price'] < 4) & (df.region == 'north')]\ncheap['x'] = 1\nprint(len(cheap))\ncheap",
    "query": "df.query('price > 2 and region == \"east\"')",
    "apply": "df['region'].map({'north': 'N', 'south': 'S'}).fillna('?')\ndf['price'].apply(lambda p: round(p * 1.19, 2))",
    "function": (
        "def revenue(row):\n    return row['price'] * row['units']\n\n"
        "best = df.apply(revenue, axis=1)\nprint(f'best: {best.max():.2f}, {best.idxmax()}')"
    ),
    "rolling": "df.set_index('month')['price'].rolling(2).mean()",
    "resample": "df.set_index('month').resample('QE')['units'].sum()",
    "correlation": "df[['price', 'units']].corr()",
    "plot": (
        "fig, ax = plt.subplots(figsize=(6, 3))\nax.plot(df['month'], df['price'], marker='o', label='price')\n"
        "ax.set_title('Price')\nax.set_xlabel('month')\nax.legend()\nplt.tight_layout()\nplt.show()"
    ),
    "plot of a table": "df.groupby('region')['units'].sum().plot(kind='bar', title='Units')\nplt.ylabel('units')\nplt.show()",
    "several plots": (
        "fig, axes = plt.subplots(1, 2)\nfor ax, name in zip(axes.flat, ['price', 'units']):\n"
        "    ax.hist(df[name], bins=5)\n    ax.set_title(name)\nplt.show()"
    ),
    "fit": (
        "import numpy as np\nslope, intercept = np.polyfit(df['units'], df['price'], 1)\n"
        "print(f'{slope:.3f} {intercept:.3f}')"
    ),
    "count": (
        "counted = {}\nfor word in words:\n    counted[word] = counted.get(word, 0) + 1\n"
        "sorted(counted.items(), key=lambda pair: -pair[1])"
    ),
    "rows": "[row['name'].upper() for row in rows if row['n'] > 1]",
    "loop": "result = []\nfor name, group in df.groupby('region'):\n    result.append((name, group['price'].mean()))\npd.DataFrame(result)",
    "arrays": "z = (arr - arr.mean()) / arr.std()\nnp.where(z > 1, 1, 0).sum(axis=0)",
    "a random sample with a seed": "df.sample(3, random_state=1).sort_index()",
    "types": "df['price'].astype(float).sum(), df['units'].astype('float64').max(), {k: type(v).__name__ for k, v in settings.items()}",
    "keys": "sorted(rows, key=lambda r: r['n']), max(rows, key=lambda r: r['n']), list(map(str, words))",
    "numbered": "for i, row in enumerate(rows, 1):\n    print(i, row['name'])",
    "texts": "re.findall(r'\\w+', text)\ncollections.Counter(text.split()).most_common(1)",
}  # fmt: skip
"""Scripts that run without a question, if the user switched that on."""

MORE_THAN_READING = {
    # files
    "to_csv": "df.to_csv('x.csv')",
    "to_string into a file": "df.to_string('x.txt')",
    "to_markdown": "df.to_markdown()",
    "to_json": "df.head().to_json('x')",
    "pickle": "df.to_pickle('x')",
    "pickle module": "import pickle\npickle.loads(b'')",
    "savefig": "plt.plot([1])\nplt.savefig('x.png')",
    "savefig of a figure": "fig, ax = plt.subplots()\nax.figure.savefig('x.png')",
    "np.load": "np.load('x.npy')",
    "np.save": "np.save('x.npy', arr)",
    "tofile": "arr.tofile('x')",
    "tofile of a new array": "np.zeros(2).tofile('x')",
    "read_csv": "pd.read_csv('x.csv')",
    "open": "open('x').read()",
    "info into a buffer": "df.info(True, text)",
    "print into a file": "print('x', file=text)",
    "a font file": "plt.title('x', font='/tmp/x.ttf')",
    "latex": "plt.title('x', usetex=True)",
    "latex by position": "plt.title('x', {'usetex': True})",
    "an image file": "plt.imread('x.png')",
    "a style": "plt.style.use('https://example.org/x.mplstyle')",
    # other code
    "import": "import os",
    "import by name": "__import__('os')",
    "a module that is not loaded": "import wave",
    "a module of ours": "from numpy.f2py import crackfortran",
    "importlib": "import importlib\nimportlib.import_module('os')",
    "eval": "eval('1')",
    "exec": "exec('1')",
    "df.eval": "df.eval('x = price * 2')",
    "pd.eval": "pd.eval('1')",
    "a query with a variable": "df.query('price > @account.value')",
    "a query with a call": "df.query('region.str.len() > 2')",
    "a query by name": "q = 'price > 1'\ndf.query(q)",
    "a query by another engine": "df.query('price > 1', engine='numexpr')",
    "a method by name": "df.agg('to_csv')",
    "a method by name in a list": "df.agg(['mean', 'to_pickle'])",
    "a method by name in a table": "df.agg({'price': 'to_pickle'})",
    "a method by a variable": "f = 'to_csv'\ndf['price'].agg(f)",
    "a method by name in a group": "df.groupby('region').agg(x=('price', 'to_csv'))",
    "a method by name in a pivot": "df.pivot_table(index='region', aggfunc='to_csv')",
    "apply by name": "df.apply('to_csv', args=('x',))",
    "transform by name": "df.transform('to_csv')",
    "pipe": "df.pipe(pd.DataFrame.to_csv, 'x')",
    "apply of the user's function": "df['price'].apply(helper)",
    "the user's function": "helper(1)",
    "getattr": "getattr(df, 'to_csv')('x')",
    "a method as a value": "f = df.to_csv\nf('x')",
    "an unbound method": "pd.DataFrame.to_csv(df, 'x')",
    "the type's method": "type(df).to_csv(df, 'x')",
    "the class": "df.__class__.__init__(df)",
    "globals": "globals()['df']",
    "a plot backend": "df.plot(backend='os')",
    "a plot backend in arguments": "df.plot(**{'backend': 'os'})",
    "workers": "import multiprocessing",
    "a shell": "!ls",
    "a magic": "%run x.py",
    "get_ipython": "get_ipython().system('ls')",
    "input": "input()",
    "exit": "exit()",
    "html": "from IPython.display import HTML\nHTML('<script>1</script>')",
    "html as data": "display({'text/html': '<script>1</script>'}, raw=True)",
    "html of pandas": "df.style.to_html()",
    "tools": "tools.status()",
    "tract": "tract.user('x')",
    "a format that reads attributes": "'{0.plot}'.format(df)",
    "a format in a variable": "f = '{0.plot}'\nf.format(df)",
    "an accessor": "df.sparse",
    "a class": "class A:\n    pass",
    "a class by type": "type('A', (), {})",
    "a decorator": "@helper\ndef f():\n    return 1",
    "with": "with open('x') as f:\n    pass",
    "a builtin's name": "def print(x):\n    return 1",
    "a module's attribute": "np.sqrt = 1",
    "a module's setting": "plt.rcParams['text.usetex'] = True",
    "an option": "pd.set_option('display.max_rows', 1)",
    "the environment": "import os\nos.environ['A'] = '1'",
    "the random state": "np.random.seed(0)",
    # the user's objects
    "an operator": "account + 1",
    "an item": "account['x']",
    "a property": "account.value",
    "a format": "f'{account}'",
    "a repr": "account",
    "an object in a list": "accounts[0]",
    "an object far inside": "nested['a']",
    "objects in a table": "objects['a'].sum()",
    "objects in an array": "object_array.sum()",
    "a subclass of a table": "own_table.describe()",
    "a patched table": "patched.describe()",
    "objects beside a table": "labelled.copy()",
    "the user's iterator": "list(stream)",
    "a factory": "counts['x']",
    "a key": "print(api_key)",
    "a key in a comparison": "[c for c in api_key]",
    "earlier outputs": "Out[1]",
    "cells": "In[1]",
    # the user's values
    "a new value": "df = 1",
    "a new value in a loop": "for total in range(3):\n    pass",
    "a new value in an expression": "[total := n for n in range(3)]",
    "a new value beside an inner one": "f = lambda df: 1\ndf = 2",
    "a new value by import": "import numpy as df",
    "a new value by a function": "def df():\n    return 1",
    "a new value by an error": "try:\n    1 / 0\nexcept ZeroDivisionError as total:\n    pass",
    "deletion": "del df",
    "deletion of a part": "del settings['a']",
    "global": "def f():\n    global df\n    df = 1\nf()",
    "a column": "df['x'] = 1",
    "a column by alias": "d = df\nd['x'] = 1",
    "a column by two ways": "d = df.copy()\nif total:\n    d = df\nd['x'] = 1",
    "cells of a table": "df.loc[0, 'price'] = 1",
    "a column's name": "df.columns = ['a', 'b', 'c', 'd']",
    "in its place": "df.sort_values('price', inplace=True)",
    "in its place by position": "df.drop_duplicates(None, 'first', True)",
    "in its place by name": "df.rename(columns={'price': 'p'}, inplace=1 > 0)",
    "an array": "arr[0] = 1",
    "a view of an array": "a = arr[0:2]\na[0] = 1",
    "a view of a column": "s = df['price'].to_numpy()\ns[0] = 9",
    "a reshaped array": "a = arr.reshape(12)\na[0] = 1",
    "an output array": "np.sqrt(arr, out=arr)",
    "an output array by position": "np.sqrt(arr, arr)",
    "an output array of a method": "arr.cumsum(0, None, arr)",
    "an output array by reduce": "functools.reduce(np.sqrt, [arr, arr])",
    "an output array by map": "list(map(np.sqrt, [arr], [arr]))",
    "an output array by apply": "df['price'].apply(np.sqrt, args=(arr,))",
    "adding in place": "a = arr\na += 1",
    "sorting in place": "arr.sort()",
    "sorting a list": "words.sort()",
    "partition": "arr.partition(1)",
    "shuffle": "random.shuffle(words)",
    "append": "words.append('x')",
    "append to an inner list": "settings['a'].append(3)",
    "append to an alias": "w = words\nw.append('x')",
    "append in a copy": "r = rows.copy()\nr[0]['x'] = 1",
    "append in a literal": "r = [rows]\nr[0].append(1)",
    "append in a new array": "r = np.array([rows[0]])\nr[0]['x'] = 1",
    "append after storing": "r = {'a': []}\nx = r['a']\nx.append(rows)\nr['a'][0].append(1)",
    "append in a loop": "for row in rows:\n    row['x'] = 1",
    "append in a function": "def f(x):\n    x.append(1)\nf(words)",
    "append by apply": "df.apply(lambda row: row.update({'price': 0}), axis=1)",
    "extending in place": "r = []\nr += [rows[0]]\nr[0]['x'] = 1",
    "counting in the user's": "r = {'a': words}\nr['a'] += ['x']",
    "an update of the type": "type(settings).update(settings, {'x': 1})",
    "the sum of nothing": "x = sum([], words)\nx.append(1)",
    "the greatest": "x = max(rows, key=len)\nx['y'] = 1",
    "a piped table": "d = df.pipe(lambda d: d)\nd['x'] = 1",
    "one of two": "x = words or []\nx.append(1)",
    "a value of a callback": "x = list(map(lambda n: words, [1]))\nx[0].append('x')",
    "a value by name": "x = dict(a=words)\nx['a'].append('x')",
    "a value of a factory": "x = collections.defaultdict(lambda: words)\nx['k'].append('x')",
    "a value of a hook": "x = json.loads('{}', object_hook=lambda d: words)\nx.append('x')",
    "a chosen value": "x = random.choice(rows)\nx['y'] = 1",
    "a chosen value of an array": "x = np.random.default_rng().choice(rows)\nx['y'] = 1",
    "the greatest of an array": "x = np.array([words, ['a']], dtype=object).max()\nx.append('x')",
    "the sum of one": "x = np.sum(np.array([words, 0], dtype=object)[:1])\nx.append('x')",
    "the sum of a column": "x = pd.Series([words]).sum()\nx.append('x')",
    "an aggregate": "x = pd.Series([words]).agg('max')\nx.append('x')",
    "the median": "x = statistics.median([words])\nx.append('x')",
    "a rounded table": "x = round(pd.DataFrame({'a': [words]}))\nx['a'][0].append('x')",
    "a cell of a new table": "x = pd.DataFrame({'a': [words]})\nx.loc[0, 'a'].append('x')",
    "an element of a merged table": "x = pd.concat([pd.Series([words])])\nx[0].append('x')",
    "a default": "x = max([], default=words)\nx.append('x')",
    "a start": "x = sum([], start=words)\nx.append('x')",
    "a copy of a frame": "g = (n for n in [1])\ng.gi_frame.f_globals['df']",
    "a zone": "zoned",
    "a name of a series": "named",
    "objects in a sparse series": "sparse.sum()",
    "a class as a value": "x = type(words)\nx.append(words, 'x')",
    "one of a pair": "x, y = words, 1\nx.append(1)",
    # more of each kind, in short
    "copy shallow table": "d = df.copy(False)\nd.loc[0,'price'] = 1",
    "copy deep kw": "d = df.copy(deep=False)\nd.loc[0,'price'] = 1",
    "view index list then iloc": "d = df[['price']]\nd.iloc[0,0] = 1",
    "DataFrame ctor share": "d = pd.DataFrame(arr)\nd.iloc[0,0] = 1",
    "DataFrame ctor then inplace": "d = pd.DataFrame(arr)\nd.fillna(0, inplace=True)",
    "series ctor": "s = pd.Series(words)\ns[0] = 'x'",
    "array col": "a = df['price'].values\na[0] = 1",
    "arr T": "a = arr.T\na[0] = 1",
    "loop over list of arr": "for a in [arr]:\n    a[0] = 1",
    "np.array": "a = np.array(arr, copy=False)\na[0]=1",
    "ifexp": "x = words if total else []\nx.append(1)",
    "tuple swap": "a, b = [], words\na, b = b, a\na.append(1)",
    "star": "*a, b = [1], words\nb.append(1)",
    "closure default": "def f(x=words):\n    x.append(1)\nf()",
    "return": "def f():\n    return words\nf().append(1)",
    "set default": "x = {}\nx.setdefault('a', words).append(1)",
    "get default": "x = {}\nx.get('a', words).append(1)",
    "pop default": "x = {}\nx.pop('a', words).append(1)",
    "extend own then part": "x = []\nx.extend([words])\nx[0].append(1)",
    "insert": "x = []\nx.insert(0, words)\nx[0].append(1)",
    "update": "x = {}\nx.update({'a': words})\nx['a'].append(1)",
    "update kw": "x = {}\nx.update(a=words)\nx['a'].append(1)",
    "iadd": "x = [[]]\nx += [words]\nx[1].append(1)",
    "slice store": "x = [[]]\nx[0:1] = [words]\nx[0].append(1)",
    "nested store": "x = {'a': {}}\nx['a']['b'] = words\nx['a']['b'].append(1)",
    "comp store": "x = [w for w in [words]]\nx[0].append(1)",
    "dict comp": "x = {k: v for k, v in settings.items()}\nx['a'].append(1)",
    "dict unpack": "x = {**settings}\nx['a'].append(1)",
    "list unpack": "x = [*rows]\nx[0]['n'] = 9",
    "sorted": "x = sorted(rows, key=lambda r: r['n'])\nx[0]['n'] = 9",
    "reversed": "for r in reversed(rows):\n    r['n'] = 9",
    "filter": "for r in filter(None, rows):\n    r['n'] = 9",
    "enumerate": "for i, r in enumerate(rows):\n    r['n'] = 9",
    "zip": "for i, r in zip([1], rows):\n    r['n'] = 9",
    "zip nested": "for (i, r), j in zip(enumerate(rows), [1]):\n    r['n'] = 9",
    "chain": "for r in itertools.chain(rows):\n    r['n'] = 9",
    "reduce": "x = functools.reduce(lambda a, b: a, rows)\nx['n'] = 9",
    "binop or": "x = (rows + [])[0]\nx['n'] = 9",
    "mult": "x = rows * 1\nx[0]['n'] = 9",
    "deque": "x = collections.deque(rows)\nx[0]['n'] = 9",
    "OrderedDict": "x = collections.OrderedDict(settings)\nx['a'].append(1)",
    "Counter": "x = collections.Counter(settings)\nx['a'].append(1)",
    "defaultdict kw": "x = collections.defaultdict(list, settings)\nx['a'].append(1)",
    "defaultdict dict": "x = collections.defaultdict(dict)\nx['k']['z'] = words\nx['k']['z'].append(1)",
    "walrus": "if (w := words):\n    w.append(1)",
    "lambda call": "(lambda x: x.append(1))(words)",
    "method default": "list(map(words.append, [1]))",
    "try": "try:\n    x = []\nfinally:\n    x = words\nx.append(1)",
    "while": "x = []\nwhile total:\n    x.append(1)\n    x = words",
    "for late": "x = []\nfor i in range(2):\n    x.append(1)\n    x = words",
    "aug to df": "d = df\nd += 1",
    "aug part": "d = df[['price']]\nd += 1",
    "aug part2": "d = df['price']\nd += 1",
    "aug col": "d = df[['price']]\nd['price'] += 1",
    "columns alias": "d = df.drop(columns='price')\nd.iloc[0] = 1",
    "query alias": "d = df.query('price > 0')\nd.iloc[0,0] = 'x'",
    "mask": "d = df[df.price > 0]\nd.iloc[0,0] = 'x'",
    "at set": "df.at[0,'price'] = 1",
    "index name": "d = df.copy()\nd.index.name = 'x'",
    "attrs": "d = df.copy()\nd.attrs['x'] = 1",
    "flags": "df.flags.allows_duplicate_labels = False",
    "head alias": "d = df.head()\nd['x'] = 1",
    "T": "d = df.T\nd['x'] = 1",
    "set_axis": "df.set_axis([1,2,3,4], axis=1, inplace=True)",
    "eval kw": "df.assign(x='price').agg('eval')",
    "getitem callable": "df.loc[helper]",
    "to_string fmt": "df.to_string(buf='x')",
    "info": "df.info(buf=words)",
    "style": "df.style",
    "plot file": "df.plot().figure.savefig('x')",
    "plot get_figure": "df.plot().get_figure().savefig('x')",
    "hist kind": "df.plot(kind='kde')",
    "plot backend pos": "df.plot('month','price','line')",
    "corr kendall": "df[['price','units']].corr('kendall')",
    "interp": "df['price'].interpolate()",
    "np.random global": "np.random.shuffle(arr)",
    "rng shuffle": "np.random.default_rng().shuffle(arr)",
    "np.put": "np.put(arr, [0], 1)",
    "np.copyto": "np.copyto(arr, 1)",
    "np.fill_diagonal": "np.fill_diagonal(arr, 1)",
    "arr.fill": "arr.fill(1)",
    "arr.resize": "arr.resize(2)",
    "arr.setflags": "arr.setflags(write=False)",
    "arr.shape set": "arr.shape = (12,)",
    "arr.flat": "arr.flat[0] = 1",
    "own flat": "x = arr.copy()\nx.flat[0] = 1",
    "clip out": "np.clip(arr, 0, 1, arr)",
    "sum out": "arr.sum(0, None, arr)",
    "max out": "arr.max(0, arr)",
    "np.max out": "np.max(arr, 0, arr)",
    "add out": "np.add(arr, 1, arr)",
    "concatenate out": "np.concatenate([arr], 0, arr)",
    "where kw": "np.sqrt(arr, where=True, out=arr)",
    "percentile out": "np.percentile(arr, 5, None, arr)",
    "dot out": "arr.dot(arr, arr)",
    "round out": "arr.round(0, arr)",
    "take out": "arr.take([0], 0, arr)",
    "cumsum": "np.cumsum(arr, 0, None, arr)",
    "median overwrite": "np.median(arr, overwrite_input=True)",
    "percentile overwrite": "np.percentile(arr, 5, overwrite_input=True)",
    "nan_to_num": "np.nan_to_num(arr, copy=False)",
    "random.shuffle": "random.shuffle(rows)",
    "detrend": "x = 1\nx.detrend(overwrite_data=True)",
    "fmt nested": "'{:{}}'.format(1, 2)",
    "fmt idx": "'{0[a]}'.format(settings)",
    "str attr": "str.format('{0.x}', df)",
    "str map": "list(map(str.format, ['{0.x}']))",
    "type call": "type('x')('y')",
    "dunder": "df.__dict__",
    "name attr": "len.__self__",
    "func globals": "(lambda: 1).__globals__",
    "gen frame": "(x for x in [1]).gi_frame",
    "exc tb": "try:\n    1/0\nexcept ZeroDivisionError as e:\n    e.__traceback__",
    "assert msg": "assert False, df.to_csv('x')",
    "annotation": "x: open('f') = 1",
    "default arg": "def f(a=open('x')): pass",
    "decor lambda": "f = lambda a=exec('1'): a",
    "async": "async def f(): pass",
    "yield": "def f():\n    yield words\nnext(f())",
    "match": "match df:\n    case _: pass",
    "with an option": "with np.errstate(all='ignore'): pass",
    "starimport": "from numpy import *",
    "rel": "from . import x",
    "from np import save": "from numpy import save",
    "as sub": "import matplotlib.image as im\nim.imsave('x', arr)",
    "plt.close": "plt.close('all')",
    "plt.switch": "plt.switch_backend('agg')",
    "plt.gcf savefig": "plt.gcf().savefig('x')",
    "ax.figure canvas": "plt.gca().figure.canvas.print_png('x')",
    "annotate url": "plt.text(1,1,'x',url='javascript:1')",
    "repeat": "x = np.repeat(rows, 1)\nx[0]['n'] = 9",
    "np.where obj": "x = np.where([True], rows[:1], rows[:1])\nx[0]['n'] = 9",
    "unique": "x = pd.Series(rows).mode()\nx[0]['n'] = 9",
    "to_dict list": "x = pd.DataFrame({'a': [words]}).to_dict()\nx['a'][0].append(1)",
    "tolist": "x = pd.Series([words]).tolist()\nx[0].append(1)",
    "items": "for k, v in pd.Series([words]).items():\n    v.append(1)",
    "values": "for v in settings.values():\n    v.append(1)",
    "min of 2": "x = min(words, words)\nx.append(1)",
    "next": "next(iter(words))",
    "memoryview": "memoryview(arr)[0] = 1",
    "vars": "vars(df)",
    "slice assign own": "x = words[:]\nx.append(1)",
    "slice": "x = rows[:]\nx[0]['n'] = 9",
    "struct": "x = [rows][0]\nx.append(1)",
    "bool": "x = [] and words or words\nx.append(1)",
    "cond store": "x = []\ny = x\ny.append(words)\nx[0].append(1)",
    "func store": "x = []\ndef f():\n    x.append(words)\nf()\nx[0].append(1)",
    "named agg": "df.groupby('region').agg(x=pd.NamedAgg('price','to_csv'))",
    "agg kw tuple list": "df.groupby('region').agg(x=('price', ['to_csv']))",
    "resample agg": "df.set_index('month').resample('ME').agg('to_csv')",
    "rolling apply": "df['price'].rolling(2).apply(helper)",
    "rolling agg": "df['price'].rolling(2).agg('to_csv')",
    "pivot func": "pd.pivot_table(df, index='region', aggfunc=helper)",
    "crosstab": "pd.crosstab(df.region, df.region, values=df.price, aggfunc='to_csv')",
    "crosstab pos": "pd.crosstab(df.region, df.region, df.price, None, None, 'to_csv')",
    "groupby callable": "df.groupby(helper).size()",
    "pipe tuple": "df.pipe((df.to_csv, 'x'))",
    "sort key": "df.sort_values('price', key=helper)",
    "query pandas": "df.query('index.to_series().apply(1)')",
    "query attr": "df.query('region.str')",
    "query backtick": "df.query('`price` > 1')",
    "query inplace": "df.query('price > 3', inplace=True)",
    "query assign": "df.query('x = price')",
    "query level": "df.query('price > 1', level=1)",
    # expressions that the rule could leave out
    "in a declaration": "words[f()]: int",
    "in a declaration of an attribute": "input().x: int",
    "in the start of enumerate": "for i, x in enumerate(words, input()):\n    pass",
    "in the start of an inner enumerate": "[i for i, x in enumerate(words, input())]",
    "in inplace": "d = df.copy()\nd.sort_values('price', inplace=input())",
    "in isinstance": "isinstance(1, int, a=input())",
    # functions that a value holds: the notebook calls some of them by their names
    "a function in a series": "pd.Series(lambda: '<script>', index=['_repr_html_'])",
    "a function in a dict": "pd.Series(dict(_repr_javascript_=lambda: 'alert(1)'))",
    "a function in a dict as func": "pd.Series(dict(func=lambda: '<script>')).rename({'func': '_repr_html_'})",
    "a function in a list": "x = []\nx.append(lambda: '<script>')",
    "a function as a default": "pd.Series([settings.get('z', lambda: '<script>')], index=['_repr_html_'])",
    "a function as the default of max": "max([], default=lambda: '<script>')",
    "a function as an argument": "def f(g):\n    return pd.Series([g], index=['_repr_html_'])\nf(lambda: '<script>')",
    "a function as a second argument": "pd.Series([1]).pipe(lambda d, g: pd.Series([g]), lambda: '<script>')",
    "a function as a start": "functools.reduce(lambda a, b: a, [], lambda: '<script>')",
    "a function in a cell": "pd.Series([1], index=['_repr_html_']).replace(1, lambda: '<script>')",
    "a function as another value": "pd.Series([1], index=['_repr_html_']).mask([True], lambda: '<script>')",
    "a function as a key": "x = {}\nx[lambda: 1] = 1",
    "a class by map": "list(map(type, ['A'], [()], [{}]))",
    "a class by the type of a type": "list(map(type(type(1)), ['A'], [()], [{}]))",
    "a class by a second name": "t = type\nlist(map(t, ['A'], [()], [{}]))",
    "a method as a factory": "collections.defaultdict(words.clear)['x']",
    "a method by a column's name": "list(map(arr.put, [[0]], [[9]]))",
    "a file by a column's name": "list(map(arr.tofile, ['x']))",
    # what gives its argument back
    "a difference of order 0": "a = np.diff(arr, 0)\na[0] = 1",
    "a difference of a table": "d = np.diff(df, 0)\nd['x'] = 1",
    "the same type": "a = np.float64(arr)\na[0] = 1",
    "the same type of whole numbers": "a = np.int64(whole)\na[0] = 1",
    "the same type of truth values": "a = np.bool_(flags)\na[0] = False",
    "conjugates": "a = arr.conjugate()\na[0] = 1",
    "an array without axes": "x = np.array(settings).tolist()\nx['a'] = 1",
    "the greater of two sets": "x = np.maximum(tags, frozenset())\nx.add('z')",
    "fields of an array": "a = record[['a', 'b']]\na['a'] = 9",
    "bounds of nothing": "d = df.clip([])\nd['x'] = 1",
    "levels of nothing": "d = df.stack([])\nd['x'] = 1",
    "an index joined with a list": "i = ids.join(['a'])\ni.name = 'x'",
    "a table under the name of a list": "x = [1]\nx = pd.DataFrame({'a': [words]}).copy()\ny = x['a']\ny[0].append('z')",
    "a table or a list": "x = [1] if total else pd.DataFrame({'a': [words]}).copy()\ny = x['a']\ny[0].append('z')",
    # the state of the process
    "random numbers": "np.random.rand(3)",
    "a random number": "random.random()",
    "a random sample": "df.sample(2)",
    "a random sample by a variable": "df.sample(2, random_state=total)",
    "a locale": "df['month'].dt.day_name('de_DE')",
    # files and packages behind a text
    "a time zone from a file": "df['month'].astype('datetime64[ns, dateutil//etc/hostname]')",
    "a time zone from a file, joined": "df['month'].astype('datetime64[ns, date' + 'util//etc/hostname]')",
    "a time zone in a series": "pd.Series([1], dtype='datetime64[ns, dateutil//etc/hostname]')",
    "a time zone in an index": "pd.Index([1], 'datetime64[ns, dateutil//etc/hostname]')",
    "a time zone in a choice of columns": "df.select_dtypes('datetime64[ns, dateutil//etc/hostname]')",
    "a package behind a type": "df['price'].astype('int64[pyarrow]')",
    "a link in a figure": "plt.text(0, 0, 'x', bbox={'url': 'javascript:alert(1)'})",
    "a link in computed properties": "b = {'url': 'javascript:alert(1)'}\nplt.text(0, 0, 'x', bbox=b)",
    "a link by position": "plt.annotate('x', (0, 0), (1, 1), 'data', 'data', {'url': 'javascript:alert(1)'})",
    "bytes of a key": "print(key_bytes)",
}  # fmt: skip
"""Scripts that are asked about each time."""

PATCHES = {
    "a method": "pd.DataFrame.describe = lambda self: 1",
    "a function": "np.mean = lambda x: 1",
    "an accessor": "pd.api.extensions.register_dataframe_accessor('price')(Account)",
    "a property": "pd.DataFrame.shape = property(lambda self: 1)",
    "a builtin": "import builtins\nbuiltins.len = lambda x: 1",
    "a vectorized function": "np.sqrt = np.frompyfunc(lambda x: 1, 1, 1)",
    "a name": "len = helper",
    "a module's name": "np = Account()",
    "a class": "pd.Timestamp = Account",
}  # fmt: skip
"""What may have been run before, and changes what the names in these mean."""
PATCHED = {
    "a method": "df.describe()",
    "a function": "np.mean(arr)",
    "an accessor": "df.price",
    "a property": "df.shape",
    "a builtin": "len(df)",
    "a vectorized function": "np.sqrt(arr)",
    "a name": "len(df)",
    "a module's name": "np.mean(arr)",
    "a class": "pd.Timestamp('2026-01-01')",
}
