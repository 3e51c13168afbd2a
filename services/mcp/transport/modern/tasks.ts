/**
 * Calls of tools that go on after their answer: the tasks extension. A task is its caller's alone, under an id that cannot be guessed. It promises that tasks are bounded in
 * number and in time, that what a task asks for is asked under keys that are never used again, and that a task which is cancelled or expires stops what it does.
 */
import { randomBytes } from 'node:crypto'
import type { JsonObject } from '../../../mcp-protocol/json.ts'
import { isObject, type RpcError } from '../../../mcp-protocol/json-rpc.ts'
import type { Ability, Answers, InputRequest, Outcome } from '../../core/call.ts'
import { CoreError } from '../../core/errors.ts'
import { missingCapability } from '../abilities.ts'

const lifetimeMs = 3_600_000
const pollIntervalMs = 1_000
const maximumTasks = 1_000
const maximumPerPrincipal = 50
/** Of requests for input that one task may make. */
const maximumAsked = 100

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
  /** Takes answers, where some are waited for. */
  take: ((responses: JsonObject) => void) | undefined
}

/** A call that becomes a task. */
type TaskCall = {
  readonly principal: string
  readonly abilities: ReadonlySet<Ability>
  readonly first: Promise<Outcome<object>>
  again(answers: Answers): Promise<Outcome<object>>
  /** How an error is told to the client. */
  told(error: unknown): RpcError
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

  /** @param nameOf the id that a client is given */
  constructor(now: () => number, nameOf: (random: string) => string) {
    this.#now = now
    this.#nameOf = nameOf
  }

  /** @returns the task as it begins, with what says how it is told its progress; undefined where there is no room for one more */
  begin(call: TaskCall): { readonly view: JsonObject; say(message: string): void } | undefined {
    if (!this.#makeRoom(call.principal)) return undefined
    const id = this.#nameOf(newId())
    const createdAt = this.#time()
    const task: Task = {
      id,
      principal: call.principal,
      createdAt,
      lastUpdatedAt: createdAt,
      stop: reason => call.stop(reason),
      expiry: setTimeout(() => this.#forget(task, 'the time of the task is up'), lifetimeMs).unref(),
      message: undefined,
      state: { status: 'working' },
      take: undefined,
    }
    this.#tasks.set(id, task)
    const { view } = this.#viewed(task)
    void this.#run(task, call)
    const say = (message: string) => {
      if (isEnded(task)) return
      task.message = message
      this.#changed(task)
    }
    return { view, say }
  }

  /** As `tasks/get` says it. @throws CoreError where there is none of this id, for this caller */
  get(id: unknown, principal: string): JsonObject {
    const { view, detail } = this.#viewed(this.#find(id, principal))
    return { ...view, ...detail }
  }

  /** @throws CoreError */
  update(id: unknown, principal: string, responses: JsonObject): void {
    this.#find(id, principal).take?.(responses)
  }

  /** Asks for it to stop; of one that has ended there is nothing to stop. @throws CoreError */
  cancel(id: unknown, principal: string): void {
    const task = this.#find(id, principal)
    if (isEnded(task)) return
    this.#become(task, { status: 'cancelled' })
    task.stop(new Error('the client has cancelled the task'))
  }

  /** Whether there is one of this id for this caller. */
  has(id: string, principal: string): boolean {
    return this.#tasks.get(id)?.principal === principal
  }

  /** @returns what ends it */
  onChange(listener: TaskListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  close(): void {
    for (const task of this.#tasks.values()) this.#forget(task, 'the server ends')
  }

  async #run(task: Task, call: TaskCall): Promise<void> {
    try {
      let outcome = await call.first
      let asked = 0
      while (outcome.kind === 'input-required' && !isEnded(task)) {
        asked += Object.keys(outcome.requests).length
        if (asked > maximumAsked) throw new CoreError({ kind: 'invalid params', problem: 'the task asks too much' })
        const responses = await this.#ask(task, outcome.requests, call.abilities)
        outcome = await call.again({ responses, state: outcome.state })
      }
      if (outcome.kind === 'result' && !isEnded(task))
        this.#become(task, { status: 'completed', result: outcome.result })
    } catch (error) {
      if (!isEnded(task)) this.#become(task, { status: 'failed', error: call.told(error) })
    }
  }

  /** Resolves once all are answered, under the keys that the tool has given them. */
  #ask(
    task: Task,
    requests: { readonly [key: string]: InputRequest },
    abilities: ReadonlySet<Ability>,
  ): Promise<Answers['responses']> {
    const open = new Map<string, readonly [key: string, request: InputRequest]>()
    for (const [key, request] of Object.entries(requests)) {
      const required = missingCapability(request, abilities)
      if (required !== undefined) throw new CoreError({ kind: 'missing ability', required })
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
    // Results of tools, requests and errors are JSON; their types are not written so.
    return { view, detail: detail as unknown as JsonObject }
  }

  #find(id: unknown, principal: string): Task {
    const task = typeof id === 'string' ? this.#tasks.get(id) : undefined
    if (task?.principal !== principal) throw new CoreError({ kind: 'invalid params', problem: 'there is no such task' })
    return task
  }

  /** Of what has ended the oldest makes room. */
  #makeRoom(principal: string): boolean {
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
