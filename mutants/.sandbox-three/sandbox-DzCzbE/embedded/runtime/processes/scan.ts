/**
 * Looks at all processes of the machine. A look reads a few files per process, so whoever asks while one is under way
 * shares the next: a hundred containers that end together cost two looks, not a hundred.
 */
// @ts-nocheck

import { setImmediate } from 'node:timers/promises'
import { isPostgres, link, listPids, type ProcessEntry, read, readProcess } from './table.ts'

/** How many processes are looked at before others get their turn in this thread. */
const slice = 128

/** Answers questions in batches: a batch is begun after its last question was asked, and after the one before it. */
function inBatches<Question, Answer>(
  answerAll: (questions: Question[]) => Promise<Answer[]>,
): (question: Question) => Promise<Answer> {
  let next: { questions: Question[]; answers: Promise<Answer[]> } | undefined
  let last: Promise<unknown> = Promise.resolve()
  return async question => {
    if (next === undefined) {
      const questions: Question[] = []
      const answers = last.then(setImmediate).then(() => {
        next = undefined
        return answerAll(questions)
      })
      last = answers.catch(() => {})
      next = { questions, answers }
    }
    const { questions, answers } = next
    const index = questions.push(question) - 1
    const answer = (await answers)[index]
    if (answer === undefined) throw new Error('a batch left a question open')
    return answer
  }
}

async function* pids(): AsyncGenerator<number> {
  for (const [index, pid] of listPids().entries()) {
    if (index > 0 && index % slice === 0) await setImmediate()
    yield pid
  }
}

async function readTable(): Promise<ProcessEntry[]> {
  const table: ProcessEntry[] = []
  for await (const pid of pids()) {
    const entry = readProcess(pid)
    if (entry !== undefined) table.push(entry)
  }
  return table
}

const readTableFor = inBatches(async (askers: undefined[]) => {
  const table = await readTable()
  return askers.map(() => table)
})

/** The process table, read after this was called. */
export const processesNow = (): Promise<ProcessEntry[]> => readTableFor(undefined)

/** What tells a process to be ours: a variable of its environment, or a Postgres working inside one of the directories. */
type Ownership = { marker: string; directories: string[] }

const isInside = (path: string, directory: string): boolean => path === directory || path.startsWith(`${directory}/`)

/**
 * Which of the questions a process is an answer to. Postgres overwrites the environment area of its children with their
 * titles, so those are known by executable and working directory instead (a shell that someone opened in a volume is
 * none of ours).
 */
function ownersOf(pid: number, questions: Ownership[], anyDirectory: boolean): number[] {
  const environment = new Set(read(`/proc/${pid}/environ`)?.split('\0'))
  const workingDirectory = anyDirectory ? link(`/proc/${pid}/cwd`)?.replace(/ \(deleted\)$/, '') : undefined
  return [...questions.entries()].flatMap(([index, { marker, directories }]) => {
    if (environment.has(marker)) return [index]
    if (workingDirectory === undefined) return []
    return directories.some(directory => isInside(workingDirectory, directory)) && isPostgres(pid) ? [index] : []
  })
}

/** Every process on the machine that is ours by `ownership` and still runs; never this one itself. */
export const findOwned = inBatches(async (questions: Ownership[]) => {
  const found: ProcessEntry[][] = questions.map(() => [])
  const anyDirectory = questions.some(({ directories }) => directories.length > 0)
  for await (const pid of pids()) {
    if (pid === process.pid) continue
    const owners = ownersOf(pid, questions, anyDirectory)
    if (owners.length === 0) continue
    const entry = readProcess(pid)
    if (entry === undefined || entry.state === 'Z' || entry.state === 'X') continue
    for (const index of owners) found[index]?.push(entry)
  }
  return found
})
