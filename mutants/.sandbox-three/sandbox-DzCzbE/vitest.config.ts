// @ts-nocheck
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

const report = process.env.ESPALIER_TEST_REPORT

export default defineConfig({
  test: {
    include: ['**/*.test.ts'],
    exclude: [
      'node_modules/**',
      'mutants/{node_modules,.sandbox}/**',
      '.espalier/**',
      'e2e/kubernetes/**',
      'e2e/upgrade/**',
    ],
    pool: 'forks',
    // Much of it waits for Postgres: on two cores two files at once take little longer than one.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    testTimeout: 60_000,
    // A poll ends as soon as it holds; how long that takes is the machine's to say.
    expect: { poll: { timeout: 30_000 } },
    hookTimeout: 120_000,
    reporters: report ? ['default', ['json', { outputFile: report }]] : ['default'],
  },
})
