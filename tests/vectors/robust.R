# R's robust errors on the table of tests/robust_data.py, as JSON: Rscript tests/vectors/robust.R FOLDER > robust-r.json
suppressMessages({library(survival); library(MASS); library(sandwich); library(jsonlite)})
d <- read.csv(file.path(commandArgs(TRUE)[1], "robust.csv"), check.names = FALSE)
names(d)[names(d) == "negative-binomial"] <- "nb"
se <- function(V) unname(sqrt(diag(V)))
kinds <- c("HC0", "HC1", "HC2", "HC3")
tight <- glm.control(epsilon = 1e-15, maxit = 100)

of_glm <- function(m) {
  found <- lapply(setNames(kinds, kinds), function(kind) se(vcovHC(m, type = kind)))
  c(list(coef = unname(coef(m)), nonrobust = se(vcov(m))), found, list(cluster = se(vcovCL(m, d$cluster, type = "HC1"))))
}
families <- list(gaussian = gaussian(), binomial = binomial(), poisson = poisson(), gamma = Gamma("log"))
fits <- lapply(names(families), function(name)
  glm(as.formula(paste0("`", name, "` ~ age + sex + marker")), families[[name]], d, control = tight))
found <- setNames(lapply(fits, of_glm), names(families))
found$probit <- of_glm(glm(probit ~ age + sex + marker, binomial("probit"), d, control = tight))
found$weighted <- of_glm(glm(poisson ~ age + sex + marker, poisson(), d, weights = w, control = tight))
found$`negative-binomial` <- of_glm(glm.nb(nb ~ age + sex + marker, d, control = tight))
for (name in c("quasipoisson", "quasibinomial")) {
  y <- sub("quasi", "", name)
  m <- glm(as.formula(paste(y, "~ age + sex + marker")), get(name)(), d, control = tight)
  s <- summary(m)
  found[[name]] <- list(coef = unname(coef(m)), se = unname(s$coefficients[, 2]), t = unname(s$coefficients[, 3]),
                        p = unname(s$coefficients[, 4]), dispersion = s$dispersion, deviance = m$deviance, null = m$null.deviance)
}

# polr's Hessian is by differences: in units of the spread it has more digits. Turned back, thresholds are those of age.
d$z <- (d$age - 60) / 9
m <- polr(factor(grade) ~ z + sex + marker, d, Hess = TRUE, control = list(reltol = 1e-16, maxit = 1000))
turn <- diag(c(1 / 9, rep(1, 5))); turn[4:6, 1] <- 60 / 9
back <- function(V) se(turn %*% V %*% t(turn))
found$ordinal <- list(coef = as.vector(turn %*% c(coef(m), m$zeta)), HC0 = back(sandwich(m)),
                      cluster = back(vcovCL(m, d$cluster, type = "HC1")))

control <- coxph.control(eps = 1e-13, iter.max = 50, toler.chol = 1e-14, toler.inf = 1e-30)
cox <- function(formula, ties = "efron", w = rep(1, nrow(d))) {
  d$case <<- w; d$row <<- seq_len(nrow(d))
  one <- coxph(formula, d, case, ties = ties, control = control, cluster = row)
  two <- coxph(formula, d, case, ties = ties, control = control, cluster = cluster)
  s <- summary(two)
  list(coef = unname(coef(one)), nonrobust = se(one$naive.var), HC0 = se(vcov(one)), cluster = se(vcov(two)),
       wald = unname(two$wald.test), score = unname(s$sctest["test"]), lr = unname(s$logtest["test"]),
       residuals = unname(head(residuals(one, "score"), 5)))
}
surv <- Surv(time, status) ~ age + sex + marker + strata(site)
late <- Surv(entry, time, status) ~ age + sex + marker + strata(site)
found$cox <- list(efron = cox(surv), breslow = cox(surv, "breslow"), weighted = cox(surv, w = d$w), entry = cox(late))
packages <- c("survival", "MASS", "sandwich")
found$versions <- c(list(R = R.version.string), lapply(setNames(packages, packages), function(p) as.character(packageVersion(p))))
cat(toJSON(found, digits = 17, auto_unbox = TRUE, na = "null"), "\n")
