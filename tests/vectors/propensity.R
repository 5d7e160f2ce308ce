# Weighted effects and balance by R on the tables of tests/propensity_data.py, as JSON:
# Rscript tests/vectors/propensity.R FOLDER > propensity-r.json
suppressMessages({library(survival); library(sandwich); library(survey); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
beside <- c("site", "treated", "cluster", "gaussian", "binomial", "poisson", "time", "event")
tight <- glm.control(epsilon = 1e-15, maxit = 100)
cox.tight <- coxph.control(eps = 1e-13, iter.max = 50, toler.chol = 1e-14, toler.inf = 1e-30)
se <- function(V) unname(sqrt(diag(V)))

weighted <- function(d, e, estimand) {
  t <- d$treated
  switch(estimand, overlap = ifelse(t == 1, 1 - e, e), ATE = ifelse(t == 1, 1 / e, 1 / (1 - e)), ATT = ifelse(t == 1, 1, e / (1 - e)))
}

# cobalt's definitions: numbers in deviations before weighting, 0/1 columns as they are; unbiased weighted variances.
balance <- function(d, x, w, estimand) {
  moments <- function(v, w) { w <- w / sum(w); m <- sum(w * v); c(m, sum(w * (v - m)^2) / (1 - sum(w^2))) }
  rows <- lapply(x, function(name) {
    v <- d[[name]]; binary <- all(v %in% 0:1); one <- rep(1, nrow(d))
    un <- lapply(0:1, function(g) moments(v[d$treated == g], one[d$treated == g]))
    adj <- lapply(0:1, function(g) moments(v[d$treated == g], w[d$treated == g]))
    scale <- if (binary) 1 else if (estimand == "ATT") sqrt(un[[2]][2]) else sqrt((un[[1]][2] + un[[2]][2]) / 2)
    ratio <- function(p) if (binary) NA else p[[2]][2] / p[[1]][2]
    list(Diff.Un = (un[[2]][1] - un[[1]][1]) / scale, Diff.Adj = (adj[[2]][1] - adj[[1]][1]) / scale,
         V.Ratio.Un = ratio(un), V.Ratio.Adj = ratio(adj), M.0.Adj = adj[[1]][1], M.1.Adj = adj[[2]][1])
  })
  ess <- sapply(0:1, function(g) sum(w[d$treated == g])^2 / sum(w[d$treated == g]^2))
  c(lapply(setNames(names(rows[[1]]), names(rows[[1]])), function(key) sapply(rows, function(row) row[[key]])), list(ESS = ess))
}

of <- function(name) {
  d <<- read.csv(file.path(folder, paste0(name, ".csv"))); x <- setdiff(names(d), beside)
  score <- glm(as.formula(paste("treated ~", paste(x, collapse = " + "))), binomial(), d, control = tight)
  e <- fitted(score)
  found <- list(covariates = x, score = unname(coef(score)), score.se = se(vcov(score)))
  for (estimand in c("overlap", "ATE", "ATT")) {
    d$w <<- weighted(d, e, estimand); d$row <<- seq_len(nrow(d))
    d$s <<- d$w * ifelse(d$treated == 1, mean(d$treated), 1 - mean(d$treated))
    own <- list(balance = balance(d, x, d$w, estimand))
    for (family in intersect(c("gaussian", "binomial", "poisson"), names(d))) {
      law <- list(gaussian = gaussian(), binomial = quasibinomial(), poisson = quasipoisson())[[family]]
      m <- suppressWarnings(glm(as.formula(paste(family, "~ treated")), law, d, weights = w, control = tight))
      survey <- suppressWarnings(svyglm(as.formula(paste(family, "~ treated")), svydesign(~1, weights = ~w, data = d), family = law))
      own[[family]] <- list(coef = unname(coef(m)), HC0 = se(vcovHC(m, type = "HC0")), HC3 = se(vcovHC(m, type = "HC3")),
                            cluster = se(vcovCL(m, d$cluster, type = "HC1")), survey = se(vcov(survey)))
    }
    if ("time" %in% names(d)) for (word in c("w", "s")) {
      d$case <<- d[[word]]
      one <- coxph(Surv(time, event) ~ treated + strata(site), d, case, control = cox.tight, cluster = row)
      two <- coxph(Surv(time, event) ~ treated + strata(site), d, case, control = cox.tight, cluster = cluster)
      own[[if (word == "w") "cox" else "stabilised"]] <- list(coef = unname(coef(one)), HC0 = se(vcov(one)), cluster = se(vcov(two)))
    }
    # Trimmed at .1; a site that would leave out one to four of a group leaves out its five nearest to 0 or 1.
    near <- pmin(e, 1 - e); beyond <- function(s) ave(s, d$site, d$treated, FUN = function(v) { c <- sum(v < .1); rank(v, ties.method = "first") <= if (c > 0) max(c, 5) else 0 })
    d$kept <<- beyond(near) == 0
    if ("gaussian" %in% names(d)) {
      m <- glm(gaussian ~ treated, gaussian(), d, weights = w, subset = kept, control = tight)
      own$trimmed <- list(coef = unname(coef(m)), HC0 = se(vcovHC(m, type = "HC0")), out = sum(!d$kept))
    }
    found[[estimand]] <- own
  }
  found
}
packages <- c("survival", "sandwich", "survey")
sets <- c("made", "birthwt", "nhefs", "lung")
found <- lapply(setNames(sets, sets), of)
found$versions <- c(list(R = R.version.string), lapply(setNames(packages, packages), function(p) as.character(packageVersion(p))))
cat(toJSON(found, digits = 17, auto_unbox = TRUE, na = "null"), "\n")
