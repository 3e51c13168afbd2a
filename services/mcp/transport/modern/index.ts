/**
 * Revision 2026-07-28: each request stands alone and says itself what its client can do. What a call has to ask for is handed to the client with a sealed
 * state, and the client calls again with the answers, here or at another process with the same key.
 */
import type { Headers } from '../../../http/message.ts'
import type { Envelope as SentEnvelope } from '../../../mcp-protocol/envelope.ts'
import { ProtocolError } from '../../../mcp-protocol/errors.ts'
import { checkArguments } from '../../../mcp-protocol/headers.ts'
import type { JsonObject } from '../../../mcp-protocol/json.ts'
import { errorText, isObject, type RequestMessage, resultText } from '../../../mcp-protocol/json-rpc.ts'
import { checkModernRequest } from '../../../mcp-protocol/modern-request.ts'
import { serverInfoKey, tasksExtension } from '../../../mcp-protocol/names.ts'
import { modernVersion } from '../../../mcp-protocol/versions.ts'
import type { Ability, Answers, Outcome } from '../../core/call.ts'
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

export type Modern = {
  /** @throws CoreError of a token that is for less, over HTTP, which tells it by a status */
  answer(request: RequestMessage, asking: ModernAsking): Promise<ModernAnswer>
  /** Ends what would go on by itself. */
  close(): void
}

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

export function createModern(parts: ModernParts): Modern {
  const { core, calls, lists, logger, sealer } = parts
  const tasks = new Tasks(parts.now)
  const subscriptions = new Subscriptions(core, tasks)
  const { name, version, title } = core.server
  const metaOf = (server: object) => `"_meta":${JSON.stringify({ [serverInfoKey]: server })}`
  const serverMeta = metaOf({ name, title, version })
  /** With the icons, which are long. */
  const discoverMeta = metaOf(core.server)

  /** A result by its members, without braces. */
  const complete = (inner: string, meta = serverMeta): string =>
    `{${inner}${inner === '' ? '' : ','}"resultType":"complete",${meta}}`
  const membersOf = (result: object): string => JSON.stringify(result).slice(1, -1)
  const other = (result: JsonObject): string => `{${membersOf(result)},${serverMeta}}`

  function discover({ caller }: Asking): string {
    const capabilities = {
      tools: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
      prompts: { listChanged: true },
      completions: {},
      logging: {},
      extensions: { [tasksExtension]: {} },
    }
    const result = { supportedVersions: [modernVersion], capabilities, instructions: core.instructions(caller) }
    return complete(`${membersOf(result)},${cacheHint(listTtlMs)}`, discoverMeta)
  }

  /** What an earlier call has asked for; undefined in the first. Without its state answers belong to nothing, and are asked for again. */
  function answersOf({ method, params }: RequestMessage, { caller }: Asking): Answers | undefined {
    const { requestState, inputResponses } = params
    const responses = inputResponses === undefined ? {} : responsesOf(inputResponses)
    if (requestState === undefined) return undefined
    if (typeof requestState !== 'string')
      throw new CoreError({ kind: 'invalid params', problem: 'requestState must be a string' })
    return { responses, state: sealer.open(requestState, { principal: caller.principal, method, params }) }
  }

  /** Says what is asked for, or the result. */
  function said(
    outcome: Outcome<object>,
    request: RequestMessage,
    { caller }: Asking,
    { abilities }: Envelope,
  ): string {
    if (outcome.kind === 'result') {
      const members = membersOf(outcome.result)
      return complete(request.method === 'resources/read' ? `${members},${cacheHint(0)}` : members)
    }
    for (const asked of Object.values(outcome.requests)) {
      const required = missingCapability(asked, abilities)
      if (required !== undefined) throw new CoreError({ kind: 'missing ability', required })
    }
    const { method, params } = request
    const requestState = sealer.seal(outcome.state, { principal: caller.principal, method, params })
    return other({ resultType: 'input_required', inputRequests: outcome.requests, requestState })
  }

  async function call(
    method: CallMethod,
    request: RequestMessage,
    asking: Asking,
    envelope: Envelope,
  ): Promise<string> {
    const { params } = request
    const { abilities, logLevel } = envelope
    const answers = answersOf(request, asking)
    const running = beginCall({ asking, params, abilities, answers, logLevel })
    try {
      return said(await calls.call(method, params, running.context, false), request, asking, envelope)
    } finally {
      running.finish()
    }
  }

  /** A call that is answered by itself where it is quick, or has to ask before it begins, and goes on as a task otherwise. */
  async function callAsTask(tool: Tool, request: RequestMessage, asking: Asking, envelope: Envelope): Promise<string> {
    const { params } = request
    const { abilities, logLevel } = envelope
    const { caller, signal } = asking
    const controller = new AbortController()
    const leave = () => controller.abort(signal.reason)
    signal.addEventListener('abort', leave)
    let say: (message: string) => void = () => {}
    const answers = answersOf(request, asking)
    const running = beginCall({
      asking: { ...asking, signal: controller.signal },
      params,
      abilities,
      answers,
      logLevel,
    })
    const context = {
      ...running.context,
      progress: (report: Parameters<typeof running.context.progress>[0]) => {
        running.context.progress(report)
        if (report.message !== undefined) say(report.message)
      },
    }
    const first = calls.call('tools/call', params, context, false)
    let patience: NodeJS.Timeout | undefined
    const tooLong = new Promise<undefined>(resolve => {
      patience = setTimeout(resolve, parts.taskPatienceMs, undefined)
    })
    try {
      const outcome = await Promise.race([first, tooLong])
      if (outcome?.kind === 'input-required' || (outcome !== undefined && tool.task !== 'required'))
        return said(outcome, request, asking, envelope)
      const begun = tasks.begin({
        principal: caller.principal,
        abilities,
        first,
        again: more => calls.call('tools/call', params, { ...context, answers: more }, false),
        told: error => modernError(error, context.requestId).error,
        stop: reason => controller.abort(reason),
      })
      if (begun === undefined) {
        if (tool.task !== 'required') return said(await first, request, asking, envelope)
        controller.abort(new Error('there is no room for a task'))
        first.catch(() => {})
        throw new ProtocolError({ kind: 'exhausted', problem: 'there are as many tasks as there may be' })
      }
      say = begun.say
      signal.removeEventListener('abort', leave)
      return other({ resultType: 'task', ...begun.view })
    } finally {
      clearTimeout(patience)
      running.finish()
    }
  }

  function onTask({ method, params }: RequestMessage, { caller }: Asking, { takesTasks }: Envelope): string {
    if (!takesTasks) throw missingTasks()
    const { taskId } = params
    if (method === 'tasks/get') return complete(membersOf(tasks.get(taskId, caller.principal)))
    if (method === 'tasks/update') tasks.update(taskId, caller.principal, responsesOf(params.inputResponses))
    else tasks.cancel(taskId, caller.principal)
    return complete('')
  }

  async function result(request: RequestMessage, asking: ModernAsking, envelope: Envelope): Promise<string> {
    const { method, params } = request
    const { caller, headers } = asking
    if (method === 'tools/call') {
      const tool = typeof params.name === 'string' ? core.tool(params.name, caller) : undefined
      const args = isObject(params.arguments) ? params.arguments : {}
      if (headers !== undefined && tool !== undefined) checkArguments(headers, tool.definition.inputSchema, args)
      if (tool?.task === 'required' && !envelope.takesTasks) throw missingTasks()
      return tool?.task !== undefined && envelope.takesTasks
        ? callAsTask(tool, request, asking, envelope)
        : call(method, request, asking, envelope)
    }
    if (!caller.scopes.has('mcp:read')) throw new CoreError({ kind: 'insufficient scope', scopes: ['mcp:read'] })
    if (method === 'server/discover') return discover(asking)
    if (isListMethod(method)) return complete(`${lists(method, caller, params.cursor)},${cacheHint(listTtlMs)}`)
    if (isCallMethod(method)) return call(method, request, asking, envelope)
    if (taskMethods.has(method)) return onTask(request, asking, envelope)
    if (method === 'subscriptions/listen') {
      const over = await subscriptions.listen(request, asking, envelope.takesTasks)
      return `{"resultType":"complete",${membersOf(over)}}`
    }
    throw new ProtocolError({ kind: 'unknown method', method })
  }

  function envelopeOf(request: RequestMessage, headers: Headers | undefined): Envelope {
    const envelope = checkModernRequest(request, headers)
    return { ...envelope, abilities: abilitiesOf(envelope.capabilities) }
  }

  return {
    async answer(request, asking) {
      try {
        const text = await result(request, asking, envelopeOf(request, asking.headers))
        return { status: 200, text: resultText(request.id, text) }
      } catch (error) {
        const isScope = error instanceof CoreError && error.fault.kind === 'insufficient scope'
        if (isScope && asking.headers !== undefined) throw error
        const requestId = crypto.randomUUID()
        if (!isForeseen(error) && !asking.signal.aborted)
          logger.error({ err: error, request: requestId, method: request.method }, 'a request failed')
        const { error: told, status } = modernError(error, requestId)
        return { status, text: errorText(request.id, told) }
      }
    },
    close() {
      subscriptions.close()
      tasks.close()
    },
  }
}

const missingTasks = () =>
  new CoreError({ kind: 'missing ability', required: { extensions: { [tasksExtension]: {} } } })
