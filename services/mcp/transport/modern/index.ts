/**
 * Revision 2026-07-28: each request is independent and declares its client's capabilities. If a call needs input, the
 * client receives the input requests with a sealed state. The client then repeats the call with the answers. Any
 * process with the same key can handle the repeated call.
 */
import type { Headers } from '../../../http/message.ts'
import type { Peers } from '../../../http/peers/index.ts'
import type { Envelope as SentEnvelope } from '../../../mcp-protocol/envelope.ts'
import { ProtocolError } from '../../../mcp-protocol/errors.ts'
import { checkArgumentHeaders } from '../../../mcp-protocol/headers.ts'
import type { JsonObject } from '../../../mcp-protocol/json.ts'
import { errorText, isObject, type RequestMessage, resultText } from '../../../mcp-protocol/json-rpc.ts'
import { checkModernRequest } from '../../../mcp-protocol/modern-request.ts'
import { serverInfoKey, tasksExtension } from '../../../mcp-protocol/names.ts'
import { modernVersion } from '../../../mcp-protocol/versions.ts'
import type { Answers, CallContext, InputKind, Outcome } from '../../core/call.ts'
import { CoreError } from '../../core/errors.ts'
import type { Core } from '../../core/index.ts'
import type { Tool } from '../../core/tool.ts'
import { type CallMethod, type Calls, isCallMethod } from '../calls.ts'
import { beginCall, type Requester, type TransportLogger } from '../context.ts'
import { isForeseen, modernError } from '../errors.ts'
import { inputKindsOf, missingCapability } from '../input-kinds.ts'
import { isListMethod, type Lists } from '../lists.ts'
import type { Sealer } from '../sealed-state.ts'
import { Subscriptions } from './subscriptions.ts'
import { Tasks, tooManyTasks } from './tasks.ts'

type ModernParts = {
  readonly core: Core
  readonly calls: Calls
  readonly lists: Lists
  readonly logger: TransportLogger
  readonly sealer: Sealer
  readonly now: () => number
  /** Undefined if there is only one process. */
  readonly peers: Pick<Peers, 'mint' | 'read'> | undefined
  /** How long a call may run before it becomes a task. */
  readonly taskDelayMs: number
}

type Envelope = SentEnvelope & { readonly inputKinds: ReadonlySet<InputKind> }

type ModernRequester = Requester & {
  /** The HTTP headers; undefined over stdio. */
  readonly headers: Headers | undefined
}

/** `status`: the HTTP status. */
type ModernAnswer = { readonly status: number; readonly text: string }

/** How long a client may cache a list or the result of `server/discover`. Listeners receive changes earlier. */
const listTtlMs = 60_000
const cacheHint = (ttlMs: number) => `"ttlMs":${ttlMs},"cacheScope":"private"`
const taskMethods = new Set(['tasks/get', 'tasks/update', 'tasks/cancel'])

const responsesOf = (responses: unknown): { readonly [key: string]: JsonObject } => {
  const problem = 'inputResponses: must be an object of at most 100 objects'
  const entries = isObject(responses) ? Object.entries(responses) : undefined
  if (entries === undefined || entries.length > 100) throw new CoreError({ kind: 'invalid params', problem })
  return Object.fromEntries(
    entries.map(([key, response]) => {
      if (!isObject(response)) throw new CoreError({ kind: 'invalid params', problem })
      return [key, response]
    }),
  )
}

/** Returns a result as JSON without the outer braces. */
const membersOf = (result: object): string => JSON.stringify(result).slice(1, -1)
const metaOf = (server: object) => `"_meta":${JSON.stringify({ [serverInfoKey]: server })}`
const missingTasks = () =>
  new CoreError({ kind: 'missing capability', required: { extensions: { [tasksExtension]: {} } } })

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

  /** @throws CoreError over HTTP if the token lacks a scope: the endpoint then responds with the status 403 */
  async answer(request: RequestMessage, requester: ModernRequester): Promise<ModernAnswer> {
    try {
      const envelope = checkModernRequest(request, requester.headers)
      const inputKinds = inputKindsOf(envelope.capabilities)
      const text = await this.#result(request, requester, { ...envelope, inputKinds })
      return { status: 200, text: resultText(request.id, text) }
    } catch (error) {
      const isScope = error instanceof CoreError && error.fault.kind === 'insufficient scope'
      if (isScope && requester.headers !== undefined) throw error
      const requestId = crypto.randomUUID()
      if (!isForeseen(error) && !requester.signal.aborted)
        this.#parts.logger.error({ err: error, request: requestId, method: request.method }, 'a request failed')
      const { error: rpcError, status } = modernError(error, requestId)
      return { status, text: errorText(request.id, rpcError) }
    }
  }

  /** Ends all subscriptions and tasks. */
  close(): void {
    this.#subscriptions.close()
    this.#tasks.close()
  }

  async #result(request: RequestMessage, requester: ModernRequester, envelope: Envelope): Promise<string> {
    const { method, params } = request
    const { caller } = requester
    if (method === 'tools/call') return this.#callTool(request, requester, envelope)
    if (!caller.scopes.has('mcp:read')) throw new CoreError({ kind: 'insufficient scope', scopes: ['mcp:read'] })
    if (method === 'server/discover') return this.#discover(requester)
    if (isListMethod(method))
      return this.#complete(`${this.#parts.lists(method, caller, params.cursor)},${cacheHint(listTtlMs)}`)
    if (isCallMethod(method)) return this.#call(method, request, requester, envelope)
    if (taskMethods.has(method)) return this.#onTask(request, requester, envelope)
    if (method === 'subscriptions/listen') {
      const over = await this.#subscriptions.listen(request, requester, envelope.takesTasks)
      return `{"resultType":"complete",${membersOf(over)}}`
    }
    throw new ProtocolError({ kind: 'unknown method', method })
  }

  #discover({ caller }: Requester): string {
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
    // The server's icons are long, so only this response contains them.
    return this.#complete(`${membersOf(result)},${cacheHint(listTtlMs)}`, metaOf(core.server))
  }

  #callTool(request: RequestMessage, requester: ModernRequester, envelope: Envelope): Promise<string> {
    const { name, arguments: args } = request.params
    const { caller, headers } = requester
    const tool = typeof name === 'string' ? this.#parts.core.tool(name, caller) : undefined
    if (headers !== undefined && tool !== undefined)
      checkArgumentHeaders(headers, tool.definition.inputSchema, isObject(args) ? args : {})
    if (tool?.task === 'required' && !envelope.takesTasks) throw missingTasks()
    return tool?.task !== undefined && envelope.takesTasks
      ? this.#callAsTask(tool, request, requester, envelope)
      : this.#call('tools/call', request, requester, envelope)
  }

  async #call(method: CallMethod, request: RequestMessage, requester: Requester, envelope: Envelope): Promise<string> {
    const { params } = request
    const { inputKinds, logLevel } = envelope
    const answers = this.#answersOf(request, requester)
    const running = beginCall({ requester, params, inputKinds, answers, logLevel })
    try {
      const outcome = await this.#parts.calls.call(method, params, running.context, false)
      return this.#written(outcome, request, requester, envelope)
    } finally {
      running.finish()
    }
  }

  /**
   * Runs a call that may become a task. If the call needs input within `taskDelayMs`, the response requests the input.
   * If the call ends within that time and the tool does not require a task, the response has the result. Otherwise, the
   * call continues as a task. If the task limit is reached, the server refuses the call of a tool that requires a task.
   * The result of every other tool is sent when the call ends.
   */
  async #callAsTask(tool: Tool, request: RequestMessage, requester: Requester, envelope: Envelope): Promise<string> {
    const { params } = request
    const { inputKinds, logLevel } = envelope
    const { calls, taskDelayMs } = this.#parts
    const controller = new AbortController()
    const abort = () => controller.abort(requester.signal.reason)
    requester.signal.addEventListener('abort', abort)
    const answers = this.#answersOf(request, requester)
    const ofTask = { ...requester, signal: controller.signal }
    const running = beginCall({ requester: ofTask, params, inputKinds, answers, logLevel })
    let setStatusMessage: (message: string) => void = () => {}
    const progress: CallContext['progress'] = report => {
      running.context.progress(report)
      if (report.message !== undefined) setStatusMessage(report.message)
    }
    const context = { ...running.context, progress }
    const first = calls.call('tools/call', params, context, false)
    try {
      const outcome = await withinMs(taskDelayMs, first)
      if (outcome?.kind === 'input-required' || (outcome !== undefined && tool.task !== 'required'))
        return this.#written(outcome, request, requester, envelope)
      const begun = this.#tasks.begin({
        principal: requester.caller.principal,
        inputKinds,
        first,
        again: more => calls.call('tools/call', params, { ...context, answers: more }, false),
        toRpcError: error => modernError(error, context.requestId).error,
        stop: reason => controller.abort(reason),
      })
      if (begun === undefined) {
        if (tool.task !== 'required') return this.#written(await first, request, requester, envelope)
        controller.abort(new Error(tooManyTasks))
        first.catch(() => {})
        throw new ProtocolError({ kind: 'exhausted', problem: tooManyTasks })
      }
      setStatusMessage = begun.setStatusMessage
      requester.signal.removeEventListener('abort', abort)
      return this.#other({ resultType: 'task', ...begun.view })
    } finally {
      running.finish()
    }
  }

  #onTask({ method, params }: RequestMessage, { caller }: Requester, { takesTasks }: Envelope): string {
    if (!takesTasks) throw missingTasks()
    const { taskId } = params
    if (method === 'tasks/get') return this.#complete(membersOf(this.#tasks.get(taskId, caller.principal)))
    if (method === 'tasks/update') this.#tasks.update(taskId, caller.principal, responsesOf(params.inputResponses))
    else this.#tasks.cancel(taskId, caller.principal)
    return this.#complete('')
  }

  /**
   * Returns the client's answers to the requests of an earlier call; undefined in the first call. If the client sends
   * answers without the state, the server ignores the answers and requests them again.
   */
  #answersOf({ method, params }: RequestMessage, { caller }: Requester): Answers | undefined {
    const { requestState, inputResponses } = params
    const responses = inputResponses === undefined ? {} : responsesOf(inputResponses)
    if (requestState === undefined) return undefined
    if (typeof requestState !== 'string')
      throw new CoreError({ kind: 'invalid params', problem: 'requestState: must be a string' })
    const { sealer, peers } = this.#parts
    const sealed = peers?.read('state', requestState).inner ?? requestState
    const state = sealer.open(sealed, { principal: caller.principal, method, params })
    return { responses, state }
  }

  /** Returns the response: the result, or the requests for input. */
  #written(outcome: Outcome<object>, request: RequestMessage, { caller }: Requester, { inputKinds }: Envelope): string {
    const { method, params } = request
    if (outcome.kind === 'result') {
      const members = membersOf(outcome.result)
      return this.#complete(method === 'resources/read' ? `${members},${cacheHint(0)}` : members)
    }
    for (const inputRequest of Object.values(outcome.requests)) {
      const required = missingCapability(inputRequest, inputKinds)
      if (required !== undefined) throw new CoreError({ kind: 'missing capability', required })
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

/** Resolves to undefined if the work takes longer. */
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
