/**
 * `subscriptions/listen`: a request whose response is a stream of changes. The client first receives the list of its
 * subscriptions, and then only changes that it subscribes to. Each message has the id of the request. The number of
 * listeners is limited.
 */
import { z } from 'zod'
import { ProtocolError } from '../../../mcp-protocol/errors.ts'
import type { JsonObject } from '../../../mcp-protocol/json.ts'
import { metaOf, type RequestMessage } from '../../../mcp-protocol/json-rpc.ts'
import { subscriptionKey } from '../../../mcp-protocol/names.ts'
import type { Core, CoreChange } from '../../core/index.ts'
import { parseParams } from '../calls.ts'
import type { Requester } from '../context.ts'
import type { Tasks } from './tasks.ts'

const maximumListeners = 5_000
const maximumPerPrincipal = 2_000
const tooManyListeners = `at most ${maximumPerPrincipal} listeners of a caller and ${maximumListeners} in total may run`
const maximumNamed = 100

const shape = z.object({
  notifications: z.object({
    toolsListChanged: z.boolean().optional(),
    promptsListChanged: z.boolean().optional(),
    resourcesListChanged: z.boolean().optional(),
    resourceSubscriptions: z.array(z.string().max(8_192)).max(maximumNamed).optional(),
    taskIds: z.array(z.string().max(200)).max(maximumNamed).optional(),
  }),
})
type Wanted = z.infer<typeof shape>['notifications']

const listFlags = {
  tools: 'toolsListChanged',
  prompts: 'promptsListChanged',
  resources: 'resourcesListChanged',
} as const

function noticeOf(change: CoreChange, wanted: Wanted): { method: string; params: JsonObject } | undefined {
  if (change.kind !== 'resource') {
    return wanted[listFlags[change.kind]]
      ? { method: `notifications/${change.kind}/list_changed`, params: {} }
      : undefined
  }
  const isWanted = wanted.resourceSubscriptions?.includes(change.uri)
  return isWanted ? { method: 'notifications/resources/updated', params: { uri: change.uri } } : undefined
}

export class Subscriptions {
  readonly #core: Core
  readonly #tasks: Tasks
  readonly #ends = new Map<symbol, { readonly principal: string; end(): void }>()

  constructor(core: Core, tasks: Tasks) {
    this.#core = core
    this.#tasks = tasks
  }

  /**
   * Resolves with the result when the server ends the subscription, or immediately if there is nothing to subscribe to.
   * @throws CoreError, ProtocolError, or the abort reason of the requester's signal
   */
  async listen({ id, params }: RequestMessage, requester: Requester, takesTasks: boolean): Promise<JsonObject> {
    const { caller, notify } = requester
    const { notifications } = parseParams(shape, params)
    const { principal } = caller
    const ofPrincipal = [...this.#ends.values()].filter(one => one.principal === principal).length
    if (notify === undefined)
      throw new ProtocolError({ kind: 'invalid request', problem: 'Accept must include text/event-stream' })
    if (this.#ends.size >= maximumListeners || ofPrincipal >= maximumPerPrincipal)
      throw new ProtocolError({ kind: 'exhausted', problem: tooManyListeners })
    const { taskIds, ...others } = notifications
    const known = takesTasks ? taskIds?.filter(task => this.#tasks.has(task, principal)) : undefined
    const honoured: Wanted = { ...others, ...(known === undefined ? {} : { taskIds: known }) }
    const subscriptionMeta = { [subscriptionKey]: id }
    const send = (method: string, more: JsonObject) =>
      notify({ method, params: { ...more, _meta: { ...metaOf(more), ...subscriptionMeta } } })
    send('notifications/subscriptions/acknowledged', { notifications: honoured })
    const isNothing = Object.values(honoured).every(one => one === false || (Array.isArray(one) && one.length === 0))
    if (!isNothing) await this.#until(requester, honoured, send)
    return { _meta: subscriptionMeta }
  }

  /** Ends all subscriptions when the server stops. */
  close(): void {
    for (const { end } of this.#ends.values()) end()
  }

  #until(
    { signal, caller }: Requester,
    honoured: Wanted,
    send: (method: string, params: JsonObject) => void,
  ): Promise<void> {
    const { principal } = caller
    const stops = [
      ...(honoured.resourceSubscriptions ?? []).map(uri => this.#core.follow(uri, caller)),
      this.#core.onChange(change => {
        const notice = noticeOf(change, honoured)
        if (notice !== undefined) send(notice.method, notice.params)
      }),
      this.#tasks.onChange({
        principal,
        changed: (id, view) => {
          if (honoured.taskIds?.includes(id)) send('notifications/tasks', view)
        },
      }),
    ]
    const key = Symbol()
    return new Promise<void>((resolve, reject) => {
      const over = () => reject(signal.reason)
      if (signal.aborted) return over()
      signal.addEventListener('abort', over, { once: true })
      this.#ends.set(key, { principal, end: resolve })
    }).finally(() => {
      this.#ends.delete(key)
      for (const stop of stops) stop()
    })
  }
}
