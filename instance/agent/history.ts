/**
 * The samples of the last two hours, oldest first. The agent also writes each sample to a file, as one line, so that a
 * restarted agent has the previous samples. The file has at most twice as many lines as there are retained samples. If
 * the file cannot be read or written, a restarted agent lacks previous samples.
 */

import { isRecord } from '../record.ts'
import { retainedSamples } from './contract.ts'
import { append, readBounded, replace } from './files.ts'
import { type Measure, measureNames, type Sample } from './measures.ts'

export type History = {
  add(sample: Sample): void
  /** Samples of this time and later, oldest first. */
  since(ms: number): Sample[]
  latest(): Sample | undefined
}

const mostFileBytes = 1024 * 1024

/** A line contains the names of the measures, because later releases may have another order of measures. */
const lineOf = ({ at, values }: Sample): string => `${JSON.stringify({ at, ...values })}\n`

/** Parses one line. Returns undefined for an invalid line, for example a truncated one. */
function sampleOf(line: string): Sample | undefined {
  try {
    const read: unknown = JSON.parse(line)
    if (!isRecord(read) || typeof read.at !== 'number') return undefined
    return { at: read.at, values: valuesIn(read) }
  } catch {
    return undefined
  }
}

/** The value of each measure in a record; null if it is missing. */
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
      .slice(-retainedSamples)
  } catch {
    // The file does not exist or cannot be read: the history starts empty.
  }
  const rewrite = () => {
    replace(path, samples.map(lineOf).join(''))
    lines = samples.length
  }
  const keep = (sample: Sample) => {
    if (lines === 0 || lines >= 2 * retainedSamples) return rewrite()
    append(path, lineOf(sample))
    lines += 1
  }
  return {
    add(sample) {
      samples = [...samples.slice(-(retainedSamples - 1)), sample]
      try {
        keep(sample)
      } catch {
        lines = 0 // the next successful write stores all samples again
      }
    },
    since: ms => samples.filter(({ at }) => at >= ms),
    latest: () => samples.at(-1),
  }
}
