# The project's front door. Everything runs with the Node 24 that comes with the packages.
NODE := node_modules/.bin/node
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
INSTALLED := node_modules/.installed

.PHONY: run demo token pgvector test pair mutants check format bench crds install images kind-up kind-install kind-down e2e e2e-upgrade soak
.DEFAULT_GOAL := help

help:
	@echo 'make run      start Espalier on this machine'
	@echo 'make token    print a new access token for it'
	@echo 'make pgvector  add pgvector to the Postgres of this machine'
	@echo 'make demo     play the tour of the README by itself'
	@echo 'make test     run the tests; ARGS=path runs some'
	@echo 'make pair     start PostgREST beside the REST service; CONTRIBUTING.md says what for'
	@echo 'make mutants  break what decides in small ways, and see a test fail; ARGS=name runs some'
	@echo 'make check    check types, format and lint'
	@echo 'make format   format the code'
	@echo 'make bench    measure; bench/README.md has the figures'
	@echo 'make crds     write the CRDs from crds/'
	@echo 'make images   build the container images'
	@echo 'make e2e      run the end-to-end suite; PROVIDER=kind runs it on a kind cluster'
	@echo 'make e2e-upgrade FROM=REVISION  test the upgrade from there, on a kind cluster of its own'
	@echo 'make soak FROM=REVISION  run all tests and the suite on kind with what takes long, then the upgrade'
	@echo 'make kind-up  make a kind cluster on this machine'
	@echo 'make kind-install  install Espalier on that cluster'
	@echo 'make kind-down  remove that cluster'

$(INSTALLED): package.json package-lock.json .npmrc
	@echo 'Installing what Espalier runs with, once: half a minute or so.' >&2
	@npm ci --prefer-offline --loglevel=error --no-progress >&2
	@touch $@

install: $(INSTALLED)

run: $(INSTALLED)
	@exec $(NODE) bin/espalier.mjs run

token: $(INSTALLED)
	@exec $(NODE) bin/espalier.mjs token $(ARGS)

pgvector: $(INSTALLED)
	@exec $(NODE) bin/espalier.mjs pgvector

demo: $(INSTALLED)
	@exec $(NODE) bin/espalier.mjs demo

test: $(INSTALLED)
	@exec $(NODE) node_modules/vitest/vitest.mjs run $(ARGS)

pair: $(INSTALLED)
	@exec $(NODE) services/rest/testing/pair.ts $(ARGS)

# A package of its own: nobody else needs what it takes.
MUTANTS := mutants/node_modules/.installed
$(MUTANTS): mutants/package.json mutants/package-lock.json mutants/.npmrc
	@cd mutants && npm ci --prefer-offline --loglevel=error --no-progress >&2
	@touch $@

mutants: $(INSTALLED) $(MUTANTS)
	@exec $(NODE) mutants/run.ts $(ARGS)

check: $(INSTALLED)
	@tsc --noEmit
	@biome check --error-on-warnings .

format: $(INSTALLED)
	@biome check --write .

bench: $(INSTALLED)
	@exec $(NODE) bench/run.ts $(ARGS)

crds: $(INSTALLED)
	@$(NODE) crds/generate.ts

images: $(INSTALLED)
	@exec $(NODE) images/build.ts $(ARGS)

kind-up: $(INSTALLED)
	@exec $(NODE) e2e/kind/up.ts

kind-install: $(INSTALLED)
	@exec $(NODE) e2e/kind/deploy.ts

kind-down: $(INSTALLED)
	@exec $(NODE) e2e/kind/down.ts

PROVIDER ?= embedded
e2e: $(INSTALLED)
	@exec $(NODE) e2e/run.ts $(PROVIDER) $(ARGS)

e2e-upgrade: $(INSTALLED)
	@exec $(NODE) e2e/upgrade/run.ts $(FROM)

soak: $(INSTALLED)
	@ESPALIER_SOAK=1 $(NODE) node_modules/vitest/vitest.mjs run
	@ESPALIER_SOAK=1 $(NODE) e2e/run.ts kind $(ARGS)
	@exec $(NODE) e2e/upgrade/run.ts $(FROM)
