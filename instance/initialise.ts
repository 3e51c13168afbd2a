/** Runs initdb in a temporary directory. When this returns, the data directory is complete and on disk. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { readIfPresent } from './files.ts'
import { Refusal } from './refusal.ts'

/** Time limit of initdb, which takes a second, or a minute on a very slow disk. */
const timeoutMs = 10 * 60_000

/**
 * The locale is C.UTF-8: its order is by code point and never changes under an index, whatever the machine's libraries.
 * From 17 on, Postgres has its own implementation; 16 uses the C library, which sorts in the same way. Text search uses
 * English, as on most systems. Every login is refused until Espalier's pg_hba.conf is written.
 */
function initdbArguments(directory: string, pgVersion: string): string[] {
  const builtin = Number(pgVersion) >= 17
  return [
    `--pgdata=${directory}`,
    '--username=postgres',
    '--auth=reject',
    '--encoding=UTF8',
    '--locale=C.UTF-8',
    '--lc-messages=C',
    ...(builtin ? ['--locale-provider=builtin', '--builtin-locale=C.UTF-8'] : ['--locale-provider=libc']),
    '--text-search-config=pg_catalog.english',
    '--data-checksums',
    '--no-instructions',
  ]
}

/**
 * Runs the initdb that is found on the path. initdb syncs the tree itself before it ends.
 * @throws Refusal `initdb-failed`, `disk-full`, `wrong-version`
 */
export function initialise(directory: string, pgVersion: string): void {
  const result = spawnSync('initdb', initdbArguments(directory, pgVersion), {
    // Without TZ, initdb would try every time zone to find the machine's time zone.
    env: { ...process.env, TZ: 'UTC' },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
  })
  if (result.error) throw new Refusal('initdb-failed', `initdb could not be run: ${result.error.message}`)
  if (result.status !== 0) {
    const lines = result.stderr.split('\n').filter(line => /error|fatal|panic/i.test(line))
    const reason =
      lines.at(-1) ?? (result.stderr.trim().split('\n').at(-1) || `it ended by ${result.signal ?? result.status}`)
    const full = /No space left on device|Disk quota exceeded/i.test(result.stderr)
    throw new Refusal(full ? 'disk-full' : 'initdb-failed', `initdb failed: ${reason.trim()}`)
  }
  const version = readIfPresent(join(directory, 'PG_VERSION'))?.trim()
  if (version !== pgVersion) {
    throw new Refusal('wrong-version', `this image contains Postgres ${version}, the database needs ${pgVersion}`)
  }
}
