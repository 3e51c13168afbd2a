/**
 * Detects that the home directory of a running installation is missing: deleted, moved, or replaced by another
 * directory of the same name. Then all further writes would be lost, so the installation stops and reports the reason.
 */
import { statSync } from 'node:fs'

type HomeWatch = {
  /** The current problem; undefined if all directories are in place. A problem is permanent. */
  check(): string | undefined
  /** Resolves with the first problem. */
  whenMissing: Promise<string>
  stop(): void
}

const everyMs = 1000

/** Identifies a directory; undefined if there is none or it cannot be read. */
function identityOf(path: string): string | undefined {
  try {
    const { dev, ino } = statSync(path)
    return `${dev}/${ino}`
  } catch {
    return undefined
  }
}

/** Watches directories, which must exist now. */
export function watchHome(home: string, directories: readonly string[], intervalMs = everyMs): HomeWatch {
  const found = new Map([home, ...directories].map(path => [path, identityOf(path)]))
  const whenMissing = Promise.withResolvers<string>()
  let failure: string | undefined

  function check(): string | undefined {
    if (failure !== undefined) return failure
    const missing = [...found].find(([path, identity]) => identityOf(path) !== identity)?.[0]
    if (missing === undefined) return undefined
    failure = `${missing} was deleted or moved while Espalier runs: new data would be lost. Move ${home} back or restore it from a copy, then start again`
    whenMissing.resolve(failure)
    return failure
  }

  const timer = setInterval(check, intervalMs).unref()
  return { check, whenMissing: whenMissing.promise, stop: () => clearInterval(timer) }
}
