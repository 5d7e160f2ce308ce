# R's answers on the tables of tests/survival_data.py, as JSON: Rscript tests/vectors/survival.R FOLDER > survival-r.json
suppressMessages({library(survival); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
grids <- list(made = c(1, 24), heart = c(60, 30), lung = c(30, 34), colon = c(90, 37), pbc = c(180, 27), veteran = c(30, 34), mgus2 = c(12, 30))

# Counts in bins, half of the censored at risk: a censored record is half a record that left before the bin's events and
# half of one that left after them, as case weights.
binned <- function(d, edges) {
  # An event at an edge is in the bin that ends there; who is censored at an edge was at risk up to it.
  bin <- ifelse(d$status == 1, findInterval(d$time, edges, left.open = TRUE), findInterval(d$time, edges)) + 1
  one <- data.frame(time = 2 * bin, status = d$status, w = ifelse(d$status == 1, 1, .5))
  two <- data.frame(time = 2 * bin - 1, status = 0, w = ifelse(d$status == 1, 0, .5))
  both <- rbind(one, two)
  both[both$w > 0, ]
}

curve <- function(d, edges, type) {
  b <- binned(d, edges)
  s <- summary(survfit(Surv(time, status) ~ 1, data = b, weights = w, conf.type = type, robust = FALSE),
               times = 2 * seq_along(edges), extend = TRUE)
  list(surv = s$surv, low = s$lower, high = s$upper, cumhaz = s$cumhaz, se = s$std.err / s$surv, chaz.se = s$std.chaz)
}

# Weighted differences within sites, time by time; R's survdiff has rho alone.
kin <- function(d, weight) {
  groups <- sort(unique(d$group)); G <- length(groups); u <- rep(0, G); V <- matrix(0, G, G)
  for (site in unique(d$site)) {
    e <- d[d$site == site, ]; S <- 1
    for (t in sort(unique(e$time[e$status == 1]))) {
      risk <- e$time >= t; n <- sum(risk); dead <- e$time == t & e$status == 1; k <- sum(dead)
      ng <- sapply(groups, function(g) sum(risk & e$group == g)); dg <- sapply(groups, function(g) sum(dead & e$group == g))
      w <- weight(n, S); u <- u + w * (dg - k * ng / n)
      if (n > 1) V <- V + w^2 * k * (n - k) / (n - 1) * (diag(ng / n) - outer(ng / n, ng / n))
      S <- S * (1 - k / n)
    }
  }
  kept <- 1:(G - 1)
  sum(u[kept] * solve(V[kept, kept, drop = FALSE], u[kept]))
}

cox <- function(d, ties) {
  x <- setdiff(names(d), c("time", "status", "group", "site"))
  f <- as.formula(paste("Surv(time, status) ~", paste(x, collapse = " + "), "+ strata(site)"))
  m <- coxph(f, data = d, ties = ties, control = coxph.control(eps = 1e-13, iter.max = 50, toler.inf = 1e-30))
  b <- basehaz(m, centered = FALSE); b <- b[b$strata == b$strata[1], ]
  s <- summary(m); z <- function(g) unname(cox.zph(m, transform = g, terms = FALSE)$table[, 1])
  list(terms = x, coef = unname(coef(m)), se = unname(sqrt(diag(vcov(m)))), loglik = m$loglik, score = m$score, wald = unname(m$wald.test),
       lr = unname(s$logtest[1]), concordance = unname(m$concordance["concordance"]), identity = z("identity"), log = z("log"),
       martingale = head(unname(residuals(m, "martingale")), 40), deviance = head(unname(residuals(m, "deviance")), 40),
       base.time = b$time, base.hazard = b$hazard,
       linear = head(unname(predict(m, type = "lp", reference = "zero")), 40))
}

found <- list(R = R.version.string, survival = as.character(packageVersion("survival")))
for (name in names(grids)) {
  d <- read.csv(file.path(folder, paste0(name, ".csv"))); edges <- grids[[name]][1] * seq_len(grids[[name]][2])
  whole <- summary(survfit(Surv(time, status) ~ 1, data = d), times = edges, extend = TRUE)
  fit <- survfit(Surv(time, status) ~ group, data = d, conf.type = "log-log")
  until <- edges[ceiling(length(edges) / 2)]
  rank <- function(rho) unname(survdiff(Surv(time, status) ~ group + strata(site), data = d, rho = rho)$chisq)
  found[[name]] <- list(
    edges = edges, until = until,
    bins = lapply(sort(unique(d$group)), function(g) c(curve(d[d$group == g, ], edges, "log-log"), list(log = curve(d[d$group == g, ], edges, "log")))),
    times = list(surv = whole$surv, se = whole$std.err),
    median = unname(summary(fit)$table[, "median"]),
    rmean = unname(summary(survfit(Surv(time, status) ~ 1, data = d), rmean = until)$table["rmean"]),
    rmean.se = unname(summary(survfit(Surv(time, status) ~ 1, data = d), rmean = until)$table["se(rmean)"]),
    logrank = rank(0), peto = rank(1),
    gehan = kin(d, function(n, S) n), tarone = kin(d, function(n, S) sqrt(n)), fleming = kin(d, function(n, S) S * (1 - S)),
    efron = cox(d, "efron"), breslow = cox(d, "breslow"))
}
cat(toJSON(found, digits = 17, auto_unbox = TRUE, na = "null"), "\n")
