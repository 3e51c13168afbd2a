/**
 * Notices that the home of a running installation is gone: deleted, moved away, or replaced by another directory of the
 * name. What is written then reaches nobody, so the installation stops and says why.
 */
// @ts-nocheck

import { statSync } from 'node:fs'

type HomeWatch = {
  /** What is wrong at this moment; undefined while all is where it was. Once something is, it stays so. */
  check(): string | undefined
  /** Resolves with what is wrong as soon as something is. */
  gone: Promise<string>
  stop(): void
}

const everyMs = 1000

/** What tells a directory from every other one; undefined where there is none, or none that can be looked at. */
function identityOf(path: string): string | undefined {
  try {
    const { dev, ino } = statSync(path)
    return `${dev}/${ino}`
  } catch {
    return undefined
  }
}

/** Watches directories, which must be there now. */
export function watchHome(home: string, directories: readonly string[], intervalMs = everyMs): HomeWatch {
  const found = new Map([home, ...directories].map(path => [path, identityOf(path)]))
  const gone = Promise.withResolvers<string>()
  let failure: string | undefined

  function check(): string | undefined {
    if (failure !== undefined) return failure
    const missing = [...found].find(([path, identity]) => identityOf(path) !== identity)?.[0]
    if (missing === undefined) return undefined
    failure = `${missing} was deleted or moved while Espalier runs: nothing is kept any more. Put ${home} back from where it is, or from a copy, and start again`
    gone.resolve(failure)
    return failure
  }

  const timer = setInterval(check, intervalMs).unref()
  return { check, gone: gone.promise, stop: () => clearInterval(timer) }
}
