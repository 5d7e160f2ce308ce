# R's words on outcomes that have no answer, or that it warns of, as JSON: what it refuses, warns of and leaves empty.
#   Rscript tests/vectors/verdicts.R > tests/vectors/verdicts-r.json
suppressMessages({library(survival); library(MASS); library(jsonlite)})
said <- function(expression) {
  warned <- character(); value <- NULL
  failed <- tryCatch({ withCallingHandlers(value <- expression(), warning = function(w) { warned <<- c(warned, conditionMessage(w)); invokeRestart("muffleWarning") }); NULL },
                     error = function(e) conditionMessage(e))
  list(value = value, warnings = as.list(unique(warned)), error = failed)
}
# The same rows as in tests/unit/estimators/test_verdicts_of_r.py: no number is drawn.
n <- 120; i <- 0:(n - 1); site <- c(rep(1, 70), rep(2, 50)); x <- round(sin(i), 2); time <- 1 + (37 * i) %% 101; status <- as.integer(i %% 3 > 0)
grade <- factor(ifelse(x < -0.4, "mild", ifelse(x < 0.4, "moderate", "severe")), ordered = TRUE)
even <- rep(c(1, 2, 3), 40)
found <- list(
  R = R.version.string, survival = as.character(packageVersion("survival")), MASS = as.character(packageVersion("MASS")),
  one_group = said(function() survdiff(Surv(time, status) ~ rep(1, n))$chisq),
  constant_inside_sites = said(function() unname(coef(coxph(Surv(time, status) ~ x + I(10 * site) + strata(site))))),
  classes_separated = said(function() { polr(grade ~ x); 0 }),
  two_classes = said(function() { polr(factor(status) ~ x); 0 }),
  counts_all_zero = said(function() { glm.nb(rep(0, n) ~ x); 0 }),
  counts_underdispersed = said(function() { m <- glm.nb(even ~ x); m$theta }),
  small_cells = said(function() chisq.test(table(c(rep("a", 51), rep("b", 9), rep("a", 60)), rep(c("u", "v"), each = 60)))$p.value),
  fisher = said(function() fisher.test(table(c(rep("a", 51), rep("b", 9), rep("a", 60)), rep(c("u", "v"), each = 60)))$p.value))
cat(toJSON(found, digits = 15, auto_unbox = TRUE, null = "null", na = "string"), "\n")
