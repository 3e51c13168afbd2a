import { defineConfig } from 'vitest/config'

const report = process.env.ESPALIER_TEST_REPORT
/** What takes many minutes, on a kubelet's clock or by its number: `make soak` runs it too. */
const long = ['authority', 'copies', 'killed-operator', 'kills', 'room'].map(name => `kubernetes/${name}.test.ts`)

/** The suite on a cluster: one file after another, since some of them take parts of the cluster away. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: [
      'autogrow.test.ts',
      'backup.test.ts',
      'branch.test.ts',
      'database.test.ts',
      'healing.test.ts',
      'logs.test.ts',
      'restore.test.ts',
      'rotation.test.ts',
      'suspend.test.ts',
      'kubernetes/*.test.ts',
    ],
    exclude: process.env.ESPALIER_SOAK === undefined ? long : [],
    pool: 'forks',
    fileParallelism: false,
    testTimeout: 240_000,
    hookTimeout: 240_000,
    globalSetup: ['kubernetes/audit.ts'],
    reporters: report ? ['default', ['json', { outputFile: report }]] : ['default'],
  },
})
