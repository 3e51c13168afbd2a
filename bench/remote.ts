/**
 * Lets a child process use a `Cluster` and a `PostgresAccess` of its parent, so that the operator can run in a separate
 * process. Each call and each result is a JSON message, as with an API server.
 */
import type { ChildProcess } from 'node:child_process'
import { type Cluster, ClusterError, isClusterError, type WatchOptions } from '../cluster/index.ts'
import type { PostgresAccess } from '../operator/member/postgres/access.ts'
import { PostgresError } from '../operator/postgres/errors.ts'
import { isRecord } from '../values/record.ts'

type Target = 'cluster' | 'postgres'
type Failure =
  | { of: 'cluster'; reason: ClusterError['reason']; message: string }
  | { of: 'postgres'; reason: PostgresError['reason']; message: string; code?: string | undefined }
  | { of: 'other'; message: string }
type Request =
  | { id: number; target: Target; method: string; args: unknown[] }
  | { id: number; watch: { kind: string; options: Omit<WatchOptions, 'signal'> } }
  | { id: number; abort: true }
type Reply =
  | { id: number; value: unknown }
  | { id: number; failure: Failure }
  | { id: number; event: unknown }
  | { id: number; end: true }

/** A message has this text in place of an AbortSignal, which neither side needs. */
const signalPlaceholder = 'signal'
/** A message has this object in place of a function that reads a value. */
type ReadValue = { read: unknown }

/** Converts an argument to data. A function among the arguments only reads a value, so the child can call it now. */
async function sent(argument: unknown): Promise<unknown> {
  if (argument instanceof AbortSignal) return signalPlaceholder
  return typeof argument === 'function' ? ({ read: await argument() } satisfies ReadValue) : argument
}

function received(argument: unknown): unknown {
  if (argument === signalPlaceholder) return new AbortController().signal
  return isRecord(argument) && 'read' in argument ? async () => argument.read : argument
}

type Method = (...args: unknown[]) => Promise<unknown>

function failureOf(error: unknown): Failure {
  if (isClusterError(error)) return { of: 'cluster', reason: error.reason, message: error.message }
  if (error instanceof PostgresError) {
    return { of: 'postgres', reason: error.reason, message: error.message, code: error.code }
  }
  return { of: 'other', message: error instanceof Error ? error.message : String(error) }
}

function errorOf(failure: Failure): Error {
  if (failure.of === 'cluster') return new ClusterError(failure.reason, failure.message)
  if (failure.of === 'postgres') return new PostgresError(failure.reason, failure.message, failure.code)
  return new Error(failure.message)
}

/** Runs in the parent: executes the child's calls. */
export function serve(child: ChildProcess, cluster: Cluster, postgres: PostgresAccess): void {
  const targets = { cluster, postgres } as unknown as Record<Target, Record<string, Method>>
  const watches = new Map<number, AbortController>()
  const reply = (message: Reply) => {
    // A child that is ending no longer reads messages. Its exit code is enough.
    if (child.connected) child.send(message, () => {})
  }
  child.on('disconnect', () => {
    for (const watch of watches.values()) watch.abort()
  })
  child.on('message', (request: Request | string) => {
    // A text is not a call: the benchmark and its child use texts for other messages.
    if (typeof request === 'string') return
    const { id } = request
    if ('abort' in request) return watches.get(id)?.abort()
    if ('watch' in request) {
      const stopped = new AbortController()
      watches.set(id, stopped)
      void (async () => {
        try {
          const options = { ...request.watch.options, signal: stopped.signal }
          for await (const event of cluster.watch(request.watch.kind as 'Pod', options)) reply({ id, event })
          reply({ id, end: true })
        } catch (error) {
          reply({ id, failure: failureOf(error) })
        }
        watches.delete(id)
      })()
      return
    }
    const method = targets[request.target][request.method]
    if (method === undefined) return reply({ id, failure: { of: 'other', message: `no method ${request.method}` } })
    const args = request.args.map(received)
    method.apply(targets[request.target], args).then(
      value => reply({ id, value }),
      error => reply({ id, failure: failureOf(error) }),
    )
  })
}

type Waiting = { next(reply: Reply): void }

/** Runs in the child: returns proxies for the parent's `Cluster` and `PostgresAccess`. */
export function connectParent(): { cluster: Cluster; postgres: PostgresAccess } {
  const waiting = new Map<number, Waiting>()
  let ids = 0
  process.on('message', (reply: Reply | string) => {
    if (typeof reply !== 'string') waiting.get(reply.id)?.next(reply)
  })
  const send = (request: Request) => process.send?.(request)

  const call =
    (target: Target, method: string): Method =>
    async (...passed) => {
      const args = await Promise.all(passed.map(sent))
      return new Promise((resolve, reject) => {
        const id = ++ids
        const next = (reply: Reply) => {
          waiting.delete(id)
          if ('failure' in reply) reject(errorOf(reply.failure))
          else resolve('value' in reply ? reply.value : undefined)
        }
        waiting.set(id, { next })
        send({ id, target, method, args })
      })
    }

  async function* watch(kind: string, { signal, ...options }: WatchOptions): AsyncGenerator<unknown> {
    const id = ++ids
    const replies: Reply[] = []
    let wake = () => {}
    waiting.set(id, {
      next: reply => {
        replies.push(reply)
        wake()
      },
    })
    const abort = () => wake()
    signal.addEventListener('abort', abort)
    send({ id, watch: { kind, options } })
    try {
      while (!signal.aborted) {
        const reply = replies.shift()
        if (reply === undefined) await new Promise<void>(resolve => (wake = resolve))
        else if ('event' in reply) yield reply.event
        else if ('failure' in reply) throw errorOf(reply.failure)
        else return
      }
    } finally {
      signal.removeEventListener('abort', abort)
      waiting.delete(id)
      send({ id, abort: true })
    }
  }

  const proxy = (target: Target, own: object): unknown =>
    new Proxy(own, {
      get: (_own, name) => Reflect.get(own, name) ?? (name === 'then' ? undefined : call(target, String(name))),
    })
  // A message cannot contain a function, so `work` runs here. The fake Postgres needs no lock.
  const withRolesLocked: PostgresAccess['withRolesLocked'] = (_target, work) => work()
  const postgres = proxy('postgres', { withRolesLocked }) as PostgresAccess
  return { cluster: proxy('cluster', { watch }) as Cluster, postgres }
}
