import { defineConfig } from 'vitest/config'

const report = process.env.ESPALIER_TEST_REPORT

export default defineConfig({
  test: {
    include: ['**/*.test.ts'],
    exclude: ['node_modules/**', '.espalier/**', 'e2e/kubernetes/**', 'e2e/upgrade/**'],
    pool: 'forks',
    testTimeout: 60_000,
    hookTimeout: 120_000,
    reporters: report ? ['default', ['json', { outputFile: report }]] : ['default'],
  },
})
