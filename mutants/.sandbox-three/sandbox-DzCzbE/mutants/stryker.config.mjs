/** One group, as mutants/run.ts names it in the environment. */
// @ts-nocheck

const { MUTANTS_GROUP: group, MUTANTS_FILES: files = '', MUTANTS_CONCURRENCY: concurrency = '2' } = process.env

export default {
  mutate: files.split(','),
  plugins: ['./mutants/plugins.ts'],
  testRunner: 'warm',
  ignorers: ['prose', 'stand-ins'],
  // The type checker refuses those.
  mutator: { excludedMutations: ['OptionalChaining'] },
  // Stryker cannot read the configuration with the compiler that we have. It needs none.
  tsconfigFile: 'mutants/none.json',
  coverageAnalysis: 'perTest',
  concurrency: Number(concurrency),
  // What tests and hooks leave behind is gone now and then.
  maxTestRunnerReuse: 400,
  timeoutMS: 10_000,
  incremental: true,
  incrementalFile: `mutants/reports/${group}.json`,
  reporters: ['clear-text', 'progress-append-only'],
  clearTextReporter: { logTests: false, reportTests: false, allowEmojis: false },
  thresholds: { high: 95, low: 90, break: 90 },
  tempDirName: 'mutants/.sandbox',
  ignorePatterns: ['/.kind*', '/.espalier', '/docs', '/bench', '/images', '/mutants/reports'],
}
