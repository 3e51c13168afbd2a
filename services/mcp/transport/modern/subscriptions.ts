/**
 * `subscriptions/listen`: a request whose answer is what changes, for as long as the client listens. It promises that the client is told first what it will be told of, then that
 * only, and each time which of its requests it is told by; and that listeners are bounded in number.
 */
import { z } from 'zod'
import { ProtocolError } from '../../../mcp-protocol/errors.ts'
import type { JsonObject } from '../../../mcp-protocol/json.ts'
import { metaOf, type RequestMessage } from '../../../mcp-protocol/json-rpc.ts'
import { subscriptionKey } from '../../../mcp-protocol/names.ts'
import type { Core, CoreChange } from '../../core/index.ts'
import { parseParams } from '../calls.ts'
import type { Asking } from '../context.ts'
import type { Tasks } from './tasks.ts'

const maximumListeners = 5_000
const maximumPerPrincipal = 2_000
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

  /** Resolves with the result once the server ends it. @throws CoreError, ProtocolError; what the signal is aborted with */
  async listen({ id, params }: RequestMessage, asking: Asking, takesTasks: boolean): Promise<JsonObject> {
    const { caller, notify } = asking
    const { notifications } = parseParams(shape, params)
    const { principal } = caller
    const ofPrincipal = [...this.#ends.values()].filter(one => one.principal === principal).length
    if (notify === undefined || this.#ends.size >= maximumListeners || ofPrincipal >= maximumPerPrincipal)
      throw new ProtocolError({ kind: 'exhausted', problem: 'there are as many listeners as there may be' })
    const { taskIds, ...others } = notifications
    const known = takesTasks ? taskIds?.filter(task => this.#tasks.has(task, principal)) : undefined
    const honoured: Wanted = { ...others, ...(known === undefined ? {} : { taskIds: known }) }
    const said = { [subscriptionKey]: id }
    const tell = (method: string, more: JsonObject) =>
      notify({ method, params: { ...more, _meta: { ...metaOf(more), ...said } } })
    tell('notifications/subscriptions/acknowledged', { notifications: honoured })
    const isNothing = Object.values(honoured).every(one => one === false || (Array.isArray(one) && one.length === 0))
    if (!isNothing) await this.#until(asking, honoured, tell)
    return { _meta: said }
  }

  /** Ends all, as a server does that ends. */
  close(): void {
    for (const { end } of this.#ends.values()) end()
  }

  #until(
    { signal, caller }: Asking,
    honoured: Wanted,
    tell: (method: string, params: JsonObject) => void,
  ): Promise<void> {
    const { principal } = caller
    const stops = [
      ...(honoured.resourceSubscriptions ?? []).map(uri => this.#core.follow(uri, caller)),
      this.#core.onChange(change => {
        const notice = noticeOf(change, honoured)
        if (notice !== undefined) tell(notice.method, notice.params)
      }),
      this.#tasks.onChange({
        principal,
        changed: (id, view) => {
          if (honoured.taskIds?.includes(id)) tell('notifications/tasks', view)
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
