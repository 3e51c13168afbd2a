# Entry points of the project. Everything runs with the Node 24 that comes with the packages.
NODE := node_modules/.bin/node
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
INSTALLED := node_modules/.installed
# The names under which a shell and kubectl find our command line. npm creates such links only for dependencies.
LINKS := $(addprefix node_modules/.bin/,espalier kubectl-espalier kubectl_complete-espalier)
CONSOLE := console/node_modules/.installed
BUILT := console/dist/index.html
SOURCES := console/index.html $(wildcard console/*.ts) $(shell find console/src console/public -type f ! -name '*.test.ts')

.PHONY: run demo token pgvector test pair mutants check format bench crds reference site console console-screenshots console-types install images kind-up kind-install kind-down e2e e2e-upgrade soak
.DEFAULT_GOAL := help

help:
	@echo 'make run      start Espalier on this machine'
	@echo 'make token    print a new access token for it'
	@echo 'make pgvector  add pgvector to the Postgres of this machine'
	@echo 'make demo     run docs/tour.md automatically'
	@echo 'make test     run the tests; ARGS=path runs some'
	@echo 'make pair     start PostgREST next to the REST service; see CONTRIBUTING.md'
	@echo 'make mutants  run mutation tests of decisions; ARGS=name runs some'
	@echo 'make check    check types, format, lint and prose'
	@echo 'make format   format the code'
	@echo 'make bench    measure; bench/README.md has the figures'
	@echo 'make crds     write the CRDs from crds/'
	@echo 'make reference  write the generated pages of docs/reference'
	@echo 'make site     build the static site of the documents into site/.vitepress/dist'
	@echo 'make console  build the web console into console/dist; make run does it in the background'
	@echo 'make console-screenshots  save images of the console in docs/images; needs Chromium'
	@echo 'make console-types  write the types of the API for the console'
	@echo 'make images   build the container images'
	@echo 'make e2e      run the end-to-end suite; PROVIDER=kind runs it on a kind cluster'
	@echo 'make e2e-upgrade FROM=REVISION  test the upgrade from that revision, on a separate kind cluster'
	@echo 'make soak FROM=REVISION  run all tests and the suite on kind including long ones, then the upgrade'
	@echo 'make kind-up  create a kind cluster on this machine'
	@echo 'make kind-install  install Espalier on that cluster'
	@echo 'make kind-down  remove that cluster'

$(INSTALLED): package.json package-lock.json .npmrc
	@flock package-lock.json sh -ec '\
	  for file in $^; do [ $@ -nt $$file ] || old=1; done; [ -n "$$old" ] || exit 0; \
	  if $(NODE) .ci/same-packages.mjs 2>/dev/null; then touch $@; exit 0; fi; \
	  echo "Installing the packages of Espalier, once. It takes about half a minute." >&2; \
	  npm ci --prefer-offline --loglevel=error --no-progress >&2; \
	  touch $@'

$(LINKS): | $(INSTALLED)
	@ln -sf ../../bin/$(or $(filter kubectl_complete-%,$(@F)),espalier) $@

install: $(INSTALLED) $(LINKS)

# Recipes must not contain `$(MAKE)`: make runs such lines even for `make -n run`.
run: export MAKE_PROGRAM := $(MAKE)
# Builds the console in the background, because the start must not wait, and without a registry the build cannot succeed.
run: $(INSTALLED) $(LINKS)
	@"$$MAKE_PROGRAM" --question --silent $(BUILT) 2>/dev/null || { \
	  echo 'Building the console in the background. It will be at /console.' >&2; \
	  { "$$MAKE_PROGRAM" --silent console >console/build.log 2>&1 || \
	    echo 'The console could not be built (console/build.log). `make console` builds it.' >&2; } & }; \
	exec $(NODE) bin/espalier.mjs run

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

# A separate package, because only the mutation tests need its dependencies.
MUTANTS := mutants/node_modules/.installed
$(MUTANTS): mutants/package.json mutants/package-lock.json mutants/.npmrc
	@cd mutants && npm ci --prefer-offline --loglevel=error --no-progress >&2
	@touch $@

mutants: $(INSTALLED) $(MUTANTS)
	@exec $(NODE) mutants/run.ts $(ARGS)

check: $(INSTALLED) $(CONSOLE)
	@tsc --noEmit
	@tsc --noEmit --project console
	@tsc --noEmit --project console/browser
	@biome check --error-on-warnings .
	@$(NODE) .ci/prose.ts

format: $(INSTALLED)
	@biome check --write .

bench: $(INSTALLED)
	@exec $(NODE) bench/run.ts $(ARGS)

crds: $(INSTALLED)
	@$(NODE) crds/generate.ts

# A separate package, like mutants.
SITE := site/node_modules/.installed
$(SITE): site/package.json site/package-lock.json site/.npmrc
	@cd site && npm ci --prefer-offline --loglevel=error --no-progress >&2
	@touch $@

site: $(INSTALLED) $(SITE)
	@rm -rf site/.pages && cp -R docs site/.pages
	@cd site && $(CURDIR)/$(NODE) node_modules/vitepress/bin/vitepress.js build .

# A separate package, like mutants.
$(CONSOLE): console/package.json console/package-lock.json console/.npmrc
	@cd console && npm ci --prefer-offline --fetch-retries=1 --loglevel=error --no-progress >&2
	@touch $@

$(BUILT): $(CONSOLE) $(SOURCES)
# Ignores the caller's NODE_ENV, because NODE_ENV=test would cause a development build.
	@cd console && NODE_ENV=production $(CURDIR)/$(NODE) node_modules/vite/bin/vite.js build --logLevel warn
	@touch $@

console: $(INSTALLED) $(BUILT)

console-screenshots: console
	@mkdir -p docs/images
	@ESPALIER_SOAK=1 ESPALIER_SCREENSHOTS=docs/images $(NODE) node_modules/vitest/vitest.mjs run --testTimeout=120000 console/browser/rows.test.ts

console-types: $(INSTALLED) $(CONSOLE)
	@$(NODE) console/generate.ts

reference: $(INSTALLED)
	@$(NODE) site/generate.ts

images: $(INSTALLED)
	@$(MAKE) --silent console || echo 'images: the console could not be built' >&2
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
	@$(MAKE) site
	@ESPALIER_SOAK=1 $(NODE) node_modules/vitest/vitest.mjs run
	@ESPALIER_SOAK=1 $(NODE) e2e/run.ts kind $(ARGS)
	@exec $(NODE) e2e/upgrade/run.ts $(FROM)
