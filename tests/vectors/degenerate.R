# What R says of degenerate times, as JSON: python -m tests.degenerate_times FOLDER;
# Rscript tests/vectors/degenerate.R FOLDER > tests/vectors/degenerate-r.json
suppressMessages({library(survival); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
said <- function(what) {
  warned <- character(0)
  value <- tryCatch(withCallingHandlers(what(), warning = function(w) { warned <<- c(warned, conditionMessage(w)); invokeRestart("muffleWarning") }),
                    error = function(e) list(error = conditionMessage(e)))
  c(value, list(warnings = as.list(warned)))
}
found <- list(R = R.version.string, survival = as.character(packageVersion("survival")))
for (file in sort(list.files(folder, "\\.csv$"))) {
  name <- sub("\\.csv$", "", file); d <- read.csv(file.path(folder, file))
  cox <- function(of) function() {
    usual <- name == "separated"  # its warning is that of the usual control
    m <- coxph(of, data = d, control = if (usual) coxph.control() else coxph.control(eps = 1e-12, toler.chol = 1e-13)); list(coef = unname(coef(m)), se = unname(sqrt(diag(m$var))), n = m$n, events = m$nevent)
  }
  of <- if (any(d$entry >= d$time)) Surv(entry, time, status) ~ x + strata(site) else Surv(time, status) ~ x + strata(site)
  if (name == "separated") of <- Surv(time, status) ~ x + group + strata(site)
  curve <- function() { f <- survfit(Surv(time, status) ~ 1, data = d); list(last = tail(f$surv, 1), median = unname(summary(f)$table["median"])) }
  test <- function() { f <- survdiff(Surv(time, status) ~ group + strata(site), data = d); list(chisq = f$chisq, p = f$pvalue) }
  found[[name]] <- list(cox = said(cox(of)), curve = said(curve), test = said(test))
}
cat(toJSON(found, digits = 17, auto_unbox = TRUE, na = "null"), "\n")
