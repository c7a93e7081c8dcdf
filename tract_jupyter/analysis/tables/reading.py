"""Names that reading code may use. They change nothing except their result.

`tract_jupyter.analysis.reading` refuses all other names. In `name:count`, the count limits the positional arguments. A
parameter for a file, a buffer or an array to write into comes after these arguments.
"""

from __future__ import annotations

from typing import Final

from tract_jupyter.analysis.tables.reader import words

MOST_POSITIONAL: Final = 2
"""The default limit of positional arguments of a method."""


def _counts(text: str, most: int) -> dict[str, int]:
    parts = (word.partition(":") for word in text.split())
    return {name: int(count) if count else most for name, _, count in parts}


BUILTINS: Final = words("""
    abs all any bool bytes chr complex dict divmod enumerate filter float frozenset hash int isinstance len list
    map max min ord pow print range repr reversed round set slice sorted str sum tuple type zip display
""")
ERRORS: Final = words("""
    ArithmeticError AssertionError AttributeError Exception IndexError KeyError LookupError OverflowError
    RuntimeError StopIteration TypeError UnicodeError ValueError ZeroDivisionError
""")
SCALARS: Final = words("""
    all any bool bytes chr complex float hash int isinstance len ord repr str
""")
"""Builtins with immutable results."""
STARRED: Final = words("""
    print zip max min
""")
"""Builtins that accept `*values`."""

_UNARY = """abs absolute sqrt exp expm1 log log10 log1p log2 sin cos tan arcsin arccos arctan sinh cosh tanh floor ceil
    rint sign square isnan isfinite isinf deg2rad rad2deg degrees radians"""
_BINARY = "add subtract multiply divide power mod arctan2 hypot"
_REDUCING = """maximum minimum fmax fmin clip:3
    sum mean median std var min max amin amax nansum nanmean nanmedian nanstd nanmin nanmax nanvar prod
    cumsum cumprod percentile quantile nanpercentile argmin argmax all any dot matmul inner outer round concatenate
    stack"""

FUNCTIONS: Final[dict[str, dict[str, dict[str, int]]]] = {
    "numpy": {
        "new": {
            **_counts(_UNARY, 1),
            **_counts(_BINARY, 2),
            **_counts(
                """array full sort argsort unique where histogram bincount digitize interp polyfit polyval
                corrcoef cov vstack hstack column_stack repeat isin searchsorted cross
                count_nonzero nonzero full_like gradient select convolve""", 3
            ),
        },
        "element": _counts(_REDUCING, 2),
        "numbers": _counts("arange linspace logspace zeros ones eye zeros_like ones_like", 3),
        "view": _counts(
            "diag asarray reshape ravel squeeze transpose meshgrid tile diff float64 float32 int64 int32 bool_", 2
        ),
        "constant": _counts("nan pi e inf newaxis", 0),
    },
    "numpy.linalg": {"new": _counts("norm inv solve det eig eigh svd lstsq matrix_rank", 3)},
    "numpy.random": {"new": _counts("default_rng", 1)},
    "pandas": {
        "table": _counts("concat merge crosstab pivot_table get_dummies melt merge_asof", 3),
        "new": _counts("Timestamp:1 Timedelta isna isnull notna notnull date_range cut qcut unique DateOffset", 3),
        "view": _counts("Series Index:1 Categorical to_numeric to_datetime to_timedelta", 2),
        "shared": _counts("DataFrame", 2),
        "constant": _counts("NA NaT", 0),
    },
    "matplotlib.pyplot": {
        "plot": _counts(
            """figure subplots subplot axes gca gcf plot scatter bar barh hist hist2d boxplot violinplot pie imshow
            contour contourf pcolormesh fill_between errorbar stem step stackplot hexbin axhline
            axvline axhspan axvspan hlines vlines annotate:3 text:3 title:1 suptitle:1 xlabel:1
            ylabel:1 xlim ylim xticks yticks xscale yscale legend grid colorbar tight_layout show
            twinx tick_params axis subplots_adjust semilogx semilogy loglog margins""", 8
        ),
    },
    "seaborn": {
        "plot": _counts(
            """histplot scatterplot lineplot boxplot barplot countplot violinplot swarmplot heatmap
            kdeplot ecdfplot pointplot""", 2
        ),
    },
    "math": {
        "new": _counts(
            """sqrt exp log log2 log10 log1p expm1 pow floor ceil trunc fabs fsum prod isclose isnan isinf isfinite
            sin cos tan asin acos atan atan2 sinh cosh tanh hypot degrees radians factorial comb
            perm gcd lcm dist erf gamma lgamma copysign fmod""", 3
        ),
        "constant": _counts("pi e inf nan tau", 0),
    },
    "statistics": {
        "element": _counts(
            "mean fmean median mode multimode stdev pstdev variance pvariance quantiles correlation "
            "geometric_mean harmonic_mean", 2
        ),
    },
    "datetime": {"new": _counts("datetime date time timedelta", 7)},
    "collections": {"empty": _counts("Counter defaultdict OrderedDict deque", 2)},
    "itertools": {
        "view": _counts(
            "chain combinations permutations product accumulate groupby islice count pairwise zip_longest", 4
        )
    },
    "functools": {"view": _counts("reduce", 3)},
    "re": {
        "new": _counts(
            "compile search match fullmatch findall finditer sub split escape", 4
        ),
        "constant": _counts("IGNORECASE MULTILINE DOTALL I M S X VERBOSE", 0),
    },
    "json": {"new": _counts("dumps:1 loads:1", 1)},
    "scipy.stats": {
        "new": _counts(
            """linregress pearsonr spearmanr kendalltau ttest_ind ttest_rel ttest_1samp mannwhitneyu wilcoxon
            kruskal f_oneway chi2_contingency shapiro normaltest ks_2samp zscore skew kurtosis sem
            iqr""", 2
        )
    },
    "scipy.optimize": {"new": _counts("curve_fit minimize minimize_scalar brentq root least_squares linprog", 4)},
    "scipy.signal": {"new": _counts("find_peaks savgol_filter detrend", 3)},
    "sklearn.linear_model": {
        "model": _counts("LinearRegression LogisticRegression Ridge Lasso ElasticNet", 0)
    },
    "sklearn.preprocessing": {"model": _counts("StandardScaler MinMaxScaler RobustScaler PolynomialFeatures", 1)},
    "sklearn.cluster": {"model": _counts("KMeans DBSCAN", 1)},
    "sklearn.decomposition": {"model": _counts("PCA", 1)},
    "sklearn.ensemble": {
        "model": _counts(
            "RandomForestClassifier RandomForestRegressor GradientBoostingClassifier GradientBoostingRegressor", 0
        )
    },
    "sklearn.tree": {"model": _counts("DecisionTreeClassifier DecisionTreeRegressor", 0)},
    "sklearn.model_selection": {"new": _counts("train_test_split cross_val_score", 4)},
    "sklearn.metrics": {
        "new": _counts(
            """mean_squared_error mean_absolute_error r2_score accuracy_score confusion_matrix f1_score
            precision_score recall_score roc_auc_score silhouette_score""", 2
        )
    },
}  # fmt: skip
"""The functions of each module, by the kind of their result.

`new`: a new object. `numbers`: a new object of numbers only. `table`: a new pandas table. `shared`: a new table that
may share columns with its argument. `view`: may be the argument itself. `empty`: a collection. `plot`: parts of a
figure. `model`: an estimator. `constant`: not a function. `element`: may be one of the argument's values.
"""

CLASS_METHODS: Final = frozenset({"now", "today", "fromisoformat", "combine", "fromtimestamp", "fromkeys"})
"""Class methods of the listed classes, as in `datetime.now()`."""

NEW_METHODS: Final = _counts(
    """sum:1 mean:1 median:1 std:1 var:1 min:1 max:1 prod:1 count nunique size sem skew kurt kurtosis mad
    quantile:1 any:1 all:1 argmin:1 argmax:1 idxmin idxmax describe value_counts mode corr:0 cov:0 cumsum:1
    cumprod:1 cummax:1 cummin:1 cumcount ngroup rank diff pct_change shift abs round:1 clip:2 dot:1 isna
    isnull notna notnull isin between duplicated unique drop_duplicates:1 nlargest nsmallest memory_usage
    sort_values sort_index reset_index:1 set_index:1 rename:1 rename_axis:1 assign fillna:1 ffill:0 bfill:0
    dropna replace astype:1 merge join pivot pivot_table melt stack unstack explode select_dtypes where:2
    mask:2 combine_first add sub mul div truediv floordiv mod pow eq ne lt le gt ge sample to_dict:0 to_list
    tolist to_string:0 to_period to_timestamp reindex align upper lower title capitalize swapcase casefold
    strip lstrip rstrip split rsplit splitlines zfill ljust rjust center startswith endswith find rfind
    removeprefix removesuffix isdigit isalpha isalnum isnumeric isspace isupper islower contains extract
    extractall findall fullmatch match search sub cat len slice get_dummies pad wrap union intersection
    difference symmetric_difference issubset issuperset isdisjoint most_common total elements strftime
    isoformat date time timestamp weekday isoweekday isocalendar total_seconds day_name:0 month_name:0 floor:1
    ceil:1 argsort nonzero repeat is_integer as_integer_ratio bit_length hex normal:3 integers:3
    uniform:3 choice:3 standard_normal:1 random:1 poisson:2 binomial:3 permutation:1 exponential:2 finditer""",
    MOST_POSITIONAL,
)  # fmt: skip
"""Methods of any data whose result is a new object."""

VIEW_METHODS: Final = _counts(
    """head tail groupby resample rolling expanding ewm items keys values get iterrows itertuples xs filter squeeze
    swaplevel droplevel drop transpose reshape:3 ravel flatten:1 swapaxes get_group get_level_values nlevels
    group groups groupdict start end span info:0 copy truncate asfreq take:1 conjugate:0 equals first last nth to_frame
    to_numpy:0 index at_time between_time set_names""",
    MOST_POSITIONAL,
)
"""Methods whose result may share values with the object."""

ELEMENTS: Final = words("""
    sum mean median min max prod quantile any all idxmin idxmax choice dot get_group
    clip stack unstack join
""")
"""Methods among these whose result may be a value of the object, or the object itself."""

PANDAS_METHODS: Final = words("""
    describe value_counts merge assign reset_index set_index sort_values sort_index drop_duplicates pivot
    pivot_table melt explode dropna fillna rename nlargest nsmallest select_dtypes corr cov
""")
"""Methods that only tables have, and that return a table."""

CALLBACK_METHODS: Final = words("""
    agg aggregate apply transform map applymap pipe
""")
"""Methods that call a function, or a method that a text names."""
CALLBACK_OPTIONS: Final = words("""
    axis raw result_type na_action as_index include_groups
""")
AGGREGATIONS: Final = words("""
    sum mean median std var min max count size nunique first last prod sem any all skew idxmin idxmax quantile
    mode cumsum cumprod cummax cummin rank shift diff pct_change ffill bfill
""")
"""The methods that such a text may name."""

CHANGING_METHODS: Final = words("""
    append extend insert add update setdefault sort reverse remove discard pop popitem clear appendleft popleft
""")
"""Methods that change their object. The script must have created the object."""

ATTRIBUTES: Final = words("""
    shape columns index dtypes dtype values T size ndim empty name names iloc loc iat at str dt cat real imag
    year month day hour minute second microsecond dayofweek dayofyear weekday quarter week days seconds date
    time is_monotonic_increasing is_unique hasnans nbytes itemsize levels codes categories left right mid length
    start stop step numerator denominator string pattern flat slope intercept rvalue pvalue stderr statistic
    correlation x fun success message nit root __name__
""")
"""Attributes of data. The columns of the kernel's tables are allowed, as well."""

PLOTTING_METHODS: Final = frozenset({"plot", "hist", "boxplot"})
"""Methods of a table that draw."""
PLOT_KINDS: Final = words("""
    line bar barh hist box area pie scatter hexbin
""")

PLOT_METHODS: Final = _counts(
    """plot scatter bar barh hist hist2d boxplot violinplot pie imshow contour contourf pcolormesh fill_between
    fill_betweenx errorbar stem step stackplot hexbin axhline axvline axhspan axvspan axline hlines vlines
    annotate:3 text:3 bar_label set_title:1 set_xlabel:1 set_ylabel:1 set_xlim set_ylim set_xticks set_yticks
    set_xticklabels:1 set_yticklabels:1 set_xscale set_yscale set_aspect set_visible set_rotation set_color
    set_facecolor set_edgecolor set_linewidth set_alpha set_label set_fontsize set_size_inches set_axis_off
    set_axis_on set_ha set_zorder legend grid tick_params twinx twiny add_subplot subplots suptitle:1
    colorbar tight_layout subplots_adjust autofmt_xdate invert_yaxis invert_xaxis margins ravel flatten
    get_height get_width get_x get_y get_xticklabels get_yticklabels get_xlim get_ylim
    get_legend_handles_labels get_children axis semilogx semilogy loglog show area box line supxlabel:1
    supylabel:1 set:0""",
    8,
)  # fmt: skip
PLOT_ATTRIBUTES: Final = words("""
    patches lines spines xaxis yaxis flat transAxes transData figure axes T
""")

MODEL_METHODS: Final = _counts(
    "fit predict transform fit_transform fit_predict score predict_proba inverse_transform get_params "
    "get_feature_names_out decision_function", 3
)  # fmt: skip

REFUSED_KEYWORDS: Final = words("""
    out backend engine engine_kwargs parser buf file path path_or_buf fname filename storage_options workers
    memory into win_type tz cls n_jobs like where args kwds target mmap_mode dtype_backend picker agg_filter url
    locale bootstrap permutations n_resamples
    method usetex fontdict textprops prop font fontproperties font_properties title_fontproperties
""")
"""Keyword arguments that write, load a package or start processes. `method` may load a package."""
OVERWRITING: Final = ("copy", "overwrite")
"""Prefixes of keyword arguments, such as `copy_X`, that let a library change its input."""
CHECKED_KEYWORDS: Final = frozenset({"aggfunc", "func"})
"""Keyword arguments that are checked like the arguments of `CALLBACK_METHODS`."""
PROPERTIES: Final = ("kw", "kws", "kwargs", "props", "bbox")
"""Suffixes of keyword arguments that hold properties of a part of a plot."""
RANDOM: Final = dict.fromkeys(
    words("""
        sample train_test_split KMeans PCA LogisticRegression Ridge Lasso ElasticNet RandomForestClassifier
        RandomForestRegressor GradientBoostingClassifier GradientBoostingRegressor DecisionTreeClassifier
        DecisionTreeRegressor
    """),
    "random_state",
) | dict.fromkeys(words("barplot lineplot pointplot"), "seed")
"""Names that use the random state of the process, unless this argument is a number."""
CALLED: Final[dict[str, tuple[int | None, frozenset[str]]]] = {
    name: (int(at) if at.isdigit() else None, frozenset(keywords.split()))
    for name, at, keywords in (
        ("map", "0", ""), ("filter", "0", ""), ("reduce", "0", ""), ("accumulate", "1", "func"),
        ("sorted", "", "key"), ("min", "", "key"), ("max", "", "key"), ("sort", "", "key"),
        ("sort_values", "", "key"), ("sort_index", "", "key"), ("groupby", "0", "by key"),
        ("itertools.groupby", "1", "key"), ("sub", "0", ""), ("re.sub", "1", ""), ("defaultdict", "0", ""),
        ("rename", "0", "columns index mapper"), ("rename_axis", "0", "columns index mapper"), ("where", "0", "cond"),
        ("mask", "0", "cond"), ("dumps", "", "default"),
        ("loads", "", "object_hook object_pairs_hook parse_float parse_int parse_constant"),
        ("pivot_table", "", "aggfunc"), ("crosstab", "", "aggfunc"), ("curve_fit", "0", ""), ("minimize", "0", "jac"),
        ("minimize_scalar", "0", ""), ("brentq", "0", ""), ("root", "0", "jac"), ("least_squares", "0", "jac"),
        ("pie", "", "autopct"),
    )
}  # fmt: skip
"""Calls that take a function and call it, with the position and the names of the argument."""
CALLS_ITS_FIRST: Final = words("map reduce defaultdict")
"""Calls among these that call their first argument without checking its type."""
