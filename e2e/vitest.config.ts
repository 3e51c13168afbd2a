import { defineConfig } from 'vitest/config'

const report = process.env.ESPALIER_TEST_REPORT
/** Tests that take many minutes, because of a kubelet's timing or the number of rounds. `make soak` runs them too. */
const long = [
  ...['archive', 'authority', 'copies', 'import', 'killed-operator', 'kills', 'room'],
  ...['services-evicted', 'services-killed', 'services-lifecycle'],
].map(name => `kubernetes/${name}.test.ts`)

/** The suite on a cluster: one file after another, since some of them stop parts of the cluster. */
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
      'sql.test.ts',
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
