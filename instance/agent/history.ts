/**
 * The samples of the last two hours, oldest first. They are in a file too, a line each, so that the agent goes on with them
 * when it was started anew; at most twice as many lines as there are samples. A file that cannot be read or written costs
 * what was before, and nothing else.
 */

import { isRecord } from '../record.ts'
import { samplesKept } from './contract.ts'
import { append, readBounded, replace } from './files.ts'
import { type Measure, measureNames, type Sample } from './measures.ts'

export type History = {
  add(sample: Sample): void
  /** Those of this time and later, oldest first. */
  since(ms: number): Sample[]
  latest(): Sample | undefined
}

const mostFileBytes = 1024 * 1024

/** Its names as well: what a later release measures has another order. */
const lineOf = ({ at, values }: Sample): string => `${JSON.stringify({ at, ...values })}\n`

/** One line; undefined for one that was cut off. */
function sampleOf(line: string): Sample | undefined {
  try {
    const read: unknown = JSON.parse(line)
    if (!isRecord(read) || typeof read.at !== 'number') return undefined
    return { at: read.at, values: valuesIn(read) }
  } catch {
    return undefined
  }
}

/** What a record says of each measure; null for what it does not. */
export function valuesIn(record: Record<string, unknown>): Record<Measure, number | null> {
  const entries = measureNames.map(name => {
    const value = record[name]
    return [name, typeof value === 'number' && Number.isFinite(value) ? value : null]
  })
  return Object.fromEntries(entries)
}

export function openHistory(path: string): History {
  let samples: Sample[] = []
  let lines = 0
  try {
    samples = readBounded(path, mostFileBytes)
      .split('\n')
      .flatMap(line => sampleOf(line) ?? [])
      .slice(-samplesKept)
  } catch {
    // There are none, or none that could be read: it begins anew.
  }
  const rewrite = () => {
    replace(path, samples.map(lineOf).join(''))
    lines = samples.length
  }
  const keep = (sample: Sample) => {
    if (lines === 0 || lines >= 2 * samplesKept) return rewrite()
    append(path, lineOf(sample))
    lines += 1
  }
  return {
    add(sample) {
      samples = [...samples.slice(-(samplesKept - 1)), sample]
      try {
        keep(sample)
      } catch {
        lines = 0 // whole again, once it can be written
      }
    },
    since: ms => samples.filter(({ at }) => at >= ms),
    latest: () => samples.at(-1),
  }
}
