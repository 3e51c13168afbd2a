/**
 * Reads the reports of test runs and prints the failures and a closing line, because often only the end of a long log
 * is kept. A skipped test is a failure unless docs/skipped-tests.md lists its name, so that no test is skipped
 * unnoticed. A run without tests, or a file without tests, is a failure too: its worker died before it had read the
 * file.
 */
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { listedSkips } from './listed-skips.ts'

const reportSchema = z.object({
  numFailedTestSuites: z.number(),
  testResults: z.array(
    z.object({
      name: z.string(),
      status: z.string(),
      message: z.string().optional(),
      assertionResults: z.array(
        z.object({ fullName: z.string(), status: z.string(), failureMessages: z.array(z.string()).default([]) }),
      ),
    }),
  ),
})

const paths = process.argv.slice(2)

function read(path: string): z.output<typeof reportSchema> | undefined {
  try {
    return reportSchema.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch (error) {
    console.log(`there is no readable test report: ${error instanceof Error ? error.message : String(error)}`)
    return undefined
  }
}

const reports = paths.map(read)
const files = reports.flatMap(report => report?.testResults ?? [])
const tests = files.flatMap(file => file.assertionResults)
const count = (...statuses: string[]): number => tests.filter(test => statuses.includes(test.status)).length
const skipped = tests.filter(test => test.status !== 'passed' && test.status !== 'failed')
const unlisted = skipped.filter(test => !listedSkips.has(test.fullName))
const brokenFiles = files.filter(
  file =>
    file.assertionResults.length === 0 ||
    (file.status === 'failed' && file.assertionResults.every(test => test.status !== 'failed')),
)
/** The part of a message that is enough to recognize the failure. */
const shownOf = (message: string): string => message.split('\n').slice(0, 12).join('\n').slice(0, 1_500)

for (const test of skipped)
  console.log(`skipped${listedSkips.has(test.fullName) ? '' : ', and not listed'}: ${test.fullName}`)
for (const file of brokenFiles) console.log(`did not run: ${file.name}`)
for (const file of files) {
  for (const test of file.assertionResults) {
    if (test.status === 'failed')
      console.log(`failed: ${file.name}: ${test.fullName}\n${test.failureMessages.map(shownOf).join('\n')}`)
  }
}

const passed = count('passed')
const missing = reports.filter(report => report === undefined).length
const failed = count('failed') + unlisted.length + brokenFiles.length + missing + (passed === 0 ? 1 : 0)
console.log(`${passed} passed, ${failed} failed`)
process.exitCode = failed === 0 ? 0 : 1
