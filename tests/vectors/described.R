# Table 1 by R on the tables of tests/described_data.py, gaps and all, as JSON:
# Rscript tests/vectors/described.R FOLDER > described-r.json
suppressMessages(library(jsonlite))
folder <- commandArgs(TRUE)[1]
columns <- list(pbc = list(by = "trt", numbers = c("age", "bili", "chol", "albumin", "platelet", "time"), categories = c("edema", "stage", "ascites")),
                birthwt = list(by = "smoke", numbers = c("age", "lwt", "bwt"), categories = c("low", "race", "ui", "ftv")),
                epil = list(by = "trt", numbers = c("y", "base", "age"), categories = "V4"))
q <- c(.25, .5, .75)
test <- function(t) list(statistic = unname(t$statistic), df = unname(t$parameter), p = t$p.value)
pairs <- function(g) { k <- levels(g); found <- combn(length(k), 2); lapply(seq_len(ncol(found)), function(j) k[found[, j]]) }

# Kruskal and Wallis' test within sites (two groups: van Elteren's), sites weighted by 1 / (n + 1).
within <- function(x, g, s) {
  there <- !is.na(x); x <- x[there]; g <- droplevels(g[there]); s <- s[there]; k <- nlevels(g)
  T <- numeric(k); V <- matrix(0, k, k)
  for (i in unique(s)) {
    r <- rank(x[s == i]); m <- as.vector(table(g[s == i])); n <- length(r); if (n < 2) next
    ties <- table(x[s == i]); w <- 1 / (n + 1)
    T <- T + w * (sapply(levels(g), function(l) sum(r[g[s == i] == l])) - m * (n + 1) / 2)
    V <- V + w^2 * (n + 1) / 12 * (1 - sum(ties^3 - ties) / (n^3 - n)) * (n * diag(m, k) - outer(m, m))
  }
  f <- seq_len(k - 1); c <- drop(T[f] %*% solve(V[f, f, drop = FALSE], T[f]))
  list(statistic = c, df = k - 1, p = pchisq(c, k - 1, lower.tail = FALSE))
}

number <- function(x, g, s) {
  by <- function(f) as.vector(tapply(x, g, function(v) if (all(is.na(v))) NA else f(v[!is.na(v)])))
  there <- droplevels(g[!is.na(x)])
  smd <- sapply(pairs(g), function(p) diff(sapply(p, function(l) mean(x[g == l], na.rm = TRUE))) / sqrt(mean(sapply(p, function(l) var(x[g == l], na.rm = TRUE)))))
  found <- list(n = as.vector(table(g[!is.na(x)])), missing = as.vector(table(g[is.na(x)])), mean = c(by(mean), mean(x, na.rm = TRUE)),
                sd = c(by(sd), sd(x, na.rm = TRUE)), quartiles = rbind(do.call(rbind, tapply(x, g, quantile, q, na.rm = TRUE)), quantile(x, q, na.rm = TRUE)),
                smd = unname(smd), equal = test(oneway.test(x ~ g, var.equal = TRUE)), welch = test(oneway.test(x ~ g)), within = within(x, g, s))
  if (nlevels(g) == 2) found <- c(found, list(t = test(t.test(x ~ g, var.equal = TRUE)), welch.t = test(t.test(x ~ g))))
  found
}

# tableone's standardised difference of shares: Mahalanobis' distance, the first level left out.
apart <- function(t) {
  p <- prop.table(t, 2)[-1, , drop = FALSE]; spread <- 0
  for (j in 1:2) spread <- spread + (diag(p[, j], nrow(p)) - outer(p[, j], p[, j])) / 2
  d <- p[, 2] - p[, 1]; sqrt(drop(d %*% solve(spread, d)))
}

category <- function(x, g) {
  t <- table(x, g); some <- t[, colSums(t) > 0]; two <- all(dim(some) == 2)
  list(levels = rownames(t), counts = unclass(unname(t)), missing = as.vector(table(g[is.na(x)])), plain = test(suppressWarnings(chisq.test(some, correct = FALSE))),
       corrected = if (two) test(suppressWarnings(chisq.test(some))), fisher = if (two) fisher.test(some)$p.value,
       smd = sapply(pairs(g), function(p) if (all(colSums(t[, p]) > 0)) apart(t[, p]) else NA))
}

of <- function(name) {
  d <- read.csv(file.path(folder, paste0(name, ".csv"))); about <- columns[[name]]; g <- factor(d[[about$by]])
  whole <- d[complete.cases(d[about$numbers]), about$numbers]; places <- combn(length(about$numbers), 2)
  list(sizes = as.vector(table(g)), numbers = lapply(d[about$numbers], number, g, d$site), categories = lapply(d[about$categories], category, g),
       correlations = lapply(seq_len(ncol(places)), function(j) { t <- cor.test(whole[[places[1, j]]], whole[[places[2, j]]])
         list(r = t$estimate[[1]], low = t$conf.int[1], high = t$conf.int[2]) }))
}
cat(toJSON(c(list(R = R.version.string), sapply(names(columns), of, simplify = FALSE)), auto_unbox = TRUE, digits = NA, na = "null", null = "null"))
