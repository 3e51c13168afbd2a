/**
 * The tasks extension: tool calls that continue after their response. A task belongs to its caller, and no client can
 * guess a task's id. The number of tasks and their duration are limited. The keys of a task's input requests are never
 * reused. The server stops a task that is cancelled or has expired.
 */
import { randomBytes } from 'node:crypto'
import type { JsonObject } from '../../../mcp-protocol/json.ts'
import { isObject, type RpcError } from '../../../mcp-protocol/json-rpc.ts'
import type { Answers, InputKind, InputRequest, Outcome } from '../../core/call.ts'
import { CoreError } from '../../core/errors.ts'
import { missingCapability } from '../input-kinds.ts'

const lifetimeMs = 3_600_000
const pollIntervalMs = 1_000
const maximumTasks = 1_000
const maximumPerPrincipal = 50
export const tooManyTasks = `at most ${maximumPerPrincipal} tasks of one caller, and ${maximumTasks} in total, may run`
/** The maximum number of input requests of one task. */
const maximumInputRequests = 100

type Working = { readonly status: 'working' }
type Waiting = { readonly status: 'input_required'; readonly inputRequests: { readonly [key: string]: InputRequest } }
type Ended =
  | { readonly status: 'completed'; readonly result: object }
  | { readonly status: 'failed'; readonly error: RpcError }
  | { readonly status: 'cancelled' }
type State = Working | Waiting | Ended

type Task = {
  readonly id: string
  readonly principal: string
  readonly createdAt: string
  readonly stop: (reason: Error) => void
  readonly expiry: NodeJS.Timeout
  lastUpdatedAt: string
  message: string | undefined
  state: State
  /** Accepts answers. Undefined if the task does not wait for answers. */
  take: ((responses: JsonObject) => void) | undefined
}

/** A call that becomes a task. */
type TaskCall = {
  readonly principal: string
  readonly inputKinds: ReadonlySet<InputKind>
  readonly first: Promise<Outcome<object>>
  again(answers: Answers): Promise<Outcome<object>>
  /** Converts an error for the client. */
  toRpcError(error: unknown): RpcError
  stop(reason: Error): void
}

type TaskListener = { readonly principal: string; changed(id: string, view: JsonObject): void }

const isEnded = ({ state }: Task): boolean => state.status !== 'working' && state.status !== 'input_required'
const newId = (): string => randomBytes(24).toString('base64url')

export class Tasks {
  readonly #tasks = new Map<string, Task>()
  readonly #listeners = new Set<TaskListener>()
  readonly #now: () => number
  readonly #nameOf: (random: string) => string

  /** @param nameOf converts a random id to the id that the client receives */
  constructor(now: () => number, nameOf: (random: string) => string) {
    this.#now = now
    this.#nameOf = nameOf
  }

  /** Returns the new task, and a function that sets its status message. Returns undefined if a limit is reached. */
  begin(call: TaskCall): { readonly view: JsonObject; setStatusMessage(message: string): void } | undefined {
    if (!this.#evictEnded(call.principal)) return undefined
    const id = this.#nameOf(newId())
    const createdAt = this.#time()
    const task: Task = {
      id,
      principal: call.principal,
      createdAt,
      lastUpdatedAt: createdAt,
      stop: reason => call.stop(reason),
      expiry: setTimeout(() => this.#forget(task, 'the task exceeded its time limit'), lifetimeMs).unref(),
      message: undefined,
      state: { status: 'working' },
      take: undefined,
    }
    this.#tasks.set(id, task)
    const { view } = this.#viewed(task)
    void this.#run(task, call)
    const setStatusMessage = (message: string) => {
      if (isEnded(task)) return
      task.message = message
      this.#changed(task)
    }
    return { view, setStatusMessage }
  }

  /** Returns the state for `tasks/get`. @throws CoreError if the caller has no task with this id */
  get(id: unknown, principal: string): JsonObject {
    const { view, detail } = this.#viewed(this.#find(id, principal))
    return { ...view, ...detail }
  }

  /** @throws CoreError */
  update(id: unknown, principal: string, responses: JsonObject): void {
    this.#find(id, principal).take?.(responses)
  }

  /** Requests cancellation. A task that has ended does not change. @throws CoreError */
  cancel(id: unknown, principal: string): void {
    const task = this.#find(id, principal)
    if (isEnded(task)) return
    this.#become(task, { status: 'cancelled' })
    task.stop(new Error('the client has cancelled the task'))
  }

  /** Whether the caller has a task with this id. */
  has(id: string, principal: string): boolean {
    return this.#tasks.get(id)?.principal === principal
  }

  /** Returns a function that removes the listener. */
  onChange(listener: TaskListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  close(): void {
    for (const task of this.#tasks.values()) this.#forget(task, 'the server is shutting down')
  }

  async #run(task: Task, call: TaskCall): Promise<void> {
    try {
      let outcome = await call.first
      let requestCount = 0
      while (outcome.kind === 'input-required' && !isEnded(task)) {
        requestCount += Object.keys(outcome.requests).length
        if (requestCount > maximumInputRequests)
          throw new CoreError({
            kind: 'invalid params',
            problem: `a task may send at most ${maximumInputRequests} requests for input`,
          })
        const responses = await this.#requestInput(task, outcome.requests, call.inputKinds)
        outcome = await call.again({ responses, state: outcome.state })
      }
      if (outcome.kind === 'result' && !isEnded(task))
        this.#become(task, { status: 'completed', result: outcome.result })
    } catch (error) {
      if (!isEnded(task)) this.#become(task, { status: 'failed', error: call.toRpcError(error) })
    }
  }

  /** Resolves when the client has answered all requests. The result has the keys that the tool chose. */
  #requestInput(
    task: Task,
    requests: { readonly [key: string]: InputRequest },
    inputKinds: ReadonlySet<InputKind>,
  ): Promise<Answers['responses']> {
    const open = new Map<string, readonly [key: string, request: InputRequest]>()
    for (const [key, request] of Object.entries(requests)) {
      const required = missingCapability(request, inputKinds)
      if (required !== undefined) throw new CoreError({ kind: 'missing capability', required })
      open.set(newId(), [key, request])
    }
    const answers: Record<string, JsonObject> = {}
    const wait = () => {
      const inputRequests = Object.fromEntries([...open].map(([id, [, request]]) => [id, request]))
      this.#become(task, { status: 'input_required', inputRequests })
    }
    return new Promise(resolve => {
      task.take = responses => {
        for (const [id, response] of Object.entries(responses)) {
          const [key] = open.get(id) ?? []
          if (key === undefined || !isObject(response)) continue
          open.delete(id)
          answers[key] = response
        }
        if (open.size > 0) return wait()
        task.take = undefined
        this.#become(task, { status: 'working' })
        resolve(answers)
      }
      wait()
    })
  }

  #become(task: Task, state: State): void {
    task.state = state
    if (isEnded(task)) task.take = undefined
    this.#changed(task)
  }

  #changed(task: Task): void {
    task.lastUpdatedAt = this.#time()
    const { view, detail } = this.#viewed(task)
    for (const listener of this.#listeners)
      if (listener.principal === task.principal) listener.changed(task.id, { ...view, ...detail })
  }

  #viewed({ id, createdAt, lastUpdatedAt, message, state }: Task): { view: JsonObject; detail: JsonObject } {
    const { status, ...detail } = state
    const view = {
      ...{ taskId: id, status, ...(message === undefined ? {} : { statusMessage: message }) },
      ...{ createdAt, lastUpdatedAt, ttlMs: lifetimeMs, pollIntervalMs },
    }
    // Tool results, requests and errors are JSON, but their types do not say so.
    return { view, detail: detail as unknown as JsonObject }
  }

  #find(id: unknown, principal: string): Task {
    const task = typeof id === 'string' ? this.#tasks.get(id) : undefined
    if (task?.principal !== principal) throw new CoreError({ kind: 'invalid params', problem: 'taskId: unknown task' })
    return task
  }

  /**
   * Returns whether a new task may begin. If the caller's limit or the total limit is reached, first evicts the oldest
   * ended task.
   */
  #evictEnded(principal: string): boolean {
    const all = [...this.#tasks.values()]
    const own = all.filter(task => task.principal === principal)
    const drop = (from: readonly Task[]) => {
      const oldest = from.find(isEnded)
      if (oldest !== undefined) this.#forget(oldest, '')
      return oldest !== undefined
    }
    if (own.length >= maximumPerPrincipal) return drop(own)
    return all.length < maximumTasks || drop(all)
  }

  #forget(task: Task, reason: string): void {
    clearTimeout(task.expiry)
    this.#tasks.delete(task.id)
    if (isEnded(task)) return
    this.#become(task, { status: 'cancelled' })
    task.stop(new Error(reason))
  }

  #time(): string {
    return new Date(this.#now()).toISOString()
  }
}
