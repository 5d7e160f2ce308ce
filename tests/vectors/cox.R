# R's answers on Cox models with everything at once, robust and clustered, on a table of tests/survival_data.py, as JSON:
#   python -m tests.survival_data FOLDER; Rscript tests/vectors/cox.R FOLDER > tests/vectors/cox-r.json
suppressMessages({library(survival); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
tight <- coxph.control(eps = 1e-13, iter.max = 60, toler.chol = 1e-14)
d <- read.csv(file.path(folder, "made.csv")); n <- seq_len(nrow(d))
x <- setdiff(names(d), c("time", "status", "group", "site"))
d$entry <- floor(d$time * (n %% 7) / 9) - n %% 3; d$w <- 1 + n %% 3; d$o <- (n %% 5) / 4 - .5; d$s <- n %% 2
d$ward <- n %% 23; d$wards <- paste(d$site, d$ward); d$row <- n  # a ward of one name at two sites is two
form <- function(terms) as.formula(paste("Surv(entry, time, status) ~", paste(c(terms, "strata(site)", "strata(s)", "offset(o)"), collapse = " + ")))
errors <- function(m) unname(sqrt(diag(vcov(m))))
fit <- function(ties) {
  one <- coxph(form(x), d, w, ties = ties, control = tight, cluster = row)
  two <- coxph(form(x), d, w, ties = ties, control = tight, cluster = wards)
  s <- summary(two)
  list(coef = unname(coef(one)), nonrobust = unname(sqrt(diag(one$naive.var))), HC0 = errors(one), cluster = errors(two), loglik = one$loglik,
       lr = unname(s$logtest["test"]), score = unname(s$sctest["test"]), wald = unname(two$wald.test), clusters = length(unique(d$wards)), ridge = penalised(ties))
}
# Newton steps of the penalised likelihood at coxph's own slopes: its inner loop stops short of ridge()'s optimum.
penalised <- function(ties, theta = 2) {
  b <- numeric(length(x))
  for (step in 1:20) {
    at <- suppressWarnings(coxph(form(x), d, w, ties = ties, init = b, control = coxph.control(iter.max = 0)))
    b <- b + solve(solve(at$var) + theta * diag(length(b)), at$first - theta * b)
  }
  b
}
note <- sub("^ +", "", grep("Note|observations within", capture.output(print(summary(coxph(form(x), d, w, cluster = wards)))), value = TRUE))
cat(toJSON(list(R = R.version.string, survival = as.character(packageVersion("survival")), terms = x, efron = fit("efron"),
                breslow = fit("breslow"), note = paste(note, collapse = " ")), digits = 17, auto_unbox = TRUE), "\n")
