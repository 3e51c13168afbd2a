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
    // What a file imports is loaded once for all files of a worker: loading it again took as long as a third of the tests.
    isolate: false,
    // Much of it waits for Postgres and for time to pass: three files at once on two cores.
    maxWorkers: Math.max(3, availableParallelism() - 1),
    testTimeout: 60_000,
    // A poll ends as soon as it holds; how long that takes is the machine's to say.
    expect: { poll: { timeout: 30_000 } },
    hookTimeout: 120_000,
    reporters: report
      ? ['default', ['json', { outputFile: report }], new UnlistedSkips()]
      : ['default', new UnlistedSkips()],
  },
})
