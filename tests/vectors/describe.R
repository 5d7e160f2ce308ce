suppressMessages({library(jsonlite); library(survival); library(MASS)})
# Rscript describe.R FOLDER OUT: birthwt, lung, colon, pbc as the tests find them, and where the values go
args <- commandArgs(TRUE); folder <- args[1]
f <- function(name) read.csv(file.path(folder, name))
out <- list(R = R.version.string)
b <- f("birthwt.csv")
q <- c(.25,.5,.75)
num <- function(x, g) { g <- factor(g); two <- nlevels(g) == 2
 list(n = as.vector(table(g[!is.na(x)])), mean = as.vector(tapply(x, g, mean, na.rm=TRUE)), sd = as.vector(tapply(x, g, sd, na.rm=TRUE)),
 t = if (two) t.test(x ~ g, var.equal=TRUE)$p.value else NULL, welch = if (two) t.test(x ~ g)$p.value else oneway.test(x ~ g)$p.value,
 anova = oneway.test(x ~ g, var.equal=TRUE)$p.value, ranks = if (two) wilcox.test(x ~ g, exact=FALSE, correct=FALSE)$p.value else kruskal.test(x, g)$p.value,
 type1 = as.vector(quantile(x, q, type=1, na.rm=TRUE)), type7 = as.vector(quantile(x, q, na.rm=TRUE))) }
cat2 <- function(x, g) { t <- table(x, g); list(counts = unclass(t), chi = suppressWarnings(chisq.test(t)$p.value), plain = suppressWarnings(chisq.test(t, correct=FALSE)$p.value), fisher = if (all(dim(t)==2)) fisher.test(t)$p.value else NULL) }
out$birthwt <- list(age = num(b$age, b$smoke), lwt = num(b$lwt, b$smoke), bwt = num(b$bwt, b$smoke), low = cat2(b$low, b$smoke), ui = cat2(b$ui, b$smoke), ht = cat2(b$ht, b$smoke), r = cor.test(b$age, b$lwt)$estimate[[1]], ci = as.vector(cor.test(b$age, b$lwt)$conf.int))
l <- f("lung.csv"); out$lung <- list(age = num(l$age, l$sex), wt.loss = num(l$wt.loss, l$sex), ph.ecog = cat2(l$ph.ecog, l$sex))
co <- f("colon.csv"); arm <- ifelse(co$lev5==1, "Lev+5FU", ifelse(co$lev==1, "Lev", "Obs")); out$colon <- list(age = num(co$age, arm), nodes = num(co$nodes, arm), differ = cat2(co$differ, arm), obstruct = cat2(co$obstruct, arm))
p <- f("pbc.csv"); out$pbc <- list(age = num(p$age, p$status), albumin = num(p$albumin, p$status), edema = cat2(p$edema, p$status))
# van Elteren within sites, two groups, by hand in R
ve <- function(x, g, s) { T <- 0; V <- 0; for (i in unique(s)) { k <- s==i & !is.na(x); r <- rank(x[k]); gg <- g[k]==sort(unique(g))[1]; n <- sum(k); m <- sum(gg); w <- 1/(n+1); ties <- table(x[k]); T <- T + w*(sum(r[gg]) - m*(n+1)/2); V <- V + w^2 * m*(n-m)/12*((n+1) - sum(ties^3-ties)/(n*(n-1))) }; pchisq(T^2/V, 1, lower.tail=FALSE) }
out$within <- list(bwt = ve(b$bwt, b$smoke, b$site), lwt = ve(b$lwt, b$smoke, b$site), age = ve(l$age, l$sex, l$site))
write_json(out, args[2], auto_unbox=TRUE, digits=NA, pretty=TRUE)
