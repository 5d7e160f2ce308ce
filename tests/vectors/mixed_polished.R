# Linear mixed models at the stationary point of lme4's own criterion, as JSON: lmer stops where its steps are short
# (1e-7 of a standard error), so Newton steps on its deviance function go on, with derivatives by numDeriv.
#   python -m tests.mixed_data FOLDER; Rscript tests/vectors/mixed_polished.R FOLDER > tests/vectors/mixed-polished-r.json
suppressMessages({library(lme4); library(lmerTest); library(numDeriv); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
studies <- list(
  sleep1 = list("sleepstudy", Reaction ~ Days + (1 | id)),
  sleep2 = list("sleepstudy", Reaction ~ Days + (Days | id)),
  orthodont = list("orthodont", distance ~ age + female + (1 | id)),
  pbcseq = list("pbcseq", lbili ~ year + age + male + (1 | id)),
  pbcseq2 = list("pbcseq", lbili ~ year + age + male + (year | id)),
  oxboys = list("oxboys", height ~ age + (age | id)),
  milk = list("milk", protein ~ Time + (Time || id)))
# The optimizer of lme4 first, then Newton steps.
on <- function(fn, par, lower, upper, control, ...) {
  first <- nloptwrap(par, fn, lower, upper, control = list(xtol_abs = 1e-10, ftol_abs = 1e-12, maxeval = 1e5))
  theta <- first$par
  for (i in 1:6) theta <- theta - solve(hessian(fn, theta), grad(fn, theta))
  list(par = theta, fval = fn(theta), conv = 0, feval = 0, message = format(max(abs(grad(fn, theta)))))
}
polished <- function(formula, data, reml) {
  fit <- lmer(formula, data, REML = reml, control = lmerControl(on, calc.derivs = FALSE))
  table <- coef(summary(fit))
  G <- lapply(VarCorr(fit), function(block) matrix(as.numeric(block), nrow(block)))
  G <- if (length(G) == 1) G[[1]] else diag(sapply(G, as.numeric))
  list(coef = as.numeric(table[, 1]), se = as.numeric(table[, 2]), df = as.numeric(table[, 3]), loglik = as.numeric(logLik(fit)),
       G = G, s2 = sigma(fit)^2, slope = as.numeric(fit@optinfo$message))
}
found <- lapply(studies, function(s) {
  d <- read.csv(file.path(folder, paste0(s[[1]], ".csv")))
  list(formula = deparse(s[[2]]), reml = polished(s[[2]], d, TRUE), ml = polished(s[[2]], d, FALSE))
})
versions <- list(R = as.character(getRversion()), lme4 = as.character(packageVersion("lme4")), lmerTest = as.character(packageVersion("lmerTest")), numDeriv = as.character(packageVersion("numDeriv")))
cat(toJSON(list(versions = versions, studies = found), digits = 16, auto_unbox = TRUE), "\n")
