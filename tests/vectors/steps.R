# What R says of ordinal and negative binomial models of the tables of tests/steps_data.py, which a folder has as CSV files:
#   Rscript tests/vectors/steps.R FOLDER > tests/vectors/steps-r.json
# polr minimises by BFGS and stops where the likelihood no longer falls: coef, se and loglik are those of Newton steps
# from there, by central differences of the exact slope; polr's own are polr and polr_se.
suppressMessages({library(MASS); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
table <- function(name) {
  d <- read.csv(file.path(folder, paste0(name, ".csv")))
  d$site <- NULL
  d
}
laws <- list(logistic = list(p = plogis, d = dlogis), probit = list(p = pnorm, d = dnorm),
             cloglog = list(p = function(u) -expm1(-exp(u)), d = function(u) ifelse(is.finite(u), exp(u - exp(u)), 0)))
newton <- function(X, y, at, law) {
  p <- ncol(X); K <- max(y)
  slope <- function(b) {
    z <- c(-Inf, b[-(1:p)], Inf); eta <- drop(X %*% b[1:p]); up <- z[y + 1] - eta; low <- z[y] - eta
    share <- law$p(up) - law$p(low)
    above <- law$d(up) / share; below <- law$d(low) / share
    g <- -drop(crossprod(X, above - below))
    list(score = c(g, sapply(1:(K - 1), function(k) sum(above[y == k]) - sum(below[y == k + 1]))), loglik = sum(log(share)))
  }
  for (round in 1:4) {
    H <- sapply(seq_along(at), function(j) {
      h <- 1e-4 * max(1e-3, abs(at[j])); e <- replace(numeric(length(at)), j, h)
      (8 * (slope(at + e)$score - slope(at - e)$score) - (slope(at + 2 * e)$score - slope(at - 2 * e)$score)) / (12 * h)
    })
    H <- (H + t(H)) / 2
    at <- at - solve(H, slope(at)$score)
  }
  list(coef = unname(at), se = unname(sqrt(diag(solve(-H)))), loglik = slope(at)$loglik)
}
ordinal <- function(name, link) {
  d <- table(name); X <- as.matrix(d[names(d) != "y"]); y <- d$y; d$y <- factor(d$y)
  fit <- polr(y ~ ., d, method = link, Hess = TRUE, control = list(reltol = 1e-16, maxit = 1000))
  c(list(data = name, link = link, polr = unname(c(coef(fit), fit$zeta)), polr_se = unname(sqrt(diag(vcov(fit)))),
         polr_loglik = c(logLik(fit))), newton(X, as.integer(factor(y)), c(coef(fit), fit$zeta), laws[[link]]))
}
negbin <- function(name) {
  fit <- glm.nb(y ~ ., table(name), control = glm.control(epsilon = 1e-14, maxit = 200))
  list(data = name, coef = unname(coef(fit)), se = unname(sqrt(diag(vcov(fit)))), theta = fit$theta, theta_se = fit$SE.theta,
       loglik = c(logLik(fit)), deviance = deviance(fit))
}
found <- list(
  versions = list(R = paste(R.version$major, R.version$minor, sep = "."), MASS = as.character(packageVersion("MASS"))),
  ordinal = list(ordinal("wine", "logistic"), ordinal("WVS", "logistic"), ordinal("pbc", "logistic"), ordinal("wine", "probit"), ordinal("pbc", "cloglog")),
  negbin = lapply(c("epil", "bioChemists", "medpar", "badhealth"), negbin)
)
cat(toJSON(found, digits = NA, auto_unbox = TRUE, pretty = TRUE), "\n")
