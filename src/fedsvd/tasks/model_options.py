"""Options of ``[job]`` that describe a model: linear regression, ridge, generalised linear models."""

from fedsvd.protocol.families import FACTS
from fedsvd.protocol.model import Digits
from fedsvd.protocol.tasks import (
    FAMILIES,
    LINKS,
    MODEL_TASKS,
    Baseline,
    ChosenBy,
    Clock,
    Clusters,
    Criterion,
    Family,
    Robust,
    Task,
    Ties,
)
from fedsvd.tasks.option import CLI, ESTIMATOR, Option
from fedsvd.tasks.treatment_options import TREATMENT
from fedsvd.tasks.values import (
    CLASSES,
    FLAG,
    PENALTIES,
    SLOPES,
    THRESHOLDS,
    named_column,
    number,
    optional,
    whole,
    word,
)

_COVARIANCES = ("nonrobust", *(kind for kind in Robust if kind is not Robust.CLUSTER))
_MODELS = ", ".join(f"`{task}`" for task in MODEL_TASKS)
_WEIGHTED = tuple(dict.fromkeys(facts.task for facts in FACTS.values() if not (facts.grouped or facts.weighs)))
_COUNTED = tuple(dict.fromkeys(facts.task for facts in FACTS.values() if not facts.grouped))
_WEIGHTED_MODELS = ", ".join(f"`{task}`" for task in _WEIGHTED)
_OFFSETS = tuple(dict.fromkeys(facts.task for facts in FACTS.values() if facts.offsets))
_ROBUST = tuple(dict.fromkeys(facts.task for facts in FACTS.values() if facts.robust))
_ROBUST_MODELS = ", ".join(f"`{task}`" for task in _ROBUST)
_EVERY_LINK = tuple(dict.fromkeys(link for links in LINKS.values() for link in links))

MODEL = (
    Option(
        "alpha",
        number(ge=0, allow_inf_nan=False),
        0.0,
        "Strength of the ridge; 0 for ordinary least squares.",
        f"strength of a ridge (`lr`, {_WEIGHTED_MODELS}); the intercept is never penalised",
        tasks=(Task.LR, *_WEIGHTED),
    ),
    Option(
        "intercept",
        FLAG,
        True,
        "Whether the model has an intercept.",
        "whether the regression has an intercept",
        tasks=(Task.LR, Task.GLM),
        names={ESTIMATOR: "fit_intercept"},
    ),
    Option(
        "inference",
        FLAG,
        False,
        "Standard errors, tests, intervals; on split rows all parties then hold G.",
        (
            "standard errors, t, p, intervals, covariance, sigma, R2, F, log-likelihood, AIC, BIC, VIF (`lr`): "
            "[a regression table](howto/regression-table.md). The same as `inference` in `release`. Split rows: "
            "all parties then hold the joint Gram matrix (mode A). Split columns: each party has the rows of "
            "its own columns, which asks for consent (`consent_to_columns`)"
        ),
        tasks=(Task.LR,),
    ),
    Option(
        "cov_type",
        word(_COVARIANCES),
        "nonrobust",
        "Standard errors: nonrobust, or HC0 to HC3; lr: with --inference.",
        (
            'standard errors that do not assume equal variances, `"HC0"` to `"HC3"` (`lr` with `inference`, split '
            f"rows; {_ROBUST_MODELS}). Models of several classes, ordinal and Cox models have `HC0` and `HC1`: HC2 and "
            "HC3 divide by the leverage of one linear predictor. One sum of squared scores is opened more"
        ),
        tasks=(Task.LR, *_ROBUST),
    ),
    named_column(
        "cluster",
        "The column of clusters that standard errors are robust to; lr: with --inference.",
        (
            "the column of clusters that standard errors are robust to, numbers or text (`lr` with `inference`, "
            f"{_ROBUST_MODELS}); it is no feature"
        ),
        tasks=(Task.LR, *_ROBUST),
    ),
    Option(
        "clusters",
        word(Clusters),
        Clusters.OWN,
        "Whose names of clusters are: each party's own, or joint, which is refused.",
        (
            'whose names of clusters are: each party\'s `"own"`, so that a name at two parties is two clusters, '
            'which plan, approval and report say; `"joint"` is refused, because parties would learn which names '
            "others have"
        ),
        tasks=(Task.LR, *_ROBUST),
    ),
    Option(
        "alphas",
        PENALTIES,
        (),
        "Ridges to choose among by cross-validation; once for each.",
        (
            "ridges above 0 to choose among by cross-validation, in one study (`lr`): `[0.1, 1.0, 10.0]`. Split "
            "rows: all parties then hold the joint Gram matrix (mode A), which asks for consent "
            '(`consent_to_gram`). Split columns: with `choose_by = "gcv"`, by the label holder, which sees the '
            "joint singular values (`consent_to_columns`)"
        ),
        tasks=(Task.LR,),
        defaults={ESTIMATOR: (0.1, 1.0, 10.0)},
    ),
    Option(
        "choose_by",
        optional(word(ChosenBy)),
        None,
        "How: leave out each row (loo), or generalised (gcv).",
        (
            'how one of `alphas` is chosen: `"loo"`, each row left out once, exactly (split rows); `"gcv"`, '
            "generalised cross-validation"
        ),
        unset='`"loo"`',
        tasks=(Task.LR,),
        defaults={ESTIMATOR: ChosenBy.LOO},
    ),
    Option(
        "family",
        optional(word(FAMILIES, Family)),
        None,
        "The distribution of the target.",
        (
            'the distribution of the target: `"gaussian"`, `"binomial"`, `"poisson"`, `"gamma"`, '
            '`"multinomial"`, `"negative-binomial"` (counts, theta found with the coefficients), `"quasibinomial"`, '
            '`"quasipoisson"` (the scale is estimated, and there is no likelihood). Tests of '
            "gaussian, gamma and quasi models, whose scale is estimated, are Student's t, as "
            "R's are; the likelihood of shares with trials as `weights` has the binomial coefficient, as R's "
            "has"
        ),
        unset="needed for `glm`",
        tasks=(Task.GLM, Task.PROPENSITY),
        defaults={"FederatedPropensity": None, ESTIMATOR: Family.GAUSSIAN},
    ),
    Option(
        "link",
        optional(word(_EVERY_LINK)),
        None,
        "The link; the family's usual one where left out.",
        '`"identity"`, `"logit"` or `"probit"`, `"log"`, `"log"`, `"logit"`; of `ordinal` also `"cloglog"`',
        unset="the family's usual",
        tasks=(Task.GLM, Task.ORDINAL, Task.PROPENSITY),
        defaults=dict.fromkeys(
            ("FederatedLogisticRegression", "FederatedOrdinalRegression", "FederatedPropensity"), "logit"
        ),
    ),
    Option(
        "classes",
        CLASSES,
        (),
        "The target's classes, once for each; the first is the reference. 0 and 1 otherwise.",
        (
            "the label's values, as texts or numbers, in order (`binomial`, `multinomial`, task `ordinal`: from the "
            "lowest to the highest); the first is the reference. A `binomial` model of three or more is one model per "
            "class, against the rest"
        ),
        unset="the label is a number",
        tasks=(Task.GLM, Task.ORDINAL),
        names={CLI: "class", ESTIMATOR: "levels"},
        defaults={"FederatedOrdinalRegression": None},
    ),
    named_column(
        "offset",
        "The column that is added to the linear predictor.",
        (
            "a column that is added to the linear predictor (`glm`, `cox`: the logarithm of the exposure, say; `lr` "
            "with split rows: it is subtracted from the label, and statistics are those of the difference)"
        ),
        tasks=(Task.LR, *_OFFSETS),
    ),
    named_column(
        "weights",
        "The column of prior weights.",
        (
            f"a column of weights of the rows (`lr`, {_WEIGHTED_MODELS}): inverse variances, as in R and statsmodels. "
            "Rows of weight 0 are left out. With split columns every party has the column, and a difference ends the "
            "session"
        ),
        tasks=(Task.LR, *_WEIGHTED),
    ),
    named_column(
        "event",
        "The column of events: 1 where one was seen, 0 where follow-up ended.",
        "the column that says whether the event was seen at the time that `label` names (1), or follow-up ended (0)",
        unset="needed for `cox`, `survival`",
        tasks=(Task.COX, Task.SURVIVAL, Task.PROPENSITY),
    ),
    *TREATMENT,
    named_column(
        "entry",
        "The column of times at which records came under observation.",
        "the column of times at which each record came under observation (left truncation): it is at risk after it",
        unset="from the beginning",
        tasks=(Task.COX,),
    ),
    named_column(
        "strata",
        "The column whose values part each site's records into strata.",
        "a column of numbers or text: records are compared with those of their own site and the same value alone",
        unset="sites are the strata",
        tasks=(Task.COX,),
    ),
    Option(
        "ties",
        word(Ties),
        Ties.EFRON,
        "How events at one time share a risk set: efron or breslow.",
        '`"efron"` (R\'s default) or `"breslow"`: how events at one time share a risk set',
        tasks=(Task.COX,),
    ),
    Option(
        "schoenfeld",
        word(Clock),
        Clock.NONE,
        "The test of proportional hazards, by a clock: km, rank, identity or log; about half a fit in bits.",
        (
            "the score test of proportional hazards, R's `cox.zph` with strata by site: effects may change with "
            '`"identity"`, the time, `"log"`, its logarithm, or `"km"` and `"rank"`, which here are of the own records '
            "of each site (R's are of all). It opens about half as many bits as the fit"
        ),
        tasks=(Task.COX,),
        script=True,
    ),
    Option(
        "baseline",
        word(Baseline),
        Baseline.SITE,
        "Whose baseline hazard: of each site, at home, also a common one between --times, or one of all in bins.",
        (
            '`"site"`: each party has a baseline hazard of its own records, which stays there; `"common"`: also one of '
            "all parties, level between `times`, from events in multiples of `least_count` and time at risk in 12 "
            'bits. It asks every owner; `"bins"`: one of all parties in the place of theirs, level between `times`, by '
            "which records of all sites are compared: grouped proportional hazards (link cloglog), or with `ties = "
            '"breslow"` Breslow\'s likelihood on bins. How many records are at risk and have the event in each bin is '
            "opened, which asks the owner of a bin of 1 to 4; without `entry`, `strata` and `offset`"
        ),
        tasks=(Task.COX,),
        script=True,
    ),
    named_column(
        "subject",
        "The column of subjects, persons or clinics, that have random effects.",
        "the column of subjects, persons or clinics, that have a random intercept; each lies in one party (`mixed`)",
        unset="needed for `mixed`",
        tasks=(Task.MIXED,),
    ),
    Option(
        "slope",
        SLOPES,
        (),
        "A column that has a random slope in each subject, and stays a feature; once for each.",
        "a column of numbers, or a list of several, with a random slope in each subject; it stays a feature (`mixed`)",
        unset="intercepts alone are random",
        tasks=(Task.MIXED,),
        columns=True,
    ),
    Option(
        "criterion",
        word(Criterion),
        Criterion.REML,
        "The restricted likelihood (reml), or the likelihood (ml).",
        (
            '`"reml"`, the restricted likelihood, or `"ml"`, the likelihood, by which models of different effects can '
            "be compared (`mixed`)"
        ),
        tasks=(Task.MIXED,),
    ),
    Option(
        "correlated",
        FLAG,
        True,
        "Whether random effects of one subject may be correlated.",
        "whether a random intercept and slopes of one subject may be correlated (`mixed`)",
        tasks=(Task.MIXED,),
    ),
    Option(
        "tolerance",
        number(gt=0, lt=1),
        1e-9,
        "The fit ends when a step is below this number of standard errors.",
        f"the iteration ends when the next step is below this number of standard errors ({_MODELS})",
        tasks=MODEL_TASKS,
    ),
    Option(
        "max_iterations",
        whole(1, 1000),
        25,
        "Beyond, the fit has not converged.",
        f"beyond, the study ends in [FSVD-304](errors/FSVD-304.md) ({_MODELS})",
        tasks=MODEL_TASKS,
        defaults={"FederatedLogisticRegression": 50},
    ),
    Option(
        "digits",
        word(Digits),
        Digits.AUTO,
        "Digits of the sums that parties open: table, more, all, or auto.",
        (
            f"how many digits of the sums the parties open ({_MODELS}; `lr` with `inference`, split rows): "
            '`"table"`, as few as coefficients to 1e-10 standard errors and standard errors to 1e-4 need; '
            '`"more"`, standard errors to 1e-7; `"all"`, Gram matrices in all digits, from which single records can '
            'be read; `"auto"`, the most of these that opens less than a quarter of what the others\' records hold, '
            "from public numbers alone, and in one process, where one person has all records, `all`. Sums of few "
            "digits need linearly independent columns. Of the top by steps (`svd`, `lsa`, `pca`, `pcr` with "
            '`scheme = "steps"`): `"table"`, vectors to residuals of 1e-8 and singular values that lie apart to about '
            '1e-12 of the largest, 38 bits of each product; `"more"`, 1e-11 and 48 bits; `"all"` and `"auto"`, 5e-14 '
            "and 56 bits"
        ),
        tasks=(Task.LR, *MODEL_TASKS, Task.SURVIVAL, Task.DESCRIBE, Task.SVD, Task.LSA, Task.PCA, Task.PCR),
    ),
    Option(
        "quality",
        FLAG,
        False,
        "The model's AUC by pairs within sites, and its Brier score, over all parties.",
        (
            "how well a model of two classes ranks and predicts the records of all parties (`glm`, `binomial`): the "
            "area under the ROC curve by pairs of one party's own records, with its error, and the Brier score; one "
            "sum of four numbers of 24 bits. A party with fewer than five cases or controls adds no pairs"
        ),
        tasks=(Task.GLM,),
    ),
    Option(
        "roc",
        whole(0, 1000),
        0,
        "ROC and calibration of all parties' records, by counts in multiples of N (5; 1: exact): asks every owner.",
        (
            "the ROC curve, calibration and the Hosmer-Lemeshow test of all parties' records together, with `quality` "
            "(`glm`, `binomial`): how many cases and controls are at or below 64 values of the linear predictor. 5: "
            "each party rounds its own counts to multiples of five; 1: counts as they are; 0: none. These are counts "
            "of a column that the study made, and ask every owner"
        ),
        tasks=(Task.GLM,),
        script=True,
    ),
    Option(
        "thresholds",
        THRESHOLDS,
        (),
        "A probability at which sensitivity and specificity are given, with --roc; once for each.",
        (
            "probabilities at which `roc` gives sensitivity and specificity, at most 20; a dictionary's "
            "`thresholds` of the label column, of which a job's are some"
        ),
        unset="the dictionary's `thresholds`",
        tasks=(Task.GLM,),
        script=True,
    ),
    Option(
        "least_class",
        whole(0),
        10,
        "Rows of the smallest class, below which the session ends.",
        (
            "rows of the smallest class (events, for `poisson` and `cox`), below which the session ends before a Gram "
            f"matrix is opened ({_WEIGHTED_MODELS})"
        ),
        tasks=_COUNTED,
    ),
    Option(
        "least_events",
        whole(0),
        5,
        "Events for each coefficient, below which the session ends.",
        f"events, or rows of the smallest class, for each coefficient; likewise ({_WEIGHTED_MODELS})",
        tasks=_COUNTED,
    ),
)
