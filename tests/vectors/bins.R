# R's answers on proportional hazards with one baseline of all sites in bins of time, on the tables of
# tests/survival_data.py, as JSON: python -m tests.survival_data FOLDER; Rscript tests/vectors/bins.R FOLDER > tests/vectors/bins-r.json
suppressMessages({library(survival); library(jsonlite); library(sandwich)})
folder <- commandArgs(TRUE)[1]
covariates <- function(d) setdiff(names(d), c("time", "status", "group", "site"))

# One row for each record and bin that it was at risk in; follow-up ends at the last time.
rows <- function(d, edges) {
  d$bin <- findInterval(d$time, edges, left.open = TRUE) + 1; d$status[d$bin > length(edges)] <- 0
  d$bin <- pmin(d$bin, length(edges)); d$id <- seq_len(nrow(d))
  s <- d[rep(d$id, d$bin), ]; s$b <- sequence(d$bin); s$seen <- as.integer(s$b == s$bin & s$status == 1)
  list(one = d, each = s)
}

fit <- function(d, edges) {
  x <- covariates(d); d$ward <- 100 * d$site + seq_len(nrow(d)) %% 23; r <- rows(d, edges); f <- as.formula(paste("seen ~ 0 +", paste(x, collapse = " + "), "+ factor(b)"))
  of <- function(family, w = rep(1, nrow(d))) {
    r$each$w <- w[r$each$id]
    m <- suppressWarnings(glm(f, data = r$each, family = family, weights = w, epsilon = 1e-14, maxit = 100))
    X <- model.matrix(m); b <- coef(m)
    for (i in 1:20) {  # R ends where the deviance does not change, which leaves 1e-7 of a coefficient: the same steps go on
      eta <- as.vector(X %*% b); g <- m$family$mu.eta(eta); mu <- m$family$linkinv(eta); w <- r$each$w * g^2 / m$family$variance(mu)
      b <- b + as.vector(solve(crossprod(X, w * X), crossprod(X, w * (m$y - mu) / g)))
    }
    m <- suppressWarnings(glm(f, data = r$each, family = family, weights = w, start = b, maxit = 1))  # errors are there as well
    # Rows of a record are no records of their own: a record is a cluster of its rows, as in coxph.
    robust <- function(group) unname(sqrt(diag(vcovCL(m, cluster = group, type = "HC0", cadjust = FALSE))))
    list(coef = unname(b), se = unname(sqrt(diag(vcov(m)))), loglik = as.numeric(logLik(m)),
         robust = robust(r$each$id), cluster = robust(r$each$ward))
  }
  weighted <- 1 + seq_len(nrow(d)) %% 3
  b <- coxph(as.formula(paste("Surv(bin, status) ~", paste(x, collapse = " + "))), data = r$one, ties = "breslow",
             control = coxph.control(eps = 1e-13, iter.max = 60, toler.inf = 1e-30))
  list(edges = edges, terms = x, clusters = length(unique(d$ward)), cloglog = of(binomial("cloglog")), log = of(poisson()),
       weighted = list(cloglog = of(binomial("cloglog"), weighted), log = of(poisson(), weighted)),
       breslow = list(coef = unname(coef(b)), se = unname(sqrt(diag(b$var)))),
       events = as.vector(tapply(r$each$seen, r$each$b, sum)), at.risk = as.vector(table(r$each$b)))
}

found <- list(R = R.version.string, survival = as.character(packageVersion("survival")), sandwich = as.character(packageVersion("sandwich")))
grids <- list(made = c(6, 12, 18, 24), colon = 365 * c(1, 2, 3, 5, 7), pbc = 365 * c(1, 2, 4, 7, 10), lung = c(100, 200, 300, 500, 800), veteran = c(20, 50, 100, 200, 400))
for (name in names(grids)) found[[name]] <- fit(read.csv(file.path(folder, paste0(name, ".csv"))), grids[[name]])
cat(toJSON(found, digits = 17, auto_unbox = TRUE, na = "null"), "\n")
