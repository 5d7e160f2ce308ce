# R's answers on competing causes and on medians of counts in bins, as JSON:
# python -m tests.incidence_data FOLDER; Rscript tests/vectors/incidence.R FOLDER > tests/vectors/incidence-r.json
suppressMessages({library(survival); library(cmprsk); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
grids <- list(made = c(1, 24), mgus2 = c(12, 30))

# As tests/vectors/survival.R: a censored record is half a record that left before a bin's events, half of one after them.
binned <- function(d, edges) {
  bin <- ifelse(d$status > 0, findInterval(d$time, edges, left.open = TRUE), findInterval(d$time, edges)) + 1
  one <- data.frame(time = 2 * bin, status = d$status, w = ifelse(d$status > 0, 1, .5))
  two <- data.frame(time = 2 * bin - 1, status = 0, w = ifelse(d$status > 0, 0, .5))
  both <- rbind(one, two)
  both[both$w > 0, ]
}

found <- list(R = R.version.string, survival = as.character(packageVersion("survival")), cmprsk = as.character(packageVersion("cmprsk")))
for (name in names(grids)) {
  d <- read.csv(file.path(folder, paste0(name, ".csv"))); edges <- grids[[name]][1] * seq_len(grids[[name]][2])
  at <- 2 * seq_along(edges)
  by <- lapply(sort(unique(d$group)), function(g) {
    b <- binned(d[d$group == g, ], edges)
    s <- summary(survfit(Surv(time, factor(status, 0:2)) ~ 1, data = b, weights = w), times = at, extend = TRUE)
    list(one = s$pstate[, 2], two = s$pstate[, 3])
  })
  # Errors: records whose follow-up ended inside a bin are taken off, and all others end at the last edge, where R's
  # risk sets and ours are the same.
  seen <- d[d$status > 0 | d$time >= max(edges), ]; seen$status[seen$time > max(edges)] <- 0
  bin <- pmin(findInterval(seen$time, edges, left.open = TRUE) + 1, length(edges) + 1); seen$status[bin > length(edges)] <- 0
  m <- survfit(Surv(bin, factor(status, 0:2)) ~ 1, data = cbind(seen, bin = bin), conf.type = "log-log")
  s <- summary(m, times = seq_along(edges), extend = TRUE)
  exact <- timepoints(cuminc(d$time, d$status), edges)
  median <- lapply(sort(unique(d$group)), function(g) {
    b <- binned(transform(d[d$group == g, ], status = as.integer(status > 0)), edges)
    q <- quantile(survfit(Surv(time, status) ~ 1, data = b, weights = w, conf.type = "log-log", robust = FALSE), .5)
    unname(c(q$quantile, q$lower, q$upper))
  })
  found[[name]] <- list(bins = by, complete = list(one = s$pstate[, 2], two = s$pstate[, 3], se.one = s$std.err[, 2], se.two = s$std.err[, 3],
      low = s$lower[, 2], high = s$upper[, 2]), exact = list(one = unname(exact$est[1, ]), two = unname(exact$est[2, ]), var = unname(exact$var[1, ])),
    median = median)
}
cat(toJSON(found, digits = 17, auto_unbox = TRUE, na = "null"), "\n")
