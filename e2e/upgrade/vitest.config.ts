import { defineConfig } from 'vitest/config'

/** run.ts in this directory runs these tests, on a cluster with an older version. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['*.test.ts'],
    pool: 'forks',
    testTimeout: 1_200_000,
    hookTimeout: 600_000,
  },
})
