/** Credential files for tests, in a temporary directory. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DestinationStream, type Logger, pino } from 'pino'
import type { HttpSettings } from '../../configuration/types.ts'

export type Folder = {
  readonly path: string
  readonly tokenFile: string
  readonly userFile: string
  remove(): void
}

export function makeFolder(): Folder {
  const path = mkdtempSync(join(tmpdir(), 'espalier-mcp-credentials-'))
  return {
    path,
    tokenFile: join(path, 'tokens.yaml'),
    userFile: join(path, 'users.yaml'),
    remove: () => rmSync(path, { recursive: true, force: true }),
  }
}

export const settingsOf = (
  { tokenFile, userFile }: Folder,
  change: Partial<HttpSettings['authentication']> = {},
): HttpSettings['authentication'] => ({
  enabled: true,
  tokenFile,
  userFile,
  rateLimitWindowMinutes: 15,
  rateLimitMaximumAttempts: 10,
  maximumFailedAttemptsBeforeLockout: 0,
  ...change,
})

export function recordingLogger(): { logger: Logger; lines: string[] } {
  const lines: string[] = []
  const destination: DestinationStream = { write: line => void lines.push(line) }
  return { logger: pino({ level: 'debug' }, destination), lines }
}
