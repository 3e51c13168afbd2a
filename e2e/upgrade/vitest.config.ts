import { defineConfig } from 'vitest/config'

/** Run by run.ts in this directory, on a cluster with an older version. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['*.test.ts'],
    pool: 'forks',
    testTimeout: 1_200_000,
    hookTimeout: 600_000,
  },
})
