/**
 * Revision 2026-07-28: each request stands alone and says itself what its client can do. What a call has to ask for is handed to the client with a sealed
 * state, and the client calls again with the answers, here or at another process with the same key.
 */
import type { Headers } from '../../../http/message.ts'
import type { Peers } from '../../../http/peers/index.ts'
import type { Envelope as SentEnvelope } from '../../../mcp-protocol/envelope.ts'
import { ProtocolError } from '../../../mcp-protocol/errors.ts'
import { checkArguments } from '../../../mcp-protocol/headers.ts'
import type { JsonObject } from '../../../mcp-protocol/json.ts'
import { errorText, isObject, type RequestMessage, resultText } from '../../../mcp-protocol/json-rpc.ts'
import { checkModernRequest } from '../../../mcp-protocol/modern-request.ts'
import { serverInfoKey, tasksExtension } from '../../../mcp-protocol/names.ts'
import { modernVersion } from '../../../mcp-protocol/versions.ts'
import type { Ability, Answers, CallContext, Outcome } from '../../core/call.ts'
import { CoreError } from '../../core/errors.ts'
import type { Core } from '../../core/index.ts'
import type { Tool } from '../../core/tool.ts'
import { abilitiesOf, missingCapability } from '../abilities.ts'
import { type CallMethod, type Calls, isCallMethod } from '../calls.ts'
import { type Asking, beginCall, type TransportLogger } from '../context.ts'
import { isForeseen, modernError } from '../errors.ts'
import { isListMethod, type Lists } from '../lists.ts'
import type { Sealer } from '../sealed-state.ts'
import { Subscriptions } from './subscriptions.ts'
import { Tasks } from './tasks.ts'

type ModernParts = {
  readonly core: Core
  readonly calls: Calls
  readonly lists: Lists
  readonly logger: TransportLogger
  readonly sealer: Sealer
  readonly now: () => number
  /** undefined: this process is alone. */
  readonly peers: Pick<Peers, 'mint' | 'read'> | undefined
  /** How long a call that may become a task is waited for before it does. */
  readonly taskPatienceMs: number
}

type Envelope = SentEnvelope & { readonly abilities: ReadonlySet<Ability> }

type ModernAsking = Asking & {
  /** Of HTTP; undefined over stdio, which has none. */
  readonly headers: Headers | undefined
}

/** `status`: as HTTP wants it. */
type ModernAnswer = { readonly status: number; readonly text: string }

/** What a list says may be kept by a client for so long; what changes is announced before, to whoever listens. */
const listTtlMs = 60_000
const cacheHint = (ttlMs: number) => `"ttlMs":${ttlMs},"cacheScope":"private"`
const taskMethods = new Set(['tasks/get', 'tasks/update', 'tasks/cancel'])

const responsesOf = (responses: unknown): { readonly [key: string]: JsonObject } => {
  const problem = 'inputResponses must be an object of at most 100 objects'
  const entries = isObject(responses) ? Object.entries(responses) : undefined
  if (entries === undefined || entries.length > 100) throw new CoreError({ kind: 'invalid params', problem })
  return Object.fromEntries(
    entries.map(([key, response]) => {
      if (!isObject(response)) throw new CoreError({ kind: 'invalid params', problem })
      return [key, response]
    }),
  )
}

/** A result by its members, without braces. */
const membersOf = (result: object): string => JSON.stringify(result).slice(1, -1)
const metaOf = (server: object) => `"_meta":${JSON.stringify({ [serverInfoKey]: server })}`
const missingTasks = () =>
  new CoreError({ kind: 'missing ability', required: { extensions: { [tasksExtension]: {} } } })

export class Modern {
  readonly #parts: ModernParts
  readonly #tasks: Tasks
  readonly #subscriptions: Subscriptions
  readonly #serverMeta: string

  constructor(parts: ModernParts) {
    this.#parts = parts
    this.#tasks = new Tasks(parts.now, random => parts.peers?.mint('task', random) ?? random)
    this.#subscriptions = new Subscriptions(parts.core, this.#tasks)
    const { name, version, title } = parts.core.server
    this.#serverMeta = metaOf({ name, title, version })
  }

  /** @throws CoreError of a token that is for less, over HTTP, which tells it by a status */
  async answer(request: RequestMessage, asking: ModernAsking): Promise<ModernAnswer> {
    try {
      const envelope = checkModernRequest(request, asking.headers)
      const abilities = abilitiesOf(envelope.capabilities)
      const text = await this.#result(request, asking, { ...envelope, abilities })
      return { status: 200, text: resultText(request.id, text) }
    } catch (error) {
      const isScope = error instanceof CoreError && error.fault.kind === 'insufficient scope'
      if (isScope && asking.headers !== undefined) throw error
      const requestId = crypto.randomUUID()
      if (!isForeseen(error) && !asking.signal.aborted)
        this.#parts.logger.error({ err: error, request: requestId, method: request.method }, 'a request failed')
      const { error: told, status } = modernError(error, requestId)
      return { status, text: errorText(request.id, told) }
    }
  }

  /** Ends what would go on by itself. */
  close(): void {
    this.#subscriptions.close()
    this.#tasks.close()
  }

  async #result(request: RequestMessage, asking: ModernAsking, envelope: Envelope): Promise<string> {
    const { method, params } = request
    const { caller } = asking
    if (method === 'tools/call') return this.#callTool(request, asking, envelope)
    if (!caller.scopes.has('mcp:read')) throw new CoreError({ kind: 'insufficient scope', scopes: ['mcp:read'] })
    if (method === 'server/discover') return this.#discover(asking)
    if (isListMethod(method))
      return this.#complete(`${this.#parts.lists(method, caller, params.cursor)},${cacheHint(listTtlMs)}`)
    if (isCallMethod(method)) return this.#call(method, request, asking, envelope)
    if (taskMethods.has(method)) return this.#onTask(request, asking, envelope)
    if (method === 'subscriptions/listen') {
      const over = await this.#subscriptions.listen(request, asking, envelope.takesTasks)
      return `{"resultType":"complete",${membersOf(over)}}`
    }
    throw new ProtocolError({ kind: 'unknown method', method })
  }

  #discover({ caller }: Asking): string {
    const { core } = this.#parts
    const capabilities = {
      tools: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
      prompts: { listChanged: true },
      completions: {},
      logging: {},
      extensions: { [tasksExtension]: {} },
    }
    const result = { supportedVersions: [modernVersion], capabilities, instructions: core.instructions(caller) }
    // With the icons, which are long.
    return this.#complete(`${membersOf(result)},${cacheHint(listTtlMs)}`, metaOf(core.server))
  }

  #callTool(request: RequestMessage, asking: ModernAsking, envelope: Envelope): Promise<string> {
    const { name, arguments: args } = request.params
    const { caller, headers } = asking
    const tool = typeof name === 'string' ? this.#parts.core.tool(name, caller) : undefined
    if (headers !== undefined && tool !== undefined)
      checkArguments(headers, tool.definition.inputSchema, isObject(args) ? args : {})
    if (tool?.task === 'required' && !envelope.takesTasks) throw missingTasks()
    return tool?.task !== undefined && envelope.takesTasks
      ? this.#callAsTask(tool, request, asking, envelope)
      : this.#call('tools/call', request, asking, envelope)
  }

  async #call(method: CallMethod, request: RequestMessage, asking: Asking, envelope: Envelope): Promise<string> {
    const { params } = request
    const { abilities, logLevel } = envelope
    const answers = this.#answersOf(request, asking)
    const running = beginCall({ asking, params, abilities, answers, logLevel })
    try {
      const outcome = await this.#parts.calls.call(method, params, running.context, false)
      return this.#written(outcome, request, asking, envelope)
    } finally {
      running.finish()
    }
  }

  /** A call that is answered by itself where it is quick, or has to ask before it begins, and goes on as a task otherwise. */
  async #callAsTask(tool: Tool, request: RequestMessage, asking: Asking, envelope: Envelope): Promise<string> {
    const { params } = request
    const { abilities, logLevel } = envelope
    const { calls, taskPatienceMs } = this.#parts
    const controller = new AbortController()
    const leave = () => controller.abort(asking.signal.reason)
    asking.signal.addEventListener('abort', leave)
    const answers = this.#answersOf(request, asking)
    const ofTask = { ...asking, signal: controller.signal }
    const running = beginCall({ asking: ofTask, params, abilities, answers, logLevel })
    let say: (message: string) => void = () => {}
    const progress: CallContext['progress'] = report => {
      running.context.progress(report)
      if (report.message !== undefined) say(report.message)
    }
    const context = { ...running.context, progress }
    const first = calls.call('tools/call', params, context, false)
    try {
      const outcome = await withinMs(taskPatienceMs, first)
      if (outcome?.kind === 'input-required' || (outcome !== undefined && tool.task !== 'required'))
        return this.#written(outcome, request, asking, envelope)
      const begun = this.#tasks.begin({
        principal: asking.caller.principal,
        abilities,
        first,
        again: more => calls.call('tools/call', params, { ...context, answers: more }, false),
        told: error => modernError(error, context.requestId).error,
        stop: reason => controller.abort(reason),
      })
      if (begun === undefined) {
        if (tool.task !== 'required') return this.#written(await first, request, asking, envelope)
        controller.abort(new Error('there is no room for a task'))
        first.catch(() => {})
        throw new ProtocolError({ kind: 'exhausted', problem: 'there are as many tasks as there may be' })
      }
      say = begun.say
      asking.signal.removeEventListener('abort', leave)
      return this.#other({ resultType: 'task', ...begun.view })
    } finally {
      running.finish()
    }
  }

  #onTask({ method, params }: RequestMessage, { caller }: Asking, { takesTasks }: Envelope): string {
    if (!takesTasks) throw missingTasks()
    const { taskId } = params
    if (method === 'tasks/get') return this.#complete(membersOf(this.#tasks.get(taskId, caller.principal)))
    if (method === 'tasks/update') this.#tasks.update(taskId, caller.principal, responsesOf(params.inputResponses))
    else this.#tasks.cancel(taskId, caller.principal)
    return this.#complete('')
  }

  /** What an earlier call has asked for; undefined in the first. Without its state answers belong to nothing, and are asked for again. */
  #answersOf({ method, params }: RequestMessage, { caller }: Asking): Answers | undefined {
    const { requestState, inputResponses } = params
    const responses = inputResponses === undefined ? {} : responsesOf(inputResponses)
    if (requestState === undefined) return undefined
    if (typeof requestState !== 'string')
      throw new CoreError({ kind: 'invalid params', problem: 'requestState must be a string' })
    const { sealer, peers } = this.#parts
    const sealed = peers?.read('state', requestState).inner ?? requestState
    const state = sealer.open(sealed, { principal: caller.principal, method, params })
    return { responses, state }
  }

  /** The result, or what is asked for. */
  #written(outcome: Outcome<object>, request: RequestMessage, { caller }: Asking, { abilities }: Envelope): string {
    const { method, params } = request
    if (outcome.kind === 'result') {
      const members = membersOf(outcome.result)
      return this.#complete(method === 'resources/read' ? `${members},${cacheHint(0)}` : members)
    }
    for (const asked of Object.values(outcome.requests)) {
      const required = missingCapability(asked, abilities)
      if (required !== undefined) throw new CoreError({ kind: 'missing ability', required })
    }
    const { sealer, peers } = this.#parts
    const sealed = sealer.seal(outcome.state, { principal: caller.principal, method, params })
    const requestState = peers?.mint('state', sealed) ?? sealed
    return this.#other({ resultType: 'input_required', inputRequests: outcome.requests, requestState })
  }

  #complete(members: string, meta = this.#serverMeta): string {
    return `{${members}${members === '' ? '' : ','}"resultType":"complete",${meta}}`
  }

  #other(result: JsonObject): string {
    return `{${membersOf(result)},${this.#serverMeta}}`
  }
}

/** undefined: it takes longer. */
async function withinMs<Result>(ms: number, work: Promise<Result>): Promise<Result | undefined> {
  let timer: NodeJS.Timeout | undefined
  const tooLong = new Promise<undefined>(resolve => {
    timer = setTimeout(resolve, ms, undefined)
  })
  try {
    return await Promise.race([work, tooLong])
  } finally {
    clearTimeout(timer)
  }
}
