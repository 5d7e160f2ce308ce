# What R says of nested models of tests/kit.py's tables, which a folder has as CSV files:
#   Rscript tests/vectors/nested.R FOLDER > tests/vectors/nested-r.json
suppressMessages({library(MASS); library(survival); library(lme4); library(lmerTest); library(nlme, exclude = "lmList"); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
table <- function(name) read.csv(file.path(folder, paste0(name, ".csv")))
lr <- function(statistic, df) c(statistic, df, pchisq(statistic, df, lower.tail = FALSE))
quine <- table("quine"); veteran <- table("veteran"); orthodont <- table("orthodont"); housing <- table("housing")
exact <- glm.control(epsilon = 1e-14, maxit = 100)
nb <- function(formula) logLik(glm.nb(formula, quine, control = exact))
hazard <- function(formula) coxph(formula, veteran, control = coxph.control(eps = 1e-14))$loglik[2]
housing$y <- factor(housing$y)
grades <- function(formula) polr(formula, housing, weights = w, control = list(reltol = 1e-15, maxit = 1000))$deviance
ml <- function(formula) logLik(lmer(formula, orthodont, REML = FALSE, control = lmerControl("bobyqa", optCtrl = list(rhoend = 1e-10))))
whole <- lmer(distance ~ age + female + (1 | id), orthodont)
terms <- anova(whole)
# A factor of several levels is one term: Fai's and Cornelius' denominators, of tables of R's own packages.
factors <- function(formula, data) {
  found <- anova(lmer(formula, data, control = lmerControl("bobyqa", optCtrl = list(rhoend = 1e-10, maxfun = 1e5), calc.derivs = FALSE)), type = 3)
  list(terms = rownames(found), f = found[, "F value"], df = found[, "DenDF"], p = found[, "Pr(>F)"])
}
both <- contest(whole, rbind(c(0, 1, 0), c(0, 0, 1)))
difference <- contest(whole, c(0, 1, 0), joint = FALSE)
cat(toJSON(list(
  R = R.version.string, lme4 = as.character(packageVersion("lme4")), lmerTest = as.character(packageVersion("lmerTest")),
  negative_binomial = lr(2 * c(nb(y ~ EthN + SexM + LrnSL) - nb(y ~ EthN)), 2),
  cox = lr(2 * (hazard(Surv(time, status) ~ karno + age + trt + strata(site)) - hazard(Surv(time, status) ~ karno + strata(site))), 2),
  ordinal = lr(grades(y ~ InflMedium + InflHigh) - grades(y ~ InflMedium + InflHigh + ContHigh), 1),
  mixed = lr(2 * c(ml(distance ~ age + female + (1 | id)) - ml(distance ~ age + (1 | id))), 1),
  mixed_terms = list(f = terms[, "F value"], df = terms[, "DenDF"], p = terms[, "Pr(>F)"]),
  mixed_both = c(both[, "F value"], both[, "DenDF"], both[, "Pr(>F)"]),
  milk = factors(protein ~ Diet + Time + (1 | Cow), Milk),
  chicks = factors(weight ~ Diet + Time + (1 | Chick), ChickWeight),
  chicks_apart = factors(weight ~ Diet + Time + (Time | Chick), ChickWeight),
  age = unname(unlist(difference[c("Estimate", "Std. Error", "df", "t value", "Pr(>|t|)", "lower", "upper")]))
), digits = 15, auto_unbox = TRUE))
