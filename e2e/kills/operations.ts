/**
 * The operations that rounds of kills request. Each operation waits for its Task, and can check and delete the objects
 * that it created.
 */
import type { Connection } from '../client.ts'
import { openTo } from '../client.ts'
import type { Window } from './history.ts'
import type { Requests, TaskEnd } from './requests.ts'
import type { Target } from './target.ts'
import type { Writers } from './writers.ts'

const minutes = (count: number): number => count * 60_000
/** The product's deadlines (operator/configuration.ts). A copy may first wait for a database that does not serve. */
const deadlines = {
  serve: minutes(10),
  change: minutes(10),
  delete: minutes(30),
  copy: minutes(20),
  restore: minutes(60),
}

/** A database with writers. `backup`: its newest backup, for restores. */
export type Written = {
  id: string
  name: string
  writers: Writers
  backup: { id: string; window: Window } | undefined
  isLarge: boolean
}
/** `check` and `remove` are called once all operations of the round have ended and the writers pause. */
export type Outcome = {
  operation: string
  ends: TaskEnd[]
  tookMs: number
  check?: () => Promise<string[]>
  remove?: () => Promise<void>
  restored?: Parameters<Writers['restoring']>[0] & { of: Writers }
}

export type Operation = () => Promise<Outcome>

export function createOperations(target: Target, requests: Requests) {
  const { request, read, ended } = requests
  const rules = openTo(target.clientAddress)

  async function follow(answer: { taskId: string | undefined }, withinMs: number): Promise<TaskEnd> {
    if (answer.taskId === undefined) throw new Error('the response names no task')
    return ended(answer.taskId, withinMs)
  }
  const connectionOf =
    (path: string) =>
    async (userType: string): Promise<Connection> => {
      const { connection } = await read<{ connection?: Connection }>(`${path}?user_type=${userType}`)
      if (connection === undefined) throw new Error(`no connection in ${path}`)
      return connection
    }
  const remove = (path: string) => async (): Promise<void> => {
    const answer = await request('DELETE', path)
    if (answer.taskId !== undefined) await follow(answer, deadlines.delete)
  }
  /** Sends the request, waits for the Task, and measures the time. */
  async function run<T>(operation: string, method: string, path: string, body: unknown, withinMs: number) {
    const began = performance.now()
    const answer = await request<T>(method, path, body)
    const end = await follow(answer, withinMs)
    const outcome: Outcome = { operation, ends: [end], tookMs: performance.now() - began }
    return { body: answer.body, outcome, isDone: end.status === 'succeeded' }
  }

  async function create(operation: string, name: string, more: object) {
    const body = { name, region: 'local', size: 'nano', pg_version: '17', ip_allowlist: rules, ...more }
    return run<{ id: string }>(operation, 'POST', '/databases', body, deadlines.change)
  }
  const act = (written: Written, action: string) =>
    run(action, 'POST', `/databases/${written.id}/${action}`, undefined, deadlines.change)

  return {
    connectionOf,
    remove,
    create,

    backup:
      (written: Written): Operation =>
      async () => {
        const from = written.writers.moment()
        const path = `/databases/${written.id}/backup`
        const { body, outcome, isDone } = await run<{ id: string }>(
          'backup',
          'POST',
          path,
          { kind: 'hot' },
          deadlines.copy,
        )
        const window = { from, to: written.writers.moment() }
        const old = written.backup
        if (!isDone) return outcome
        return {
          ...outcome,
          async check() {
            const { status } = await read<{ status: string }>(`/backups/${body.id}`)
            return status === 'completed' ? [] : [`the backup is ${status}`]
          },
          async remove() {
            written.backup = { id: body.id, window }
            if (old !== undefined) await remove(`/backups/${old.id}`)()
          },
        }
      },

    branch:
      (written: Written): Operation =>
      async () => {
        const from = written.writers.moment()
        const path = `/databases/${written.id}/branches`
        const { body, outcome, isDone } = await run<{ id: string }>('branch', 'POST', path, undefined, deadlines.copy)
        const window = { from, to: written.writers.moment() }
        const connection = connectionOf(`${path}/${body.id}`)
        const deleted = { ...outcome, remove: remove(`${path}/${body.id}`) }
        return isDone
          ? { ...deleted, check: () => written.writers.faultsOf(() => connection('admin'), window) }
          : deleted
      },

    empty:
      (name: string): Operation =>
      async () => {
        const { body, outcome } = await create('new database', name, {})
        return { ...outcome, remove: remove(`/databases/${body.id}`) }
      },

    copy: (written: Written, name: string): Operation | undefined => {
      const { backup } = written
      if (backup === undefined) return undefined
      return async () => {
        const made = await create('database of a backup', name, {
          source_backup_id: backup.id,
          // The new volume is as large as the volume of the backup.
          ...(written.isLarge ? { size: 'small' } : {}),
        })
        const path = `/databases/${made.body.id}`
        const deleted = { ...made.outcome, remove: remove(path) }
        const connection = connectionOf(path)
        return made.isDone
          ? { ...deleted, check: () => written.writers.faultsOf(() => connection('admin'), backup.window) }
          : deleted
      }
    },

    restore: (written: Written): Operation | undefined => {
      const { backup } = written
      if (backup === undefined) return undefined
      return async () => {
        const restored = { backup: backup.window, requested: written.writers.moment() }
        written.writers.restoring(restored)
        const path = `/databases/${written.id}/restore`
        const { outcome, isDone } = await run('restore', 'POST', path, { backup_id: backup.id }, deadlines.restore)
        return isDone ? { ...outcome, restored: { ...restored, of: written.writers } } : outcome
      }
    },

    rotate:
      (written: Written): Operation =>
      async () => {
        const path = `/databases/${written.id}/roles/app/rotate-password`
        return (await run('rotation', 'POST', path, undefined, deadlines.change)).outcome
      },

    /** Storage never shrinks, so only once per database. */
    resize: (written: Written): Operation | undefined => {
      if (written.isLarge) return undefined
      written.isLarge = true
      const path = `/databases/${written.id}/size`
      return async () => (await run('resize', 'POST', path, { size: 'small' }, deadlines.change)).outcome
    },

    suspend:
      (written: Written): Operation =>
      async () => {
        const suspended = await act(written, 'suspend')
        const resumed = await act(written, 'resume')
        const ends = [...suspended.outcome.ends, ...resumed.outcome.ends]
        const tookMs = suspended.outcome.tookMs + resumed.outcome.tookMs
        return { operation: 'suspend and resume', ends, tookMs }
      },
  }
}
export type Operations = ReturnType<typeof createOperations>
