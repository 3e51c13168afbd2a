/** `espalier instance import`: runs an import from the operator's configuration file, and writes its outcome. */
import { readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type ImportConfiguration, importFile } from './contract.ts'
import { runImport } from './run.ts'

/** @returns the exit code: 0 if everything was imported */
export async function runImportCommand(argv: readonly string[]): Promise<number> {
  const text = { type: 'string' } as const
  const { values } = parseArgs({ args: [...argv], options: { configuration: text, 'termination-message': text } })
  const { configuration: directory = '', 'termination-message': message } = values
  if (directory === '') throw new Error('--configuration is required')
  // The operator writes and validates this file.
  const configuration = JSON.parse(readFileSync(join(directory, importFile), 'utf8')) as ImportConfiguration
  const stopped = new AbortController()
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.once(signal, () => stopped.abort(new Error('the import was stopped')))
  const outcome = await runImport(configuration, { directory: join(tmpdir(), 'import'), signal: stopped.signal })
  const line = JSON.stringify(outcome)
  process.stdout.write(`${line}\n`)
  if (message !== undefined) writeFileSync(message, line)
  return 'result' in outcome ? 0 : 1
}
