/**
 * Runs the mutation tests. Arguments are names of groups, or files in groups; default: all groups. Stryker receives the
 * options.
 */
import { spawnSync } from 'node:child_process'
import { globSync } from 'node:fs'
import { groups } from './groups.ts'
import { forgetSurvivorsOfLoading } from './results.ts'

const commandLine = process.argv.slice(2)
const options = commandLine.filter(argument => argument.startsWith('-'))
const requested = commandLine.filter(argument => !argument.startsWith('-'))

const filesOf = (patterns: string[]): string[] => {
  const excluded = patterns.filter(pattern => pattern.startsWith('!')).map(pattern => pattern.slice(1))
  return globSync(patterns.filter(pattern => !pattern.startsWith('!')))
    .filter(path => !path.endsWith('.test.ts') && !excluded.includes(path))
    .sort()
}

/** Each group with its requested files. */
const runs = groups.flatMap(group => {
  const files = filesOf(group.files)
  if (requested.length === 0 || requested.includes(group.name)) return [{ group, files }]
  const some = files.filter(file => requested.includes(file))
  return some.length > 0 ? [{ group, files: some }] : []
})
const known = new Set(runs.flatMap(({ group, files }) => [group.name, ...files]))
const unknown = requested.filter(name => !known.has(name))
if (unknown.length > 0) {
  console.error(`no group or mutated file: ${unknown.join(', ')}. Groups: ${groups.map(({ name }) => name).join(', ')}`)
  process.exit(2)
}

let failed = 0
for (const { group, files } of runs) {
  console.log(`\n${group.name}: ${files.length} files`)
  forgetSurvivorsOfLoading(`mutants/reports/${group.name}.json`)
  const { status } = spawnSync(
    process.execPath,
    ['mutants/node_modules/@stryker-mutator/core/bin/stryker.js', 'run', 'mutants/stryker.config.mjs', ...options],
    {
      stdio: 'inherit',
      env: {
        ...process.env,
        MUTANTS_GROUP: group.name,
        MUTANTS_FILES: files.join(','),
        MUTANTS_RUNS: String(group.runs ?? 30),
        MUTANTS_TEST_LIMIT: process.env.MUTANTS_TEST_LIMIT ?? String(group.testLimit ?? 3_000),
        MUTANTS_TESTS: group.tests.join('\n'),
      },
    },
  )
  if (status !== 0) failed = 1
}
process.exitCode = failed
