# R's answers on Cox models with more than the defaults, on the tables of tests/survival_data.py, as JSON:
# python -m tests.survival_data FOLDER; Rscript tests/vectors/hazards.R FOLDER > tests/vectors/hazards-r.json
suppressMessages({library(survival); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
tight <- coxph.control(eps = 1e-13, iter.max = 60, toler.inf = 1e-30)
covariates <- function(d) setdiff(names(d), c("time", "status", "group", "site"))
form <- function(left, x) as.formula(paste(left, "~", paste(x, collapse = " + "), "+ strata(site)"))

# The test of proportional hazards by a clock of each site's own records: records are split at the event times of their
# site, x g(t) is a column of its own, and R's score test is taken at the fit, where its effect is zero.
clocks <- list(
  km = function(e) { f <- survfit(Surv(time, status) ~ 1, data = e); function(u) 1 - c(1, f$surv)[findInterval(u, f$time, left.open = TRUE) + 1] },
  rank = function(e) { t <- e$time[e$status == 1]; r <- rank(t) / (length(t) + 1); function(u) r[match(u, t)] })
own <- function(d, clock) {
  x <- covariates(d); m <- coxph(form("Surv(time, status)", x), data = d, control = tight)
  parts <- lapply(split(d, d$site), function(e) {
    cuts <- sort(unique(e$time[e$status == 1])); e$id <- seq_len(nrow(e)); if (!length(cuts)) return(NULL)
    s <- survSplit(Surv(time, status) ~ ., data = e, cut = cuts, start = "begin", end = "end", event = "seen")
    s <- s[s$end %in% cuts, ]; s$g <- clocks[[clock]](e)(s$end); s
  })
  s <- do.call(rbind, parts); for (v in x) s[[paste0(v, ".g")]] <- s[[v]] * s$g
  score <- function(more) {
    f <- coxph(form("Surv(begin, end, seen)", c(x, paste0(more, ".g"))), data = s, init = c(coef(m), rep(0, length(more))),
               control = coxph.control(iter.max = 0))
    # coxph's own score test is of all columns at its initial values: the effects themselves add nothing there
    f$score
  }
  c(sapply(x, score), score(x))
}

# A hazard that is level between times, at the effects of the model stratified by site.
level <- function(d, edges) {
  x <- covariates(d); m <- coxph(form("Surv(time, status)", x), data = d, control = tight); d$eta <- as.vector(as.matrix(d[x]) %*% coef(m))
  s <- survSplit(Surv(time, status) ~ ., data = d[d$time > 0, ], cut = edges, start = "begin", end = "end", event = "seen", episode = "bin")
  s <- s[s$begin < max(edges), ]; e <- tapply((s$end - s$begin) * exp(s$eta), s$bin, sum); n <- tapply(s$seen, s$bin, sum)
  f <- suppressWarnings(glm(seen ~ 0 + factor(bin) + offset(eta + log(end - begin)), data = s, family = poisson, epsilon = 1e-14, maxit = 100))
  list(exposure = unname(as.vector(e)), events = unname(as.vector(n)), log.hazard = unname(coef(f)))
}

more <- function(d) {
  x <- covariates(d); n <- nrow(d)
  d$entry <- floor(d$time * (seq_len(n) %% 7) / 9) - (seq_len(n) %% 3); d$w <- 1 + seq_len(n) %% 3; d$o <- (seq_len(n) %% 5) / 4 - .5; d$s <- seq_len(n) %% 2
  fit <- function(left, terms, ties, weighted = FALSE) {
    f <- as.formula(paste(left, "~", paste(c(x, "strata(site)", terms), collapse = " + ")))
    m <- do.call(coxph, c(list(f, data = d, control = tight, ties = ties), if (weighted) list(weights = d$w, robust = FALSE)))
    list(coef = unname(coef(m)), se = unname(sqrt(diag(m$var))), loglik = m$loglik, score = m$score, wald = unname(m$wald.test),
         concordance = unname(m$concordance["concordance"]), dfbeta = unname(head(as.matrix(residuals(m, "dfbeta")), 20)))
  }
  each <- function(ties) list(
    strata = fit("Surv(time, status)", "strata(s)", ties = ties), entry = fit("Surv(entry, time, status)", NULL, ties = ties),
    offset = fit("Surv(time, status)", "offset(o)", ties = ties), weights = fit("Surv(time, status)", NULL, ties = ties, weighted = TRUE),
    all = fit("Surv(entry, time, status)", c("strata(s)", "offset(o)"), ties = ties, weighted = TRUE))
  # R's ridge is theta / 2 times the sum of squares of the coefficients, as ours
  ridge <- coxph(as.formula(paste("Surv(time, status) ~ ridge(", paste(x, collapse = ", "), ", theta = 2, scale = FALSE) + strata(site)")), data = d, control = tight)
  list(efron = each("efron"), breslow = each("breslow"), ridge = unname(coef(ridge)))
}

found <- list(R = R.version.string, survival = as.character(packageVersion("survival")))
grids <- list(made = 1:24, colon = 365 * 1:8, pbc = 365 * 1:10)
for (name in names(grids)) {
  d <- read.csv(file.path(folder, paste0(name, ".csv")))
  found[[name]] <- list(km = unname(own(d, "km")), rank = unname(own(d, "rank")), edges = grids[[name]], level = level(d, grids[[name]]), more = more(d))
}
cat(toJSON(found, digits = 17, auto_unbox = TRUE, na = "null"), "\n")
