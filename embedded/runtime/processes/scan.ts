/**
 * Reads all processes of the machine. A scan reads a few files per process. Callers that arrive during a scan share the
 * next scan: a hundred containers that end together cost two scans, not a hundred.
 */
import { setImmediate } from 'node:timers/promises'
import { isPostgres, link, listPids, type ProcessEntry, read, readProcess } from './table.ts'

/** The number of processes that are read before other work of this thread continues. */
const slice = 128

/** Answers queries in batches. A batch starts after its last query and after the end of the previous batch. */
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
    if (answer === undefined) throw new Error('a batch left a query unanswered')
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

const readTableFor = inBatches(async (callers: undefined[]) => {
  const table = await readTable()
  return callers.map(() => table)
})

/** Returns the process table, read after this call. */
export const processesNow = (): Promise<ProcessEntry[]> => readTableFor(undefined)

/**
 * Identifies the runtime's processes: by a variable in their environment, or as a Postgres that works inside one of the
 * directories.
 */
type Ownership = { marker: string; directories: string[] }

const isInside = (path: string, directory: string): boolean => path === directory || path.startsWith(`${directory}/`)

/**
 * Returns the queries that a process matches. Postgres overwrites the environment area of its children with their
 * titles, so these children are identified by executable and working directory. A user's shell in a volume does not
 * match.
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

/** All running processes of the machine that match `ownership`, except this one. */
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
