/** Configures Stryker for one group. mutants/run.ts passes the group in environment variables. */
const { MUTANTS_GROUP: group, MUTANTS_FILES: files = '', MUTANTS_CONCURRENCY: concurrency = '2' } = process.env

export default {
  mutate: files.split(','),
  plugins: ['./mutants/plugins.ts'],
  testRunner: 'warm',
  ignorers: ['prose', 'stand-ins'],
  // The type checker rejects most mutants of optional chaining.
  mutator: { excludedMutations: ['OptionalChaining'] },
  // Stryker cannot read the configuration with this compiler version, and does not need it.
  tsconfigFile: 'mutants/none.json',
  coverageAnalysis: 'perTest',
  concurrency: Number(concurrency),
  // A restart of the runner frees memory that tests and hooks retain.
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
