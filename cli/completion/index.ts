/**
 * `espalier __complete -- WORDS`: prints the candidates for the last word, one per line. Never fails, and takes at most
 * a second.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientCommand } from '../arguments.ts'
import type { Io } from '../io.ts'
import { wantedOf } from './candidates.ts'

const defaultLimitMs = 1000

type Commands = Readonly<Record<string, readonly [string, () => Promise<{ default: ClientCommand }>]>>

type CompletionOptions = {
  /** Names of the program's other commands (bin/main.ts). */
  others: readonly string[]
  /** The time limit. Default: 1 s. */
  limitMs?: number | undefined
}

export async function complete(
  io: Io,
  words: readonly string[],
  commands: Commands,
  { others, limitMs = defaultLimitMs }: CompletionOptions,
): Promise<void> {
  const current = words.at(-1) ?? ''
  const found = await Promise.race([
    candidates(io, words, commands, { others, limitMs }).catch(() => []),
    sleep(limitMs, undefined, { ref: false }).then(() => []),
  ])
  for (const word of found) if (word.startsWith(current)) io.output.write(`${word}\n`)
}

const valueAfter = (words: readonly string[], flag: string): string | undefined => words[words.indexOf(flag) + 1 || -1]

async function candidates(
  io: Io,
  [name = '', ...words]: readonly string[],
  commands: Commands,
  { others, limitMs }: CompletionOptions & { limitMs: number },
): Promise<readonly string[]> {
  if (words.length === 0) return [...Object.keys(commands), ...others].toSorted()
  // `espalier connect` completes like `espalier db connect`.
  const [, load] = commands[name === 'connect' ? 'db' : name] ?? []
  if (load === undefined) return []
  const command = (await load()).default({ io, rest: [], exitCode: 0 })
  const wanted = wantedOf(command, name === 'connect' ? ['connect', ...words] : words)
  if (wanted.kind === 'words') return wanted.words
  const { namesFor } = await import('./names.ts')
  const chosen = { profile: valueAfter(words, '--profile'), tenant: valueAfter(words, '--tenant') }
  return await namesFor(io, { ...wanted, ...chosen, timeoutMs: limitMs })
}
