# R's answers on the tables of tests/classes_data.py, as JSON: Rscript tests/vectors/roc.R FOLDER > roc-r.json
suppressMessages({library(pROC); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
thresholds <- c(.1, .3)

# The grid of the specification: 64 edges an eighth of a deviation apart, a step of three binary digits, and thresholds.
grid <- function(eta) {
  spread <- sqrt(mean(eta^2) - mean(eta)^2) / 8; power <- floor(log2(spread)) + 1
  step <- round(spread / 2^power * 8) / 8 * 2^power
  sort(c(step * (round(mean(eta) / step) + 0:63 - 31.5), qlogis(thresholds)))
}

# Mean probability of a cell by Simpson's rule, its open ends as wide as the median cell.
cells <- function(edges) {
  w <- median(diff(edges)); e <- c(edges[1] - w, edges, edges[length(edges)] + w); n <- length(e)
  (plogis(e[-n]) + 4 * plogis((e[-n] + e[-1]) / 2) + plogis(e[-1])) / 6
}

# Groups that end at the edges nearest to tenths of all records; the covariance of rounded counts joins their variances.
hosmer <- function(cases, controls, p, rounding) {
  n <- cases + controls; total <- n[length(n)]
  ends <- sort(unique(c(sapply(1:9, function(k) which.min(abs(n - total * k / 10))), length(n))))
  ends <- ends[c(TRUE, diff(n[ends]) > 0)]
  start <- 0; left <- q <- V <- c()
  for (end in ends) {
    own <- (start + 1):end; m <- diff(c(0, n))[own]; E <- sum(m * p[own])
    left <- c(left, cases[end] - (if (start) cases[start] else 0) - E); q <- c(q, E / sum(m)); V <- c(V, E * (1 - E / sum(m)))
    start <- end
  }
  # Errors of both counts at every end, as they go into the groups before and after it.
  g <- length(ends); A <- diag(g); A[cbind(2:g, 1:(g - 1))] <- -1
  C <- diag(V) + rounding * (((1 - q) * A) %*% t((1 - q) * A) + (q * A) %*% t(q * A))
  chi <- sum(left * solve(C, left))
  df <- length(ends) - 2
  list(statistic = chi, df = df, p = pchisq(chi, df, lower.tail = FALSE), ends = ends)
}

# The test as books have it: tenths by quantiles of single fitted values, expected numbers their sums.
by.hand <- function(y, p) {
  g <- cut(p, unique(quantile(p, 0:10 / 10)), include.lowest = TRUE)
  O <- tapply(y, g, sum); E <- tapply(p, g, sum); n <- tapply(p, g, length)
  sum((O - E)^2 / (E * (1 - E / n)))
}

found <- list(R = R.version.string, pROC = as.character(packageVersion("pROC")))
for (name in c("made", "biopsies", "fair", "birthwt")) {
  d <- read.csv(file.path(folder, paste0(name, ".csv")))
  m <- glm(y ~ ., binomial, d[, names(d) != "site"], control = list(epsilon = 1e-14, maxit = 50))
  eta <- unname(predict(m)); edges <- grid(eta); y <- d$y
  cumulative <- function(rows) c(sapply(edges, function(e) sum(eta[rows] <= e)), sum(rows))
  counts <- function(label, f) Reduce(`+`, lapply(unique(d$site), function(s) f(cumulative(d$site == s & y == label))))
  fives <- function(n) 5 * round(n / 5); k <- length(unique(d$site))
  r <- roc(y, eta, direction = "<", quiet = TRUE); bin <- findInterval(eta, edges, left.open = TRUE)
  b <- roc(y, bin, direction = "<", quiet = TRUE)
  exact <- list(cases = counts(1, identity), controls = counts(0, identity))
  rounded <- list(cases = counts(1, fives), controls = counts(0, fives))
  at <- coords(r, x = qlogis(thresholds), ret = c("sensitivity", "specificity", "ppv", "npv"), transpose = FALSE)
  found[[name]] <- list(coef = unname(coef(m)), edges = edges, exact = exact, fives = rounded,
    auc = c(r$auc), auc.se = sqrt(var(r)), binned = c(b$auc), binned.se = sqrt(var(b)), at = as.list(at),
    hosmer = hosmer(exact$cases, exact$controls, cells(edges), 0),
    hosmer.fives = hosmer(rounded$cases, rounded$controls, cells(edges), 2 * k),
    hosmer.by.hand = by.hand(y, fitted(m)), brier = mean((y - fitted(m))^2))
}
cat(toJSON(found, digits = 15, auto_unbox = TRUE))
