//! Hosts of code, registries of packages, and what builds and checks.

use crate::alphabet::{ALNUM, ANY_HEX, DOTTED, HEX, LOWER, URL64, WORD};
use crate::rule::{OPEN, Piece, Rule, rule, run};

/// Behind the body of a token of Atlassian: a checksum.
const CHECKSUM: &[Piece] = &[Piece::Text("="), Piece::Run(run(ANY_HEX, 8, 8))];

pub(super) const RULES: &[Rule] = &[
    rule("github token", "ghp_", ALNUM, 36, 255),
    rule("github token", "gho_", ALNUM, 36, 255),
    rule("github token", "ghu_", ALNUM, 36, 255),
    rule("github token", "ghs_", ALNUM, 36, 255),
    rule("github token", "ghr_", ALNUM, 36, 255),
    rule("github token", "github_pat_", WORD, 40, 255),
    // Our own, for the server.
    rule("rethread token", "rtk_", HEX, 64, 64),
    rule("gitlab token", "glpat-", DOTTED, 20, 300),
    rule("gitlab token", "gldt-", URL64, 20, 64),
    rule("gitlab token", "glrt-", DOTTED, 20, 64),
    rule("gitlab token", "glptt-", HEX, 40, 40),
    rule("gitlab token", "glcbt-", URL64, 20, 64),
    rule("gitlab token", "glft-", URL64, 20, 64),
    rule("gitlab token", "glimt-", URL64, 20, 64),
    rule("gitlab token", "glsoat-", URL64, 20, 64),
    rule("gitlab token", "glagent-", URL64, 50, 64),
    rule("gitlab token", "gloas-", HEX, 64, 64),
    rule("bitbucket token", "ATBB", ALNUM, 32, 40),
    rule("bitbucket token", "ATCTT3", URL64, 100, 300).then(CHECKSUM),
    rule("atlassian token", "ATATT3", URL64, 100, 300).then(CHECKSUM),
    rule("npm token", "npm_", ALNUM, 36, 36),
    rule("pypi token", "pypi-", URL64, 50, 300),
    rule("crates.io token", "cio", ALNUM, 32, 32),
    rule("rubygems key", "rubygems_", HEX, 48, 48),
    rule("docker token", "dckr_pat_", URL64, 27, 36),
    rule("docker token", "dckr_oat_", URL64, 27, 36),
    rule("nuget key", "oy2", LOWER, 43, 43),
    rule("clojars token", "CLOJARS_", LOWER, 60, 60),
    rule("artifactory key", "AKCp", ALNUM, 69, 80),
    rule("artifactory token", "cmVmdGtuO", ALNUM, 50, 60),
    rule("circleci token", "CCIPAT_", ALNUM, 20, 24)
        .then(&[Piece::Text("_"), Piece::Run(run(HEX, 40, 40))]),
    rule("buildkite token", "bkua_", HEX, 40, 40),
    rule("sonarqube token", "squ_", HEX, 40, 40),
    rule("sonarqube token", "sqp_", HEX, 40, 40),
    rule("sonarqube token", "sqa_", HEX, 40, 40),
    rule("sourcegraph token", "sgp_", WORD, 40, 80),
    rule("deno token", "ddp_", ALNUM, 36, 36),
    rule("pulumi token", "pul-", HEX, 40, 40),
    rule("terraform token", ".atlasv1.", URL64, 60, 70).after(run(ALNUM, 14, 14)),
    rule("infracost key", "ico-", ALNUM, 32, 32),
    rule("prefect key", "pnu_", ALNUM, 36, 36),
    rule("readme key", "rdme_", LOWER, 70, 70),
    rule("postman key", "PMAK-", HEX, 24, 24)
        .then(&[Piece::Text("-"), Piece::Run(run(HEX, 34, 34))]),
    // Header, claims and signature: the first two are JSON, so they begin alike.
    rule("json web token", "eyJ", URL64, 10, OPEN).then(&[
        Piece::Text(".eyJ"),
        Piece::Run(run(URL64, 4, OPEN)),
        Piece::Text("."),
        Piece::Run(run(URL64, 16, OPEN)),
    ]),
];
