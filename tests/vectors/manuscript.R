# Rscript manuscript.R FOLDER OUT: what R says of the tables that docs/howto/manuscript.md makes, all hospitals in one table
suppressMessages({library(jsonlite); library(survival); library(lmerTest)})
args <- commandArgs(TRUE); sites <- c("north", "south", "west")
joint <- function(end) do.call(rbind, lapply(sites, function(s) cbind(read.csv(file.path(args[1], paste0(s, end))), site = s)))
d <- joint(".csv"); v <- joint("-visits.csv")
table <- function(x) list(mean = as.vector(tapply(x, d$arm, mean)), sd = as.vector(tapply(x, d$arm, sd)))
curve <- summary(survfit(Surv(years, died) ~ arm, d), times = c(2, 4, 6, 8, 10))
test <- survdiff(Surv(years, died) ~ arm + strata(site), d)
cox <- summary(coxph(Surv(years, died) ~ age + edema + log(bili) + log(albumin) + log(protime) + strata(site), d, control = coxph.control(eps = 1e-13)))
mixed <- lmer(log(bili) ~ year * arm + (year | id), v, control = lmerControl("bobyqa", optCtrl = list(rhoend = 1e-10, maxfun = 1e5)))
out <- list(R = R.version.string, survival = as.character(packageVersion("survival")), lme4 = as.character(packageVersion("lme4")),
  lmerTest = as.character(packageVersion("lmerTest")),
  n = as.vector(base::table(d$arm)), women = as.vector(base::table(d$arm[d$sex == "f"])), age = table(d$age), bili = table(d$bili),
  protime = lapply(split(d$protime, d$arm), function(x) as.vector(quantile(x, c(.25, .5, .75), type = 1))),
  survival_at = matrix(curve$surv, 2, byrow = TRUE), survival_error = matrix(curve$std.err, 2, byrow = TRUE), log_rank = test$chisq,
  cox = list(coef = cox$coefficients[, "coef"], se = cox$coefficients[, "se(coef)"], ratio = cox$conf.int[, -2],
    concordance = cox$concordance[[1]], tests = c(cox$logtest[[1]], cox$waldtest[[1]], cox$sctest[[1]])),
  mixed = list(table = unname(coef(summary(mixed))[, 1:3]), sd = as.data.frame(VarCorr(mixed))$sdcor, criterion = REMLcrit(mixed)))
write_json(out, args[2], auto_unbox = TRUE, digits = NA, pretty = TRUE)
