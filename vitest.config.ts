import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { UnlistedSkips } from './.ci/reporter.ts'

const report = process.env.ESPALIER_TEST_REPORT

export default defineConfig({
  test: {
    include: ['**/*.test.ts'],
    exclude: [
      '**/node_modules/**',
      'mutants/.sandbox*/**',
      '.espalier/**',
      '.kind*/**',
      'e2e/kubernetes/**',
      'e2e/upgrade/**',
    ],
    pool: 'forks',
    // Node imports the modules itself. Vite's module runner took a tenth of the processor time.
    experimental: { viteModuleRunner: false },
    // Each worker loads a module once for all its test files: loading modules per file took a third of the time.
    isolate: false,
    // Many tests wait for Postgres or for time to pass, so two cores run three files at once.
    maxWorkers: Math.max(3, availableParallelism() - 1),
    testTimeout: 60_000,
    // `expect.poll` returns as soon as the expectation is met, so a long timeout costs nothing on a fast machine.
    expect: { poll: { timeout: 30_000 } },
    hookTimeout: 120_000,
    reporters: report
      ? ['default', ['json', { outputFile: report }], new UnlistedSkips()]
      : ['default', new UnlistedSkips()],
  },
})
